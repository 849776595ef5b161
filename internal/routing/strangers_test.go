package routing

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// TestNoDefaultShard: strangers are answered alike, whatever they ask for, and no shard is asked.
func TestNoDefaultShard(t *testing.T) {
	elsewhere := pinned("elsewhere", "s01")
	elsewhere.Cell = "us-1"
	moved := elsewhere
	moved.State = directory.Moving
	dir := fixed{"elsewhere": elsewhere, "moved": moved}
	for _, age := range []time.Duration{0, time.Hour} {
		reads := map[string]int{}
		c := testConfig(dir, sender(func(context.Context, Call, *Request) (*Response, error) {
			t.Error("a shard was asked")
			return ok(""), nil
		}))
		c.Entries = aged{dir, age, reads}
		e := newEngine(t, c)
		for _, method := range methods {
			for _, front := range []bool{false, true} {
				req := &Request{Method: method, Path: "/x", FrontDoor: front}
				unknown := e.Serve(t.Context(), "mallory", req)
				wantProblem(t, unknown, 404)
				for _, tenant := range []string{"elsewhere", "moved"} {
					resp := e.Serve(t.Context(), tenant, req)
					if front {
						wantProblem(t, resp, 421)
					} else if diff := cmp.Diff(unknown, resp); diff != "" {
						t.Errorf("%s can be told from a tenant that is none:\n%s", tenant, diff)
					}
				}
			}
		}
		if reads["mallory"] != reads["elsewhere"] || reads["mallory"] != reads["moved"] {
			t.Errorf("entries were asked for %v times: how long an answer takes tells who is known", reads)
		}
	}
}

// aged is Entries that are remembered for so long, and counts how often each is asked for.
type aged struct {
	getter
	age   time.Duration
	reads map[string]int
}

func (a aged) Entry(ctx context.Context, tenant string) (Known, error) {
	a.reads[tenant]++
	e, err := a.Get(ctx, tenant)
	return Known{Entry: e, Age: a.age, Stale: true}, err
}

func (a aged) Fresh(ctx context.Context, tenant string, _ uint64) (Known, error) {
	return a.Entry(ctx, tenant)
}
