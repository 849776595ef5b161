package placement

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAnew(t *testing.T) {
	placer := func(c Config) *Placer {
		t.Helper()
		if c.Key == nil {
			c.Key = []byte("k")
		}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	swapped := numbered(4)
	swapped[0], swapped[3] = swapped[3], swapped[0]
	renamed := numbered(4)
	renamed[1].ID = "other"
	for _, c := range []struct {
		name string
		a, b Config
		want bool
	}{
		{"the same", Config{Scheme: HMACv1, Shards: numbered(4)}, Config{Scheme: HMACv1, Shards: numbered(4)}, false},
		{"hmac, one more", Config{Scheme: HMACv1, Shards: numbered(4)}, Config{Scheme: HMACv1, Shards: numbered(5)}, true},
		{"hmac, another order", Config{Scheme: HMACv1, Shards: numbered(4)}, Config{Scheme: HMACv1, Shards: swapped}, true},
		{"hmac, one taken over", Config{Scheme: HMACv1, Shards: numbered(4)}, Config{Scheme: HMACv1, Shards: renamed}, false},
		{"rendezvous, one more", Config{Scheme: RendezvousV1, Shards: numbered(4)}, Config{Scheme: RendezvousV1, Shards: numbered(5)}, false},
		{"rendezvous, another order", Config{Scheme: RendezvousV1, Shards: numbered(4)}, Config{Scheme: RendezvousV1, Shards: swapped}, false},
		{"another scheme", Config{Scheme: HMACv1, Shards: numbered(4)}, Config{Scheme: RendezvousV1, Shards: numbered(4)}, true},
		{"another key", Config{Scheme: RendezvousV1, Shards: numbered(4)}, Config{Scheme: RendezvousV1, Shards: numbered(4), Key: []byte("l")}, true},
		{"another level", Config{Scheme: RendezvousV1, Shards: numbered(4)}, Config{Scheme: RendezvousV1, Shards: numbered(4), Level: "cells"}, true},
	} {
		a, b := placer(c.a), placer(c.b)
		if got, back := Anew(a, b), Anew(b, a); got != c.want || back != c.want {
			t.Errorf("%s: %v, and %v the other way", c.name, got, back)
		}
	}
}

// TestGrowth: what Grow expects is what a population goes through, for one shard more, one less, another
// weight, another k, and for placements that are drawn anew. For shards that are all alike and one more it
// is the ideal k/(n+1).
func TestGrowth(t *testing.T) {
	const tenants = 20_000
	heavier := zoned(12, 3)
	heavier[0].Weight = 4
	for _, c := range []struct {
		name     string
		scheme   Scheme
		from, to []Shard
		k, k2    int
		ideal    float64
	}{
		{"20 to 21", RendezvousV1, numbered(20), numbered(21), 4, 4, 4.0 / 21},
		{"100 to 101", RendezvousV1, numbered(100), numbered(101), 4, 4, 4.0 / 101},
		{"21 to 20", RendezvousV1, numbered(21), numbered(20), 4, 4, 4.0 / 21},
		{"into a small zone", RendezvousV1, sparse(), slices.Concat(sparse(), []Shard{{ID: "new", Zone: "c", Weight: 1}}), 2, 2, 2.0 / 7},
		{"into a large zone", RendezvousV1, sparse(), slices.Concat(sparse(), []Shard{{ID: "new", Zone: "a", Weight: 1}}), 2, 2, 2.0 / 7},
		{"into a new zone", RendezvousV1, zoned(12, 3), slices.Concat(zoned(12, 3), []Shard{{ID: "new", Zone: "d", Weight: 1}}), 2, 2, 2.0 / 13},
		{"one of five times the weight", RendezvousV1, numbered(10), slices.Concat(numbered(10), []Shard{{ID: "new", Zone: "a", Weight: 5}}), 2, 2, 2 * 5.0 / 15},
		{"a heavier one", RendezvousV1, zoned(12, 3), heavier, 3, 3, 3 * (4.0/15 - 1.0/12)},
		{"a larger k", RendezvousV1, sparse(), sparse(), 2, 4, 2},
		{"hmac, 8 to 9", HMACv1, numbered(8), numbered(9), 2, 2, 2.0 / 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := subsets(t, c.scheme, []byte("k"), c.from, c.k), subsets(t, c.scheme, []byte("k"), c.to, c.k2)
			g := Grow(from, to)
			if math.Abs(g.Ideal-c.ideal) > 1e-9 || g.Anew != (c.scheme == HMACv1) {
				t.Errorf("%+v, want the ideal %v", g, c.ideal)
			}
			moved := 0
			for i := range tenants {
				was, is := ids(c.from, from.of(nil, tenant(i))), ids(c.to, to.of(nil, tenant(i)))
				for _, id := range is {
					moved += int(b2u(!slices.Contains(was, id)))
				}
			}
			got, slack := float64(moved)/tenants, 5*math.Sqrt(g.Expected*float64(c.k2)/tenants)
			t.Logf("%.4f new places a tenant, expected %.4f, ideal %.4f", got, g.Expected, g.Ideal)
			if math.Abs(got-g.Expected) > slack {
				t.Errorf("%.4f new places a tenant, want %.4f within %.4f", got, g.Expected, slack)
			}
		})
	}
}

// Growth: what a new zone, and a shard of five times the weight, move beyond the k/(n+1) of a like one.
func TestGrowthBeyondOneLikeShard(t *testing.T) {
	for _, c := range []struct {
		name            string
		from            []Shard
		new             Shard
		expected, extra float64
	}{
		{"a new zone", zoned(12, 3), Shard{ID: "new", Zone: "d", Weight: 1}, 0.5, 0.5 - 2.0/13},
		// First in 1/3, and second in 2/3 · 5/14.
		{"five times the weight", numbered(10), Shard{ID: "new", Zone: "a", Weight: 5}, 4.0 / 7, 4.0/7 - 2.0/3},
	} {
		g := Grow(subsets(t, RendezvousV1, []byte("k"), c.from, 2), subsets(t, RendezvousV1, []byte("k"), append(slices.Clone(c.from), c.new), 2))
		if math.Abs(g.Expected-c.expected) > 1e-9 || math.Abs(g.Extra()-c.extra) > 1e-9 {
			t.Errorf("%s: %+v, extra %v, want %v and %v", c.name, g, g.Extra(), c.expected, c.extra)
		}
	}
}

// Growth: the same numbers every time, to the last bit.
func TestGrowthRepeats(t *testing.T) {
	heavier := heavyZones()
	heavier[0].Weight = 7
	from, to := subsets(t, RendezvousV1, []byte("k"), heavyZones(), 5), subsets(t, RendezvousV1, []byte("k"), heavier, 5)
	other := subsets(t, RendezvousV1, []byte("l"), heavier, 5) // another key: all anew
	want, anew := Grow(from, to), Grow(from, other)
	for range 50 {
		if got := Grow(from, to); got != want {
			t.Fatalf("%+v, then %+v", want, got)
		}
		if got := Grow(from, other); got != anew {
			t.Fatalf("%+v, then %+v", anew, got)
		}
	}
}

// Growth: over equal zones, and without zones, one shard more moves no more than the ideal.
func TestGrowthNoMoreThanIdeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zones := rapid.IntRange(1, 6).Draw(t, "zones")
		n := zones * rapid.IntRange(1, 20).Draw(t, "shards of a zone")
		k := rapid.IntRange(1, n).Draw(t, "k")
		from, to := subsets(t, RendezvousV1, []byte("k"), zoned(n, zones), k), subsets(t, RendezvousV1, []byte("k"), zoned(n+1, zones), k)
		if g := Grow(from, to); g.Extra() > 1e-9 || zones == 1 && g.Extra() < -1e-9 {
			t.Fatalf("%d of %d in %d zones: %+v", k, n, zones, g)
		}
	})
}
