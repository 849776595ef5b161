package blast

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"testing"
)

// zonedCases are zones small enough to look at every subset, alike and not, full and not.
var zonedCases = [][]int{{1}, {5}, {1, 1}, {2, 3}, {3, 2, 1}, {2, 2, 2}, {4, 4, 4}, {1, 2, 4}, {1, 1, 1, 3}, {2, 1, 2, 1}}

// zonedSubsets is every subset of the zones with its chance, by dealing as rendezvous/v1 does: the members fall to
// the zones one by one, in every order of the zones, and each to any shard of its zone that is left.
func zonedSubsets(zones []int, k int) map[uint]*big.Rat {
	orders := zonedOrders(len(zones))
	all := map[uint]*big.Rat{}
	for _, order := range orders {
		taken := make([]int, len(zones))
		for given, round := 0, 0; given < k; round++ {
			for _, z := range order {
				if given < k && taken[z] == round && zones[z] > round {
					taken[z]++
					given++
				}
			}
		}
		masks, first := []uint{0}, 0
		ways := big.NewInt(int64(len(orders)))
		for z, n := range zones {
			var next []uint
			inside := exactMasks(n, taken[z])
			for _, m := range masks {
				for _, in := range inside {
					next = append(next, m|in<<first)
				}
			}
			masks, first = next, first+n
			ways.Mul(ways, big.NewInt(int64(len(inside))))
		}
		for _, m := range masks {
			if all[m] == nil {
				all[m] = new(big.Rat)
			}
			all[m].Add(all[m], new(big.Rat).SetFrac(big.NewInt(1), ways))
		}
	}
	return all
}

func zonedOrders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var orders [][]int
	for _, o := range zonedOrders(n - 1) {
		for at := range n {
			orders = append(orders, slices.Insert(slices.Clone(o), at, n-1))
		}
	}
	return orders
}

func zonedModel(t fataler, zones []int, k int) Zoned {
	t.Helper()
	return exactMust[Zoned](t)(NewZoned(zones, k))
}

// TestZoned: every figure is what counting every pair of subsets, and every three that misbehave, gives.
func TestZoned(t *testing.T) {
	for _, zones := range zonedCases {
		n := 0
		for _, size := range zones {
			n += size
		}
		for k := 1; k <= n; k++ {
			z, all := zonedModel(t, zones, k), zonedSubsets(zones, k)
			if z.Subsets().Int64() != int64(len(all)) {
				t.Fatalf("%v, k = %d: %v subsets, want %d", zones, k, z.Subsets(), len(all))
			}
			shared, same, even := make([]*big.Rat, k+1), new(big.Rat), true
			for i := range shared {
				shared[i] = new(big.Rat)
			}
			var chance *big.Rat
			for a, p := range all {
				even = even && (chance == nil || chance.Cmp(p) == 0)
				chance = p
				same.Add(same, new(big.Rat).Mul(p, p))
				for b, q := range all {
					i := bits.OnesCount(a & b)
					shared[i].Add(shared[i], new(big.Rat).Mul(p, q))
				}
			}
			overlap := exactMust[[]float64](t)(z.Overlap())
			for i := range shared {
				exactExpect(t, "overlap", overlap[i], shared[i])
			}
			exactExpect(t, "identical", z.Identical(), same)
			if z.Even() != even {
				t.Fatalf("%v, k = %d: even %v, want %v", zones, k, z.Even(), even)
			}
			// What e of them leave uncovered of a subset, by inclusion and exclusion over all subsets at once: the
			// chance that a union of e is m, from the chance that it lies within m.
			within := make([]*big.Rat, 1<<n)
			for m := range within {
				within[m] = new(big.Rat)
				for a, p := range all {
					if a&^uint(m) == 0 {
						within[m].Add(within[m], p)
					}
				}
			}
			for _, e := range []int{1, 2, 3} {
				if n > 7 && e > 1 {
					continue
				}
				union := make([]*big.Rat, len(within))
				for m := range union {
					union[m] = big.NewRat(1, 1)
					for range e {
						union[m].Mul(union[m], within[m])
					}
				}
				for bit := range n {
					for m := range union {
						if m>>bit&1 == 1 {
							union[m].Sub(union[m], union[m^1<<bit])
						}
					}
				}
				covered := new(big.Rat)
				for a, p := range all {
					for m := range union {
						if a&^uint(m) == 0 {
							covered.Add(covered, new(big.Rat).Mul(p, union[m]))
						}
					}
				}
				exactExpect(t, "covered", exactMust[float64](t)(z.Covered(e)), covered)
			}
		}
	}
}

// In one zone the model is Uniform.
func TestZonedOneZone(t *testing.T) {
	for _, c := range []struct{ n, k int }{{8, 2}, {64, 8}, {512, 6}, {2048, 4}} {
		u, z := exactModel(t, c.n, c.k), zonedModel(t, []int{c.n}, c.k)
		if u.Subsets().Cmp(z.Subsets()) != 0 || !z.Even() || !near(z.Identical(), u.Identical()) {
			t.Errorf("%+v: %v subsets, identical %v", c, z.Subsets(), z.Identical())
		}
		overlap := exactMust[[]float64](t)(z.Overlap())
		for i, p := range u.Overlap() {
			if !near(overlap[i], p) {
				t.Errorf("%+v: shares %d with %v, want %v", c, i, overlap[i], p)
			}
		}
		for _, e := range []int{0, 1, 4, 16} {
			got, want := exactMust[float64](t)(z.Covered(e)), exactMust[float64](t)(u.Covered(e))
			if math.Abs(got-want) > 1e-12*want {
				t.Errorf("%+v: %d cover with %v, want %v", c, e, got, want)
			}
		}
		got, want := exactMust[float64](t)(z.Birthday(0.5)), exactMust[float64](t)(u.Birthday(0.5))
		if got != want {
			t.Errorf("%+v: birthday %v, want %v", c, got, want)
		}
	}
}

// Twelve shards in three zones, k = 3: one of each, so 64 subsets, and a birthday at ten.
func TestZonedKnown(t *testing.T) {
	z := zonedModel(t, []int{4, 4, 4}, 3)
	if got := exactMust[float64](t)(z.Birthday(0.5)); z.Subsets().Int64() != 64 || got != 10 {
		t.Errorf("%v subsets, birthday %v", z.Subsets(), got)
	}
	for i, want := range []*big.Rat{big.NewRat(27, 64), big.NewRat(27, 64), big.NewRat(9, 64), big.NewRat(1, 64)} {
		exactExpect(t, "overlap", exactMust[[]float64](t)(z.Overlap())[i], want)
	}
}

// With zones that are not alike the birthday point is within one tenant of the true one.
func TestZonedBirthdayUneven(t *testing.T) {
	for _, zones := range [][]int{{6, 5, 5}, {3, 2, 1}, {2, 3}, {9, 4, 1}} {
		z := zonedModel(t, zones, 2)
		var chances []float64
		for _, p := range zonedSubsets(zones, 2) {
			f, _ := p.Float64()
			chances = append(chances, f)
		}
		// The chance that so many are all different: that many factorial times the elementary symmetric sum.
		different := make([]float64, len(chances)+1)
		different[0] = 1
		for _, p := range chances {
			for i := len(chances); i > 0; i-- {
				different[i] += float64(i) * p * different[i-1]
			}
		}
		truth := slices.IndexFunc(different, func(p float64) bool { return p <= 0.5 })
		got := exactMust[float64](t)(z.Birthday(0.5))
		if math.Abs(got-float64(truth)) > 1 {
			t.Errorf("%v: from %v tenants on, want %d", zones, got, truth)
		}
		for tenants := 2; tenants < len(chances); tenants++ {
			if got := exactMust[float64](t)(z.AnyIdentical(tenants)); math.Abs(got-1+different[tenants]) > 0.05 {
				t.Errorf("%v: of %d two coincide with %v, want %v", zones, tenants, got, 1-different[tenants])
			}
		}
	}
}

func TestZonedRefuses(t *testing.T) {
	many := slices.Repeat([]int{1000}, 60)
	for name, err := range map[string]error{
		"empty zone":      exactSecond(NewZoned([]int{3, 0}, 2)),
		"k":               exactSecond(NewZoned([]int{3, 1}, 5)),
		"zones":           exactSecond(NewZoned(slices.Repeat([]int{1}, MaxExactZones+1), 5)),
		"covered -1":      exactSecond(zonedModel(t, []int{3, 3}, 2).Covered(-1)),
		"covered large k": exactSecond(zonedModel(t, many, MaxCovered+1).Covered(1)),
		"covered work":    exactSecond(zonedModel(t, []int{100, 101, 102, 103, 104, 105}, 120).Covered(1)),
		"overlap work":    exactSecond(zonedModel(t, many, 30_030).Overlap()),
		"identical -1":    exactSecond(zonedModel(t, []int{3, 3}, 2).AnyIdentical(-1)),
	} {
		if !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v, want %v", name, err, ErrModel)
		}
	}
	if _, err := NewZoned(nil, 1); !errors.Is(err, ErrShardCount) {
		t.Errorf("no zones: %v", err)
	}
}
