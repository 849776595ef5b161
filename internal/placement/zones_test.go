package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// perZone counts the members by zone.
func perZone(shards []Shard, subset []int) map[string]int {
	counts := map[string]int{}
	for _, i := range subset {
		counts[shards[i].Zone]++
	}
	return counts
}

// TestSpread: two zones differ by more than one member only when the one with fewer has no more shards.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := shardList(t, RendezvousV1)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		got := perZone(shards, subsets(t, RendezvousV1, drawKey(t), shards, k).of(nil, drawTenant(t)))
		size := map[string]int{}
		for _, s := range shards {
			size[s.Zone]++
		}
		for a := range size {
			for b := range size {
				if got[a] < size[a] && got[a] < got[b]-1 {
					t.Fatalf("%d members, of zones %v, in zones of %v", k, got, size)
				}
			}
		}
	})
}

// Spread: the members are those that dealing the zones' own orders round gives, in that order.
func TestSpreadOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, shards, tenant := drawKey(t), shardList(t, RendezvousV1), drawTenant(t)
		m := newMAC(key)
		s, err := newSpread(&m, shards)
		if err != nil {
			t.Fatal(err)
		}
		p := newPoint(&m, tenant)
		var columns [][]int
		for _, z := range s.order.appendPositions(nil, p, len(s.zones)) {
			columns = append(columns, s.zones[z].appendTop(nil, p, s.sizes[z]))
		}
		var want []int
		for round := range shards {
			for _, column := range columns {
				if round < len(column) {
					want = append(want, column[round])
				}
			}
		}
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		if got := s.append(nil, &m, tenant, k, s.deal(k)); !slices.Equal(got, want[:k]) {
			t.Fatalf("got %v, want %v", got, want[:k])
		}
	})
}

// Spread, by the figures: of 24 shards in 3 zones, two members share a zone never; without the rule they
// do for 7/23 of the tenants.
func TestSpreadNeverBothInOneZone(t *testing.T) {
	const tenants = 20_000
	shards := zoned(24, 3)
	with := subsets(t, RendezvousV1, []byte("k"), shards, 2)
	without := subsets(t, RendezvousV1, []byte("k"), numbered(24), 2)
	together := 0
	for i := range tenants {
		if len(perZone(shards, with.of(nil, tenant(i)))) != 2 {
			t.Fatalf("%s has both members in one zone", tenant(i))
		}
		together += int(b2u(len(perZone(shards, without.of(nil, tenant(i)))) == 1))
	}
	const p = 7.0 / 23
	got, slack := float64(together)/tenants, 5*math.Sqrt(p*(1-p)/tenants)
	t.Logf("without zones %.1f %% of the tenants have both members in one zone", 100*got)
	if math.Abs(got-p) > slack {
		t.Errorf("without zones %.4f, want %.4f within %.4f", got, p, slack)
	}
}

// Uniform, over equal zones: every order of the zones with every choice of a shard in each is equally
// likely. No zone is always first, and none gets the remainder more often.
func TestUniformOverZones(t *testing.T) {
	const tenants = 60_000
	for _, weight := range []int{1, 5} {
		shards := zoned(6, 3)
		for i := range shards {
			shards[i].Weight = weight
		}
		s := subsets(t, RendezvousV1, []byte("a fixed key is the seed"), shards, 4)
		cells, remainder := map[[3]int]int{}, map[string]int{}
		for i := range tenants {
			subset := s.of(nil, tenant(i))
			cells[[3]int(subset[:3])]++
			remainder[shards[subset[3]].Zone]++
			if shards[subset[3]].Zone != shards[subset[0]].Zone {
				t.Fatal("the remainder does not go to the first zone")
			}
		}
		var counts, rest []int
		for _, n := range cells {
			counts = append(counts, n)
		}
		for _, n := range remainder {
			rest = append(rest, n)
		}
		if len(counts) != 6*8 || len(rest) != 3 {
			t.Fatalf("%d orders and choices seen of 48, %d zones of 3", len(counts), len(rest))
		}
		checkChiSquare(t, counts, tenants, 47, 1)
		checkChiSquare(t, rest, tenants, 2, 1)
	}
}

// Minimal, by the figures over equal zones: one shard more moves no more tenants than k/(n+1), and as many
// as the shares say.
func TestMinimalShareOverZones(t *testing.T) {
	const tenants = 30_000
	for _, c := range []struct{ n, k, zones int }{{20, 4, 4}, {24, 2, 3}, {99, 4, 3}} {
		t.Run(fmt.Sprintf("%d to %d in %d zones", c.n, c.n+1, c.zones), func(t *testing.T) {
			before := subsets(t, RendezvousV1, []byte("k"), zoned(c.n, c.zones), c.k)
			after := subsets(t, RendezvousV1, []byte("k"), zoned(c.n+1, c.zones), c.k)
			moved := 0
			for i := range tenants {
				was, is := before.of(nil, tenant(i)), after.of(nil, tenant(i))
				slices.Sort(was)
				slices.Sort(is)
				moved += int(b2u(!slices.Equal(was, is)))
			}
			// The zone of the new shard has n/zones + 1, and on average k/zones members of each tenant.
			p := float64(c.k) / float64(c.zones) / float64(c.n/c.zones+1)
			ideal := float64(c.k) / float64(c.n+1)
			got, slack := float64(moved)/tenants, 5*math.Sqrt(p*(1-p)/tenants)
			t.Logf("%.2f %% of the tenants move, expected %.2f %%, ideal %.2f %%", 100*got, 100*p, 100*ideal)
			if math.Abs(got-p) > slack || p > ideal {
				t.Errorf("%.4f of the tenants move, want %.4f within %.4f and at most %.4f", got, p, slack, ideal)
			}
		})
	}
}
