package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// zones is how many zones the shards lie in. All numbers of shards measured are multiples of it, and no
// subset is larger.
const zones = 4

// zoneOf is the zone of a shard: they take turns, so that a shard added to equal zones comes to the first.
func zoneOf(shard int) int { return shard % zones }

func zoneName(zone int) string { return fmt.Sprintf("zone-%c", 'a'+zone) }

// errUnsuited is what build gives for a shape that the scheme's own documentation does not want.
var errUnsuited = errors.New("the scheme is not for this shape")

// contender is a way to choose subsets.
type contender struct {
	name     string
	timeOnly bool            // another contender gives the same subsets
	grow     func(shape) int // shards after growing; nil is one more
	build    func(s shape, ids []string) (*subject, error)
}

var contenders = []contender{
	{name: "cellwall `hmac/v1`", build: hmacV1},
	{name: "cellwall `rendezvous/v1`, one zone", build: rendezvousV1(1)},
	{name: "cellwall `rendezvous/v1`, 4 zones", build: rendezvousV1(zones)},
	{name: "cellwall `bounded/v1`, 4 zones", build: boundedV1, grow: nextBounded},
	{name: "apiserver dealer on SHA-256", build: dealer},
	{name: "apiserver dealer, hash given", build: dealerAlone, timeOnly: true},
	{name: "go-rendezvous, salted", build: salted},
	{name: "dskit ring", build: ringOf(ringConfig{})},
	{name: "dskit ring, cached", build: ringOf(ringConfig{cached: true}), timeOnly: true},
	{name: "dskit ring, 4 zones", build: ringOf(ringConfig{zoned: true})},
	{name: "dskit ring, 4 zones, spread-minimizing", build: ringOf(ringConfig{zoned: true, spread: true})},
}

// subject is a contender with its shards and its tenants, who are numbered by their place in the
// population.
type subject struct {
	slots  int                               // tenants that it can place; 0 is any number
	lookup func(tenant int)                  // what is timed: the subset in the scheme's own form; not for concurrent use
	append func(dst []int, tenant int) []int // appends the numbers of the subset's shards; for concurrent use
	close  func()
}

// population is the ids of that many tenants.
func population(tenants int) []string {
	ids := make([]string, tenants)
	for i := range ids {
		ids[i] = fmt.Sprintf("org-%06d", i)
	}
	return ids
}

// subsets holds k shard numbers for each tenant, one tenant after the other.
type subsets struct {
	k       int
	members []int
}

func (s subsets) tenants() int              { return len(s.members) / s.k }
func (s subsets) of(tenant int) []int       { return s.members[tenant*s.k : (tenant+1)*s.k : (tenant+1)*s.k] }
func (s subsets) first(tenants int) subsets { return subsets{s.k, s.members[:tenants*s.k]} }

// place asks for the subsets of the first tenants, on all processors.
func place(s *subject, k, tenants int) subsets {
	out := subsets{k, make([]int, tenants*k)}
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w * tenants / workers; i < (w+1)*tenants/workers; i++ {
				if got := s.append(out.of(i)[:0], i); len(got) != k {
					panic(fmt.Sprintf("tenant %d has %d shards instead of %d", i, len(got), k))
				}
			}
		})
	}
	wg.Wait()
	return out
}
