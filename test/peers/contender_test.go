package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/dgryski/go-rendezvous"
)

// Every scheme gives k different shards, the same ones when it is asked again.
func TestContendersGiveWholeSubsets(t *testing.T) {
	ids := population(asked)
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			built := 0
			for _, s := range shapes {
				one, err := c.build(s, ids)
				if errors.Is(err, errUnsuited) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				defer one.close()
				built++
				other, err := c.build(s, ids)
				if err != nil {
					t.Fatal(err)
				}
				defer other.close()
				tenants := 64
				if one.slots > 0 {
					tenants = min(tenants, one.slots)
				}
				first, again := place(one, s.k, tenants), place(other, s.k, tenants)
				for i := range tenants {
					one.lookup(i)
					members, repeated := slices.Sorted(slices.Values(first.of(i))), slices.Sorted(slices.Values(again.of(i)))
					if len(slices.Compact(slices.Clone(members))) != s.k || members[0] < 0 || members[s.k-1] >= s.n {
						t.Fatalf("tenant %d has %v of %d shards", i, members, s.n)
					}
					if !slices.Equal(members, repeated) {
						t.Fatalf("tenant %d has %v of %d shards, then %v", i, members, s.n, repeated)
					}
				}
			}
			if built == 0 {
				t.Error("it is measured in no shape")
			}
		})
	}
}

// What the figures say of bounded/v1 is what it promises, over all its slots.
func TestBoundedKeepsItsPromise(t *testing.T) {
	for _, s := range []shape{{16, 2}, {16, 4}, {64, 3}, {64, 4}} {
		b, err := boundedV1(s, population(capacity(s)))
		if err != nil {
			t.Fatal(err)
		}
		if got := overlapOf(place(b, s.k, b.slots)).most(); got != maxShared(s.k) {
			t.Errorf("%d of %d: two of %d tenants share %d shards, want %d at most, and that reached", s.k, s.n, b.slots, got, maxShared(s.k))
		}
	}
}

// The reason to ask go-rendezvous with salt: it cannot take a node out, so that the second best is not to
// be had. When this fails, measure it without the winner instead.
func TestGoRendezvousCannotRemove(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Remove does not panic any more")
		}
	}()
	rendezvous.New([]string{"a", "b", "c"}, xxhash.Sum64String).Remove("a")
}

// The reason to measure dskit's zone awareness only where k is a multiple of the zones: it rounds up.
func TestRingRoundsUpOverZones(t *testing.T) {
	c := ringConfig{zoned: true}
	desc, err := instances(16, c.spread)
	if err != nil {
		t.Fatal(err)
	}
	r, stop, err := start(desc, c)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for k := 1; k <= zones; k++ {
		if got := r.ShuffleShard("org-000001", k).InstancesCount(); got != zones {
			t.Errorf("asked for %d the ring gives %d, and not one of each of %d zones", k, got, zones)
		}
	}
}
