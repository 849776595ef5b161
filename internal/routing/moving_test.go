package routing

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// shardsOf returns which shards were asked, in order.
func shardsOf(o Outcome) []string {
	var shards []string
	for _, a := range o.Attempts {
		shards = append(shards, a.Shard)
	}
	return shards
}

// TestMisdirectedIsFollowed: once, to a higher epoch, and no client hears of it.
func TestMisdirectedIsFollowed(t *testing.T) {
	tests := []struct {
		name   string
		fresh  directory.Entry
		status int
		asked  []string
	}{
		{"moved within the cell", func() directory.Entry { e := pinned("acme", "s05"); e.Epoch = 8; return e }(), 200, []string{"s01", "s05"}},
		{"same shard, newer epoch", func() directory.Entry { e := pinned("acme", "s01"); e.Epoch = 8; return e }(), 200, []string{"s01", "s01"}},
		{"moved away", func() directory.Entry { e := pinned("acme", "s05"); e.Epoch, e.Cell = 8, "us-1"; return e }(), 404, []string{"s01"}},
		{"older epoch is no news", func() directory.Entry { e := pinned("acme", "s05"); e.Epoch = 6; return e }(), 503, []string{"s01"}},
		{"no news", pinned("acme", "s01"), 503, []string{"s01"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reads := 0
			c := testConfig(lookup(func(string) (directory.Entry, error) {
				if reads++; reads == 1 {
					return pinned("acme", "s01"), nil
				}
				return test.fresh, nil
			}), sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
				if call.Epoch == 8 {
					return ok(""), nil
				}
				return &Response{Status: http.StatusMisdirectedRequest}, nil
			}))
			var seen Outcome
			c.Observe = func(o Outcome) { seen = o }
			// A POST: the 421 came before any effect.
			resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"})
			if resp.Status != test.status {
				t.Errorf("status %d, want %d", resp.Status, test.status)
			}
			if got := shardsOf(seen); !slices.Equal(got, test.asked) {
				t.Errorf("asked %v, want %v", got, test.asked)
			}
			if reads != 2 {
				t.Errorf("%d reads of the directory, want 2", reads)
			}
		})
	}
}

// TestANewEntryIsFollowedOnce, however often the next one comes and is refused, too.
func TestANewEntryIsFollowedOnce(t *testing.T) {
	reads := 0
	c := testConfig(lookup(func(string) (directory.Entry, error) {
		reads++
		e := pinned("acme", "s01", "s02")
		e.Epoch = uint64(reads)
		return e, nil
	}), sender(func(context.Context, Call, *Request) (*Response, error) {
		return &Response{Status: http.StatusMisdirectedRequest}, nil
	}))
	var seen Outcome
	c.Observe = func(o Outcome) { seen = o }
	wantProblem(t, newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"}), 503)
	if reads != 2 || len(seen.Attempts) != 3 || seen.Fallbacks != 2 {
		t.Errorf("the entry was read %d times, and sent to %v", reads, shardsOf(seen))
	}
}

// TestAWriteThatMeetsAMoveWaits, also when it is a shard that first knows of it.
func TestAWriteThatMeetsAMoveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := testConfig(lookup(func(string) (directory.Entry, error) {
			reads++
			e := pinned("acme", "s01")
			switch {
			case reads == 2:
				e.Epoch, e.State = 8, directory.Moving
			case reads > 2:
				e.Epoch, e.Pins = 9, []string{"s02"}
			}
			return e, nil
		}), sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			if call.Epoch < 9 {
				return &Response{Status: http.StatusMisdirectedRequest}, nil
			}
			return ok(call.Shard), nil
		}))
		if resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/x"}); string(resp.Body) != "s02" || reads != 3 {
			t.Errorf("answered %d %s after %d readings", resp.Status, resp.Body, reads)
		}
	})
}

// TestHeldWrites: a write waits for its tenant's move, as long as four look-ups take, and reads do not.
func TestHeldWrites(t *testing.T) {
	for _, single := range []bool{false, true} {
		for name, test := range map[string]struct {
			method  string
			over    int // the look-up that finds the move over; 0 never
			timeout time.Duration
			status  int
			looks   int
		}{
			"read":                      {method: "GET", timeout: time.Minute, status: 200, looks: 1},
			"write, over at once":       {method: "PUT", over: 2, timeout: time.Minute, status: 200, looks: 2},
			"write, over at last":       {method: "POST", over: 4, timeout: time.Minute, status: 200, looks: 4},
			"write, over too late":      {method: "POST", over: 5, timeout: time.Minute, status: 503, looks: 4},
			"write, never over":         {method: "DELETE", timeout: time.Minute, status: 503, looks: 4},
			"write without time":        {method: "PUT", over: 2, timeout: 100 * time.Millisecond, status: 503, looks: 1},
			"write with time for one":   {method: "PUT", timeout: 374_500 * time.Microsecond, status: 503, looks: 2}, // the first wait is 374 ms at most, and the second 250 at least,
			"write, whose directory is": {method: "PUT", over: -1, timeout: time.Minute, status: 503, looks: 4},
		} {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				c := testConfig(lookup(func(string) (directory.Entry, error) {
					looks++
					e := pinned("acme", "s01")
					switch {
					case test.over > 0 && looks >= test.over:
						e.Epoch++
						e.Pins = []string{"s02"}
					case test.over < 0 && looks > 1:
						e.Epoch++
						return e, errors.New("down") // what comes with an error is no word
					default:
						e.State = directory.Moving
					}
					return e, nil
				}), naming)
				c.Single, c.Timeout, c.Pick = single, test.timeout, random(t)
				start := time.Now()
				resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: test.method, Path: "/x"})
				took := time.Since(start) // by the bubble's clock
				if resp.Status != test.status || looks != test.looks {
					t.Errorf("%s: answered %d after %d look-ups, want %d after %d", name, resp.Status, looks, test.status, test.looks)
				}
				if resp.Status == 503 && resp.Header.Get("Retry-After") != "2" {
					t.Errorf("%s: Retry-After %q", name, resp.Header.Get("Retry-After"))
				}
				if want := "s02"; test.over > 0 && resp.Status == 200 && string(resp.Body) != want {
					t.Errorf("%s: served by %s, want %s, where it moved to", name, resp.Body, want)
				}
				if took > min(test.timeout, 2625*time.Millisecond) || test.status == 503 && test.looks == 4 && took < 875*time.Millisecond {
					t.Errorf("%s: took %v", name, took)
				}
			})
		}
	}
}

// TestAClientThatLeavesDoesNotWait for the end of a move.
func TestAClientThatLeavesDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moving := pinned("acme", "s01")
		moving.State = directory.Moving
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c := testConfig(fixed{"acme": moving}, naming)
		start := time.Now()
		leaving, leave := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, leave)
		wantProblem(t, newEngine(t, c).Serve(leaving, "acme", &Request{Method: "PUT", Path: "/x"}), 503)
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("waited %v", took)
		}
	})
}

// TestASuspensionThatIsOver is seen with the first request after it, however long the entry is remembered for.
func TestASuspensionThatIsOver(t *testing.T) {
	suspended := pinned("acme", "s01")
	suspended.State = directory.Suspended
	resumed := pinned("acme", "s01")
	resumed.Epoch++
	for name, test := range map[string]struct {
		age    time.Duration
		fresh  directory.Entry
		status int
	}{
		"over":              {time.Minute, resumed, 200},
		"not over":          {time.Minute, suspended, 403},
		"read a moment ago": {doubtAfter, resumed, 403},
	} {
		c := testConfig(fixed{}, naming)
		c.Entries = remembered{Known{Entry: suspended, Age: test.age}, Known{Entry: test.fresh}}
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		if resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x")); resp.Status != test.status || (seen.Err == nil) != (test.status == 200) {
			t.Errorf("%s: answered %d, want %d; operators are told %v", name, resp.Status, test.status, seen.Err)
		}
	}
}

// remembered is Entries that know one tenant, and what is read afresh of it.
type remembered struct{ entry, fresh Known }

func (r remembered) Entry(context.Context, string) (Known, error)         { return r.entry, nil }
func (r remembered) Fresh(context.Context, string, uint64) (Known, error) { return r.fresh, nil }

// TestWhoIsServedIsNotAskedForAgain, however old the entry is: while the directory is down, that is all there is.
func TestWhoIsServedIsNotAskedForAgain(t *testing.T) {
	for _, state := range []directory.State{directory.Active, directory.Moving} {
		e := pinned("acme", "s01")
		e.State = state
		reads := map[string]int{}
		c := testConfig(fixed{}, naming)
		c.Entries = aged{fixed{"acme": e}, 24 * time.Hour, reads}
		var seen Outcome
		c.Observe = func(o Outcome) { seen = o }
		resp := newEngine(t, c).Serve(t.Context(), "acme", get("/x"))
		if resp.Status != 200 || reads["acme"] != 1 || seen.Age != 24*time.Hour || !seen.Stale {
			t.Errorf("%s: answered %d after %d readings, want one; operators are told %v, %t", state, resp.Status, reads["acme"], seen.Age, seen.Stale)
		}
	}
}
