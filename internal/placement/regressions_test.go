package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each of these was once reported against a public implementation of shuffle sharding, or is a mistake
// that one of them made. They stand beside the guarantees so that nobody makes them here. cortex#3571, where
// crashes moved a tenant on to other shards, is one of routers: package routing has its test.

// cortex#3299: with one stream of random numbers for all zones, one shard more per tenant drew other
// shards in the zones after the first.
func TestRegressionCortex3299OneMoreKeepsMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := zoned(3*rapid.IntRange(1, 8).Draw(t, "shards of a zone"), 3)
		key, tenant := drawKey(t), drawTenant(t)
		var was []int
		for k := 1; k <= len(shards); k++ {
			is := subsets(t, RendezvousV1, key, shards, k).of(nil, tenant)
			if !slices.Equal(is[:k-1], was) {
				t.Fatalf("k = %d gives %v, after %v", k, is, was)
			}
			was = is
		}
	})
}

// cortex#5467: k was rounded up to a multiple of the zones, so that from 9 to 10 over three zones a
// tenant came to have twelve shards.
func TestRegressionCortex5467NineToTen(t *testing.T) {
	for i := range 200 {
		nine := subsets(t, RendezvousV1, []byte("k"), zoned(24, 3), 9).of(nil, tenant(i))
		ten := subsets(t, RendezvousV1, []byte("k"), zoned(24, 3), 10).of(nil, tenant(i))
		if len(ten) != 10 || !slices.Equal(ten[:9], nine) {
			t.Fatalf("%v became %v", nine, ten)
		}
	}
}

// dskit#566: zones of 3, 2 and 1 shards gave five members to k = 6, since the even part of a zone that had
// run out was given to nobody.
func TestRegressionDskit566SparseZones(t *testing.T) {
	for k := 1; k <= 6; k++ {
		for i := range 50 {
			checkComplete(t, subsets(t, RendezvousV1, []byte("k"), sparse(), k).of(nil, tenant(i)), 6, k)
		}
	}
}

// A 31-bit seed: two ids whose seeds are equal modulo 2^31-1, as math/rand reduces them, had one subset;
// among 100,000 tenants there are about two such pairs. Tenants that rank 40 shards are all different here.
func TestRegression31BitSeed(t *testing.T) {
	const tenants = 100_000
	for _, scheme := range schemes {
		s := subsets(t, scheme, []byte("k"), numbered(40), 20)
		seen := make(map[string]int, tenants)
		var buf []int
		for i := range tenants {
			buf = s.of(buf[:0], tenant(i))
			key := make([]byte, len(buf))
			for j, member := range buf {
				key[j] = byte(member)
			}
			if other, twice := seen[string(key)]; twice {
				t.Fatalf("%s: %s and %s have one subset", scheme, tenant(other), tenant(i))
			}
			seen[string(key)] = i
		}
	}
}

// Names joined without a frame: {a, bc} was {ab, c}. The parts that are joined here are a tenant's id, a
// shard's, a zone's or a level's with the name of what it is.
func TestRegressionFraming(t *testing.T) {
	first := subsets(t, RendezvousV1, []byte("k"), named([]string{"a", "bc"}), 1)
	second := subsets(t, RendezvousV1, []byte("k"), named([]string{"ab", "c"}), 1)
	same := 0
	for i := range 1000 {
		same += int(b2u(slices.Equal(first.of(nil, tenant(i)), second.of(nil, tenant(i)))))
	}
	if same < 420 || same > 580 { // five standard deviations
		t.Errorf("%d of 1,000 tenants choose alike among {a, bc} and {ab, c}, want about 500", same)
	}
	m := newMAC([]byte("k"))
	words := map[uint64]string{}
	for _, id := range []string{"", "a", "a\x00", "\x00", "shard", "a" + string(shardSuffix), "a" + string(zoneSuffix)} {
		for _, suffix := range [][]byte{tenantSuffix, shardSuffix, zoneSuffix, levelSuffix} {
			word, what := m.word(id, suffix), fmt.Sprintf("%q as %q", id, suffix)
			if other, twice := words[word]; twice {
				t.Errorf("%s and %s have one hash", what, other)
			}
			words[word] = what
		}
	}
}

// Next k on a ring: there were only n subsets, each of neighbours, so that the tenants of one shard shared
// all of the next. Here all C(8,2) = 28 pairs, and all 56 orders, occur.
func TestRegressionRingHasOnlyNSubsets(t *testing.T) {
	for _, scheme := range schemes {
		s := subsets(t, scheme, []byte("k"), numbered(8), 2)
		seen := map[[2]int]bool{}
		for i := range 2000 {
			seen[[2]int(s.of(nil, tenant(i)))] = true
		}
		if len(seen) != 56 {
			t.Errorf("%s: %d ordered subsets of 56", scheme, len(seen))
		}
	}
}

// Input order: a list of shards that came from a map, or from an API, in another order gave other subsets.
// OrderFree holds it for rendezvous/v1. Under hmac/v1 the order is part of the recipe, and a topology, which
// never changes, keeps it.
func TestRegressionInputOrder(t *testing.T) {
	shards := heavyZones()
	for i := range 200 {
		want := ids(shards, subsets(t, RendezvousV1, []byte("k"), shards, 6).of(nil, tenant(i)))
		backwards := slices.Clone(shards)
		slices.Reverse(backwards)
		if got := ids(backwards, subsets(t, RendezvousV1, []byte("k"), backwards, 6).of(nil, tenant(i))); !slices.Equal(got, want) {
			t.Fatalf("%v, and %v in the other order", want, got)
		}
	}
}

// A seed from the clock: without one, each process placed the tenants anew. Here there is no default, and
// the vectors of TestGolden and TestRecipe come out in every process.
func TestRegressionClockSeed(t *testing.T) {
	for _, scheme := range schemes {
		if _, err := New(Config{Scheme: scheme, Shards: numbered(3)}); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("%s without a key: %v", scheme, err)
		}
		a, b := subsets(t, scheme, []byte("k"), numbered(9), 3), subsets(t, scheme, []byte("k"), numbered(9), 3)
		for i := range 200 {
			if !slices.Equal(a.of(nil, tenant(i)), b.of(nil, tenant(i))) {
				t.Fatalf("%s: two placements of one configuration differ", scheme)
			}
		}
	}
}
