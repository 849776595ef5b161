package localcell

import (
	"context"
	"net"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// TestOperatorsDoNotWaitForEver: a directory and a store that take connections and answer nothing, as those that
// hang on purpose do, end an operator's question, and each is called by its name.
func TestOperatorsDoNotWaitForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for as long as an operator does")
	}
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hung.Close() })
	r := &Running{DirectoryURL: "http://" + hung.Addr().String(), Store: "http://" + hung.Addr().String()}
	home, err := r.Directory()
	if err != nil {
		t.Fatal(err)
	}
	holder, err := r.Holder()
	if err != nil {
		t.Fatal(err)
	}
	for whom, ask := range map[string]func(context.Context) error{
		"the directory": func(ctx context.Context) error {
			_, err := home.Read(ctx, directory.Strong, directory.Key{Part: "p", Sort: "s"})
			return err
		},
		"the store": func(ctx context.Context) error {
			return holder.Hold(ctx, "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 1})
		},
	} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*askLimit)
			defer cancel()
			if err := ask(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "ask "+whom+": ") {
				t.Errorf("%v; %v", err, ctx.Err())
			}
		})
	}
}
