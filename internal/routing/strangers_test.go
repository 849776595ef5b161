package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// TestATenantThatCame: a front door knows by which entry it sent a tenant here. What is remembered of before is not
// held against it; and nobody else can have the directory asked so.
func TestATenantThatCame(t *testing.T) {
	came := pinned("acme", "s01")
	came.Epoch = 9
	left, was := came, came
	left.Cell, left.Epoch = "us-1", 7
	was.Epoch, was.State = 7, directory.Suspended
	for name, old := range map[string]Known{"was elsewhere": {Entry: left}, "was unknown": {}, "was suspended": {Entry: was}} {
		for _, c := range []struct {
			front        bool
			epoch        []string
			served, asks bool
		}{
			{true, []string{"9"}, true, true},
			{true, []string{"8"}, true, true},
			{true, []string{fmt.Sprint(old.Epoch)}, false, false},
			{true, nil, false, false},
			{true, []string{"9", "9"}, false, false},
			{true, []string{"-9"}, false, false},
			{false, []string{"9"}, false, false},
		} {
			entries := &returning{old: old, now: Known{Entry: came}}
			config := testConfig(fixed{}, naming)
			config.Entries = entries
			req := &Request{Method: "POST", Path: "/x", FrontDoor: c.front, Header: http.Header{HeaderEpoch: c.epoch}}
			resp := newEngine(t, config).Serve(t.Context(), "acme", req)
			if (resp.Status == 200) != c.served || (entries.afresh > 0) != c.asks {
				t.Errorf("%s, front door %t with epoch %q: answered %d after %d readings afresh", name, c.front, c.epoch, resp.Status, entries.afresh)
			}
		}
	}
}

// TestATenantThatMayCome: a directory that does not know what the front door knows is believed; one that does not
// answer is no word against what is known.
func TestATenantThatMayCome(t *testing.T) {
	here := pinned("acme", "s01")
	elsewhere := here
	elsewhere.Cell = "us-1"
	for name, c := range map[string]struct {
		old, now Known
		err      error
		status   int
	}{
		"no news of a tenant that is here":      {Known{Entry: here}, Known{Entry: here}, nil, 200},
		"no news of a tenant that is elsewhere": {Known{Entry: elsewhere}, Known{Entry: elsewhere}, nil, 421},
		"no answer, and it is here":             {Known{Entry: here}, Known{}, errors.New("down"), 200},
		"no answer, and it is elsewhere":        {Known{Entry: elsewhere}, Known{}, errors.New("down"), 421},
		"no answer, and it is unknown":          {Known{}, Known{}, errors.New("down"), 404},
	} {
		config := testConfig(fixed{}, naming)
		config.Entries = &returning{c.old, c.now, c.err, 0}
		req := &Request{Method: "POST", Path: "/x", FrontDoor: true, Header: http.Header{HeaderEpoch: {"99"}}}
		if resp := newEngine(t, config).Serve(t.Context(), "acme", req); resp.Status != c.status {
			t.Errorf("%s: answered %d, want %d", name, resp.Status, c.status)
		}
	}
}

// returning is Entries that remember an old entry, or none, while the directory has one of now.
type returning struct {
	old, now Known
	err      error // of reading afresh
	afresh   int
}

func (r *returning) Entry(context.Context, string) (Known, error) {
	if r.old.Epoch == 0 {
		return r.old, directory.ErrNotFound
	}
	return r.old, nil
}

func (r *returning) Fresh(context.Context, string, uint64) (Known, error) {
	r.afresh++
	return r.now, r.err
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
