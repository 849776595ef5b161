package routing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// ledger is a store that all shards reach. It keeps the record of a key in the transaction of the effect, as the
// shard kit does, and counts effects.
type ledger struct {
	mu      sync.Mutex
	records map[string]string // body by key
	effects map[string]int    // by body, which is the request's name
}

// execute does what a request asks for.
func (l *ledger) execute(req *Request) *Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, key := string(req.Body), req.Header.Get("Idempotency-Key")
	if key != "" {
		if was, done := l.records[key]; done && was != body {
			return &Response{Status: 422}
		} else if done {
			return &Response{Status: 201}
		}
	}
	if req.Header.Get("If-None-Match") != "" && l.effects[body] > 0 {
		return &Response{Status: 412} // a refusal, of which no record is kept
	}
	if key != "" {
		l.records[key] = body
	}
	l.effects[body]++
	return &Response{Status: 201}
}

func (l *ledger) count(body string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effects[body]
}

// faults are what may become of one sending: whether, and how much later, the shard executes it, and what the
// router sees of that.
type faults struct {
	*ledger
	t     *testing.T
	mu    sync.Mutex
	draw  *rand.Rand
	epoch uint64         // of the directory
	maybe map[string]int // sendings by body after which an effect was possible
	after map[string]int // sendings by body that came after such a one
}

func (f *faults) intN(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draw.IntN(n)
}

// Send implements Transport. It goes on when the router has left, whatever the router told it of deadlines.
func (f *faults) Send(ctx context.Context, call Call, req *Request) (*Response, error) {
	r := *req
	r.Header = req.Header.Clone()
	name := string(r.Body)
	f.mu.Lock()
	if f.maybe[name] > 0 {
		f.after[name]++
	}
	stale := call.Epoch < f.epoch
	f.mu.Unlock()
	possible := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.maybe[name]++
	}
	if stale {
		return &Response{Status: 421}, nil
	}
	switch f.intN(16) {
	case 0:
		return nil, fmt.Errorf("refused: %w", ErrNotSent)
	case 1:
		return nil, ErrThrottled
	case 2:
		return &Response{Status: 421}, nil // the shard is behind
	case 3: // the request is lost on its way
		possible()
		return nil, errors.New("reset")
	case 4: // the answer is lost
		possible()
		f.execute(&r)
		return nil, errors.New("reset")
	case 5: // it crashes after the effect, and its load balancer says so
		possible()
		f.execute(&r)
		return &Response{Status: []int{502, 503, 504}[f.intN(3)]}, nil
	case 6: // it crashes before
		possible()
		return &Response{Status: []int{502, 503, 504}[f.intN(3)]}, nil
	case 7:
		possible()
		if f.intN(2) == 0 {
			f.execute(&r)
		}
		panic("a fault of the transport")
	case 8, 9, 10: // it is slow: in time, a moment too late, or long after everybody left
		possible()
		took := time.Duration(f.intN(40_000)) * time.Millisecond
		done := make(chan *Response, 1)
		go func() {
			time.Sleep(took)
			done <- f.execute(&r)
		}()
		select {
		case resp := <-done:
			return resp, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case 11: // it wakes up when the router leaves, and both race
		possible()
		<-ctx.Done()
		go f.execute(&r)
		return nil, ctx.Err()
	case 12: // it fails by a fault of its own, before the effect or after
		possible()
		if f.intN(2) == 0 {
			f.execute(&r)
		}
		return &Response{Status: 500}, nil
	}
	possible()
	return f.execute(&r), nil
}

// TestKeyedOnce runs random schedules of faults, of changes of the directory, and of clients who repeat, two at a
// time with the same key. A POST without a key is never repeated after it may have been executed.
func TestKeyedOnce(t *testing.T) {
	base := rand.Uint64()
	t.Logf("seed %d", base)
	executed, repeated := 0, 0
	for schedule := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			f := &faults{
				ledger: &ledger{records: map[string]string{}, effects: map[string]int{}}, t: t, epoch: 7,
				draw: rand.New(rand.NewPCG(base, schedule)), maybe: map[string]int{}, after: map[string]int{},
			}
			c := testConfig(lookup(func(string) (directory.Entry, error) {
				e := pinned("acme", "s01", "s02", "s03")
				f.mu.Lock()
				defer f.mu.Unlock()
				e.Epoch = f.epoch
				return e, nil
			}), f)
			c.Pick, c.IdempotencyKeys, c.Timeout = f.intN, true, 28*time.Second
			c.Single = f.intN(2) == 0
			c.AttemptTimeout = time.Duration(f.intN(2)) * 5 * time.Second
			e := newEngine(t, c)
			var wg sync.WaitGroup
			for n := range 6 {
				name := fmt.Sprintf("request %d", n)
				header := http.Header{"Content-Type": {"text/plain"}}
				clients := 1
				if n%2 == 0 {
					header.Set("Idempotency-Key", fmt.Sprintf("%q", name))
					clients += f.intN(2)
				}
				for range clients {
					wg.Go(func() {
						for range 3 {
							time.Sleep(time.Duration(f.intN(2000)) * time.Millisecond)
							resp := e.Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/orders", Header: header, Body: []byte(name)})
							if resp.Status == 421 {
								t.Errorf("schedule %d: a client was told 421", schedule)
							}
							if resp.Status == 201 && f.count(name) != 1 {
								t.Errorf("schedule %d: %s is acknowledged after %d effects", schedule, name, f.count(name))
							}
							if resp.Status == 201 || n%2 == 1 {
								return // a client without a key does not repeat
							}
						}
					})
				}
			}
			for range 4 {
				time.Sleep(time.Duration(f.intN(8000)) * time.Millisecond)
				f.mu.Lock()
				f.epoch++
				f.mu.Unlock()
			}
			wg.Wait()
			time.Sleep(time.Minute) // who is late does what it was sent for
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			for n := range 6 {
				name := fmt.Sprintf("request %d", n)
				if f.count(name) > 1 {
					t.Errorf("schedule %d: %s was executed %d times", schedule, name, f.count(name))
				}
				if n%2 == 1 && f.after[name] > 0 {
					t.Errorf("schedule %d: %s has no key, and was sent again after it may have been executed", schedule, name)
				}
				executed += f.count(name)
				repeated += f.after[name]
			}
		})
	}
	if executed < 1000 || repeated < 300 {
		t.Errorf("%d requests were executed and %d repeated although they may have been: the test shows nothing", executed, repeated)
	}
}

// TestPreconditions runs the same faults against writes that are to be done only once, by If-None-Match: with a key,
// whose repeat gives the first answer, and without. Nobody is told 412 for what its own request did.
func TestPreconditions(t *testing.T) {
	base := rand.Uint64()
	t.Logf("seed %d", base)
	done, unknown, repeated := 0, 0, 0
	for schedule := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			f := &faults{
				ledger: &ledger{records: map[string]string{}, effects: map[string]int{}}, t: t,
				draw: rand.New(rand.NewPCG(base, schedule)), maybe: map[string]int{}, after: map[string]int{},
			}
			c := testConfig(fixed{"acme": pinned("acme", "s01", "s02", "s03")}, f)
			c.Pick, c.IdempotencyKeys, c.Timeout, c.Single = f.intN, true, 28*time.Second, f.intN(2) == 0
			e := newEngine(t, c)
			var wg sync.WaitGroup
			statuses := make([]int, 6)
			for n := range statuses {
				name := fmt.Sprintf("request %d", n)
				header := http.Header{"If-None-Match": {"*"}}
				if n%2 == 0 {
					header.Set("Idempotency-Key", fmt.Sprintf("%q", name))
				}
				wg.Go(func() {
					statuses[n] = e.Serve(t.Context(), "acme", &Request{Method: "PUT", Path: "/orders/1", Header: header, Body: []byte(name)}).Status
				})
			}
			wg.Wait()
			time.Sleep(time.Minute) // who is late does what it was sent for
			synctest.Wait()
			for n, status := range statuses {
				name := fmt.Sprintf("request %d", n)
				switch effects := f.count(name); {
				case status == 412, effects > 1, status == 201 && effects != 1:
					t.Errorf("schedule %d: %s is answered %d after %d effects", schedule, name, status, effects)
				case status == 201:
					done++
				default:
					unknown++
				}
				if n%2 == 1 && f.after[name] > 0 {
					t.Errorf("schedule %d: %s has no key, and was sent again after it may have been done", schedule, name)
				}
				repeated += f.after[name]
			}
		})
	}
	if done < 500 || unknown < 50 || repeated < 100 {
		t.Errorf("%d writes were done, %d unknown, and %d sendings repeated: the test shows nothing", done, unknown, repeated)
	}
}
