package shardqueue

import (
	"errors"
	"testing"

	"cellwall.dev/cellwall/internal/routing"
)

// TestLazy: a client is made when it is first needed, and one that cannot be made has sent nothing.
func TestLazy(t *testing.T) {
	why, made := errors.New("no configuration"), 0
	transport := New(Lazy(func() (Client, error) { made++; return nil, why }), func(string) string { return "q" })
	if made > 0 {
		t.Error("the client was made before anything was asked of it")
	}
	_, err := transport.Send(t.Context(), routing.Call{Tenant: "acme", Epoch: 1, Shard: "s01"}, &routing.Request{Method: "POST", Path: "/"})
	if !errors.Is(err, routing.ErrNotSent) || !errors.Is(err, why) {
		t.Errorf("%v, want that nothing was sent, and why", err)
	}
}
