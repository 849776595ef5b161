package routing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleetOf lets requests be served by one router of many, or by environments of which each serves one at a time: the
// one that was free last, and a new one when none is. Both are how AWS and a process do it.
type fleetOf struct {
	single bool
	made   func() *Engine
	mu     sync.Mutex
	free   []*Engine
	all    int
}

func (f *fleetOf) take() *Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.free); n > 0 {
		e := f.free[n-1]
		if f.single {
			f.free = f.free[:n-1]
		}
		return e
	}
	f.all++
	e := f.made()
	if !f.single {
		f.free = append(f.free, e)
	}
	return e
}

func (f *fleetOf) give(e *Engine) {
	if f.single {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.free = append(f.free, e)
	}
}

// TestABadShardIsAFootnote: one of 16 shards is killed, hangs, is slow, throttles or answers 500 for half a minute
// under load, with k = 2. No idempotent request fails; whoever has nothing to do with the shard notices nothing,
// by a clock that counts no processor time; and nobody waits for longer than one attempt and another.
func TestABadShardIsAFootnote(t *testing.T) {
	const (
		tenants, requests = 100, 150
		usual, attempt    = 5 * time.Millisecond, time.Second
		begins, ends      = 8 * time.Second, 38 * time.Second
	)
	var shards []string
	for n := range 16 {
		shards = append(shards, fmt.Sprintf("s%02d", n+1))
	}
	top := topology(1, shards...)
	entries := fixed{}
	affected := map[string]bool{}
	bad := computed(t, top, at(1, "tenant-0"))[0]
	for n := range tenants {
		id := fmt.Sprintf("tenant-%d", n)
		entries[id] = at(1, id)
		affected[id] = slices.Contains(computed(t, top, entries[id]), bad)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, how := range []string{"kill", "hang", "slow", "throttle", "wrong"} {
		for _, single := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var mu sync.Mutex
				draw := rand.New(rand.NewPCG(seed, 0))
				pick := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return draw.IntN(n)
				}
				sent := 0 // to the bad shard while it is
				c := testConfig(entries, sender(func(ctx context.Context, call Call, _ *Request) (*Response, error) {
					takes := usual
					if since := time.Since(start); call.Shard == bad && since >= begins && since < ends {
						mu.Lock()
						sent++
						mu.Unlock()
						switch how {
						case "kill":
							return nil, fmt.Errorf("refused: %w", ErrNotSent)
						case "throttle":
							return nil, ErrThrottled
						case "wrong":
							time.Sleep(usual / 5)
							return &Response{Status: 500}, nil
						case "slow":
							takes = 10 * usual
						case "hang":
							takes = time.Hour
						}
					}
					select {
					case <-time.After(takes):
						return ok(""), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}))
				c.Topologies, c.Pick, c.Single, c.AttemptTimeout = published{1: top}, pick, single, attempt
				routers := &fleetOf{single: single, made: func() *Engine {
					e, err := New(c)
					if err != nil {
						panic(err)
					}
					return e
				}}
				slowest, failed, waited := time.Duration(0), 0, 0
				var wg sync.WaitGroup
				for id := range entries {
					wg.Go(func() {
						for range requests {
							time.Sleep(time.Duration(200+pick(200)) * time.Millisecond)
							e := routers.take()
							before := time.Now()
							resp := e.Serve(t.Context(), id, &Request{Method: []string{"GET", "PUT"}[pick(2)], Path: "/x"})
							took := time.Since(before)
							routers.give(e)
							mu.Lock()
							if resp.Status != 200 {
								failed++
							}
							if took > usual {
								waited++
								if !affected[id] {
									t.Errorf("%s, one at a time %t: %s, whose shards are well, waited %v", how, single, id, took)
								}
							}
							slowest = max(slowest, took)
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				if failed > 0 || slowest > attempt+usual {
					t.Errorf("%s, one at a time %t: %d requests failed, the slowest took %v", how, single, failed, slowest)
				}
				if sent == 0 {
					t.Errorf("%s: the shard was not asked: the test shows nothing", how)
				}
				t.Logf("%s, one at a time %t: %d of %d requests took longer than %v, the slowest %v; %d were sent to the bad shard; %d routers",
					how, single, waited, tenants*requests, usual, slowest, sent, routers.all)
			})
		}
	}
}
