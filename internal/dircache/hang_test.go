package dircache_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// hanging is a directory that answers when it is told to stop, from its nth reading on.
type hanging struct {
	fixed
	n     int
	reads int
}

func (h *hanging) Get(ctx context.Context, tenant string) (directory.Entry, error) {
	if h.reads++; h.reads >= h.n {
		<-ctx.Done()
		return directory.Entry{}, ctx.Err()
	}
	return h.fixed.Get(ctx, tenant)
}

// TestDirectoryHangs: it costs a request one look-up's time, at the first reading and at that after a 421.
func TestDirectoryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{0, 300 * time.Millisecond} {
			for n := range 2 {
				dir := &hanging{fixed: fixed{"acme": pinned("acme", "s01")}, n: n + 1}
				c := testConfig(newCache(t, dircache.Config{Directory: dir, LookUp: limit}), sender(func(context.Context, routing.Call, *routing.Request) (*routing.Response, error) {
					return &routing.Response{Status: http.StatusMisdirectedRequest}, nil
				}))
				start := time.Now()
				resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
				want := limit
				if want == 0 {
					want = time.Second
				}
				if took := time.Since(start); took != want { // by the bubble's clock
					t.Errorf("limit %v, reading %d: the request took %v", limit, n+1, took)
				}
				wantProblem(t, resp, 503)
			}
		}
	})
}
