package blast

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func exactModel(t fataler, n, k int) Uniform {
	t.Helper()
	u, err := NewUniform(n, k)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func exactMust[T any](t fataler) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// exactOff is the relative difference of a float64 from an exact number.
func exactOff(got float64, want *big.Rat) float64 {
	if want.Sign() == 0 {
		return math.Abs(got)
	}
	g := new(big.Rat).SetFloat64(got)
	if g == nil {
		return math.Inf(1)
	}
	off, _ := g.Sub(g, want).Quo(g, want).Float64()
	return math.Abs(off)
}

func exactBinomial(n, k int) *big.Int {
	if k < 0 || k > n {
		return new(big.Int)
	}
	return new(big.Int).Binomial(int64(n), int64(k))
}

func exactRat(over ...*big.Int) *big.Rat { // the first by the last, all others multiplied to the first
	product := big.NewInt(1)
	for _, o := range over[:len(over)-1] {
		product.Mul(product, o)
	}
	return new(big.Rat).SetFrac(product, over[len(over)-1])
}

func exactExpect(t fataler, what string, got float64, want *big.Rat) {
	t.Helper()
	if least, _ := want.Float64(); want.Sign() != 0 && math.Abs(least) < 0x1p-1022 {
		return // less than a float64 has to full precision
	}
	if off := exactOff(got, want); off > 1e-12 {
		w, _ := want.Float64()
		t.Fatal(what, ": ", got, ", want ", w, ", off by ", off)
	}
}

func TestExactBinomials(t *testing.T) {
	for _, c := range []struct {
		n, k int
		want string
	}{{8, 2, "28"}, {40, 3, "9880"}, {2048, 4, "730862190080"}, {16, 2, "120"}, {16, 3, "560"}, {100, 5, "75287520"}} {
		if got := exactModel(t, c.n, c.k).Subsets().String(); got != c.want {
			t.Errorf("%d of %d: %s subsets, want %s", c.k, c.n, got, c.want)
		}
	}
}

func TestExactRational(t *testing.T) {
	check := func(t fataler, n, k, f int) {
		u := exactModel(t, n, k)
		all := exactBinomial(n, k)
		exactExpect(t, "identical", u.Identical(), exactRat(big.NewInt(1), all))
		for name, d := range map[string]struct {
			chances []float64
			with    int
		}{"overlap": {u.Overlap(), k}, "lost": {exactMust[[]float64](t)(u.Lost(f)), f}} {
			if len(d.chances) != min(d.with, k)+1 {
				t.Fatal(name, " has ", len(d.chances), " chances")
			}
			for _, i := range []int{0, 1, min(d.with, k) / 2, min(d.with, k)} {
				if i < len(d.chances) {
					exactExpect(t, name, d.chances[i], exactRat(exactBinomial(d.with, i), exactBinomial(n-d.with, k-i), all))
				}
			}
		}
		got := exactMust[Expected](t)(u.Fail(f))
		untouched := exactRat(exactBinomial(n-f, k), all)
		exactExpect(t, "untouched", got.Untouched, untouched)
		exactExpect(t, "degraded", got.Degraded, new(big.Rat).Sub(big.NewRat(1, 1), untouched))
		exactExpect(t, "fully down", got.FullyDown, exactRat(exactBinomial(f, k), all))
		exactExpect(t, "capacity lost", got.CapacityLost, big.NewRat(int64(f), int64(n)))
		exactExpect(t, "mean overlap", u.MeanOverlap(), big.NewRat(int64(k)*int64(k), int64(n)))
	}
	for _, c := range [][3]int{
		{MaxShards, 1, 1}, {MaxShards, 4, 3}, {MaxShards, 4, 60_000}, {MaxShards, 500, 700}, {MaxShards, MaxShards - 1, 1},
		{MaxShards, 65_000, 65_200}, {MaxShards, MaxShards, 7}, {MaxShards, 40, MaxShards}, {2048, 4, 4}, {1, 1, 0}, {1, 1, 1},
	} {
		check(t, c[0], c[1], c[2])
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "shards")
		check(t, n, rapid.IntRange(1, n).Draw(t, "k"), rapid.IntRange(0, n).Draw(t, "failed"))
	})
}

// exactMask gives every k of n as a mask.
func exactMasks(n, k int) (masks []uint) {
	for m := range uint(1) << n {
		if bits.OnesCount(m) == k {
			masks = append(masks, m)
		}
	}
	return masks
}

func TestExactEnumeration(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for k := 1; k <= n; k++ {
			u, masks := exactModel(t, n, k), exactMasks(n, k)
			all := int64(len(masks))
			if u.Subsets().Int64() != all {
				t.Fatalf("%d of %d: %v subsets, want %d", k, n, u.Subsets(), all)
			}
			for f := 0; f <= n; f++ {
				failed := uint(1)<<f - 1
				lost := make([]int64, min(f, k)+1)
				for _, m := range masks {
					lost[bits.OnesCount(m&failed)]++
				}
				chances := exactMust[[]float64](t)(u.Lost(f))
				for i, count := range lost {
					exactExpect(t, "lost", chances[i], big.NewRat(count, all))
				}
				var down int64
				if f >= k {
					down = lost[k]
				}
				e := exactMust[Expected](t)(u.Fail(f))
				exactExpect(t, "fully down", e.FullyDown, big.NewRat(down, all))
				exactExpect(t, "degraded", e.Degraded, big.NewRat(all-lost[0], all))
			}
			shared, sum := make([]int64, k+1), int64(0)
			for _, m := range masks {
				both := bits.OnesCount(m & masks[0])
				shared[both]++
				sum += int64(both)
			}
			for i, chance := range u.Overlap() {
				exactExpect(t, "overlap", chance, big.NewRat(shared[i], all))
			}
			exactExpect(t, "mean overlap", u.MeanOverlap(), big.NewRat(sum, all))
		}
	}
	// Three misbehaving tenants of up to 6 shards, every case.
	for n := 1; n <= 6; n++ {
		for k := 1; k <= n; k++ {
			u, masks := exactModel(t, n, k), exactMasks(n, k)
			var covered, cases int64
			for _, a := range masks {
				for _, b := range masks {
					for _, c := range masks {
						for _, other := range masks {
							cases++
							if other&^(a|b|c) == 0 {
								covered++
							}
						}
					}
				}
			}
			exactExpect(t, "covered", exactMust[float64](t)(u.Covered(3)), big.NewRat(covered, cases))
		}
	}
}

// The mean over every set of failed shards is the expectation for any placement: here for one that is
// anything but random.
func TestExactMeanOfAnyPlacement(t *testing.T) {
	const n, k = 9, 3
	subsets := [][]int{{0, 1, 2}, {0, 1, 2}, {0, 1, 3}, {6, 7, 8}, {0, 4, 8}}
	p := collect(t, n, slices.Values(subsets))
	u := exactModel(t, n, k)
	for f := 1; f <= n; f++ {
		var degraded, down, sets int64
		for failed := range everySubset(n, f, 1) {
			impact := fail(t, p, failed)
			degraded, down, sets = degraded+int64(impact.Degraded), down+int64(impact.FullyDown), sets+int64(len(subsets))
		}
		want := exactMust[Expected](t)(u.Fail(f))
		exactExpect(t, "degraded", want.Degraded, big.NewRat(degraded, sets))
		exactExpect(t, "fully down", want.FullyDown, big.NewRat(down, sets))
	}
}

// exactKEP is the recurrence of KEP-1040 in exact rationals: the distribution of how many different
// cards a number of hands has dealt, and from it the chance that one more hand deals none but those.
func exactKEP(n, k, hands int) *big.Rat {
	all := exactBinomial(n, k)
	dealt := map[int]*big.Rat{k: big.NewRat(1, 1)}
	for range hands - 1 {
		next := map[int]*big.Rat{}
		for had, chance := range dealt {
			for news := 0; news <= min(k, n-had); news++ {
				if next[had+news] == nil {
					next[had+news] = new(big.Rat)
				}
				way := exactRat(exactBinomial(n-had, news), exactBinomial(had, k-news), all)
				next[had+news].Add(next[had+news], way.Mul(way, chance))
			}
		}
		dealt = next
	}
	sum := new(big.Rat)
	for had, chance := range dealt {
		way := exactRat(exactBinomial(had, k), all)
		sum.Add(sum, way.Mul(way, chance))
	}
	return sum
}

func TestExactCovered(t *testing.T) {
	// The table that Kubernetes publishes, "Example Shuffle Sharding Configurations" in its page on API
	// priority and fairness. It was calculated with float64: the last digits are its rounding.
	for _, c := range []struct {
		k, n             int
		one, four, teens float64
	}{
		{12, 32, 4.428838398950118e-09, 0.11431348830099144, 0.9935089607656024},
		{10, 32, 1.550093439632541e-08, 0.0626479840223545, 0.9753101519027554},
		{10, 64, 6.601827268370426e-12, 0.00045571320990370776, 0.49999929150089345},
		{9, 64, 3.6310049976037345e-11, 0.00045501212304112273, 0.4282314876454858},
		{8, 64, 2.25929199850899e-10, 0.0004886697053040446, 0.35935114681123076},
		{8, 128, 6.994461389026097e-13, 3.4055790161620863e-06, 0.02746173137155063},
		{7, 128, 1.0579122850901972e-11, 6.960839379258192e-06, 0.02406157386340147},
		{7, 256, 7.597695465552631e-14, 6.728547142019406e-08, 0.0006709661542533682},
		{6, 256, 2.7134626662687968e-12, 2.9516464018476436e-07, 0.0008895654642000348},
		{6, 512, 4.116062922897309e-14, 4.982983350480894e-09, 2.26025764343413e-05},
		{6, 1024, 6.337324016514285e-16, 8.09060164312957e-11, 4.517408062903668e-07},
	} {
		u := exactModel(t, c.n, c.k)
		for e, want := range map[int]float64{1: c.one, 4: c.four, 16: c.teens} {
			if got := exactMust[float64](t)(u.Covered(e)); math.Abs(got-want) > 1e-14*want {
				t.Errorf("%d of %d, %d misbehaving: %v, want %v", c.k, c.n, e, got, want)
			}
		}
		if one := exactMust[float64](t)(u.Covered(1)); one != u.Identical() {
			t.Errorf("%d of %d: one covers with %v, is identical with %v", c.k, c.n, one, u.Identical())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 24).Draw(t, "shards")
		k := rapid.IntRange(1, n).Draw(t, "k")
		e := rapid.IntRange(1, 8).Draw(t, "misbehaving")
		exactExpect(t, "covered", exactMust[float64](t)(exactModel(t, n, k).Covered(e)), exactKEP(n, k, e))
	})
}

func TestExactCoveredLarge(t *testing.T) {
	// Where every e covers all, where none does, and where the terms cancel the most.
	u := exactModel(t, 2000, MaxCovered)
	before := 0.0
	for _, e := range []int{0, 1, 2, 10, 1000, MaxTenants} {
		now := exactMust[float64](t)(u.Covered(e))
		if now < before || now > 1 {
			t.Fatalf("%d misbehaving: %v after %v", e, now, before)
		}
		before = now
	}
	if before != 1 {
		t.Errorf("all tenants there can be cover with %v", before)
	}
	if got := exactMust[float64](t)(exactModel(t, MaxShards, MaxCovered).Covered(1)); got != 0 {
		t.Errorf("one of more subsets than a float64 can tell: %v", got)
	}
}

func TestExactBirthday(t *testing.T) {
	point := func(n, k int, chance float64) float64 {
		return exactMust[float64](t)(exactModel(t, n, k).Birthday(chance))
	}
	// People and days, the classic; pairs of 8 machines; triples of 40; Route 53's fours of 2,048.
	for _, c := range []struct {
		n, k         int
		chance, want float64
	}{{365, 1, 0.5, 23}, {365, 1, 0.999, 70}, {8, 2, 0.5, 7}, {1, 1, 0.5, 2}, {8, 2, 1 - 0x1p-53, 29}, {2048, 4, 0.5, 1_006_574}} {
		if got := point(c.n, c.k, c.chance); got != c.want {
			t.Errorf("%d of %d, %v: %v tenants, want %v", c.k, c.n, c.chance, got, c.want)
		}
	}
	if got := exactMust[float64](t)(exactModel(t, 365, 1).AnyIdentical(23)); math.Abs(got-0.5072972343239854) > 1e-15 {
		t.Errorf("23 people: %v", got)
	}
	if got := point(MaxShards, MaxShards/2, 0.5); !math.IsInf(got, 1) {
		t.Errorf("more subsets than a float64 can tell: %v", got)
	}
	// Exactly the smallest: that many reach the chance, one fewer does not, by multiplying out.
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "shards")
		k := rapid.IntRange(1, min(n, 4)).Draw(t, "k")
		u := exactModel(t, n, k)
		if u.Subsets().Cmp(big.NewInt(1<<30)) > 0 {
			t.Skip("too long to multiply out")
		}
		chance := rapid.Float64Range(0.001, 0.9999).Draw(t, "chance")
		subsets, _ := new(big.Float).SetInt(u.Subsets()).Float64()
		apart, met := 1.0, 1
		for 1-apart < chance {
			apart *= 1 - float64(met)/subsets
			met++
		}
		if got := exactMust[float64](t)(u.Birthday(chance)); got != float64(met) {
			t.Fatalf("%v, want %d", got, met)
		}
		for _, tenants := range []int{0, 1, met - 1, met, 2 * met} {
			apart := 1.0
			for i := range tenants {
				apart *= max(0, 1-float64(i)/subsets)
			}
			if got := exactMust[float64](t)(u.AnyIdentical(tenants)); math.Abs(got-(1-apart)) > 1e-11 {
				t.Fatalf("%d tenants: %v, want %v", tenants, got, 1-apart)
			}
		}
	})
}

// The series takes over from the product without a step.
func TestExactBirthdaySeries(t *testing.T) {
	exactBirthdays(exactFew, func(met int, any *big.Float) bool {
		got, want := -math.Expm1(-exactHazard(float64(met), exactFew)), exactFloat(any)
		if math.Abs(got-want) > 1e-12*want {
			t.Fatalf("%d: %v, want %v", met, got, want)
		}
		return want < 1
	})
}

func TestExactCapacity(t *testing.T) {
	for _, c := range []struct {
		n, k, t, field       int
		places, striped, any string
	}{
		{2048, 4, 2, 512, "134217728", "134217728", "357389824"},
		{44, 4, 2, 11, "1331", "1331", "3311"},
		{28, 4, 2, 7, "343", "343", "819"},
		{8, 2, 1, 4, "16", "16", "28"},
		{8, 2, 0, 4, "4", "4", "4"},
		{12, 4, 1, 0, "0", "9", "9"},
		{11, 3, 1, 3, "9", "12", "18"},
		{7, 3, 1, 0, "0", "4", "7"}, // the Fano plane
		{26, 2, 1, 13, "169", "169", "325"},
	} {
		got := exactMust[SharedCapacity](t)(exactModel(t, c.n, c.k).Capacity(c.t))
		if got.Field != c.field || got.Places.String() != c.places || got.Striped.String() != c.striped || got.Any.String() != c.any {
			t.Errorf("%d of %d, %d shared: %+v, want %+v", c.k, c.n, c.t, got, c)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "shards")
		k := rapid.IntRange(1, min(n, 40)).Draw(t, "k")
		u := exactModel(t, n, k)
		shared := rapid.IntRange(0, k-1).Draw(t, "shared")
		c := exactMust[SharedCapacity](t)(u.Capacity(shared))
		if c.Places.Cmp(c.Striped) > 0 || c.Striped.Cmp(c.Any) > 0 || c.Any.Cmp(u.Subsets()) > 0 {
			t.Fatalf("out of order: %v <= %v <= %v <= %v", c.Places, c.Striped, c.Any, u.Subsets())
		}
		if c.Field == n/k && n%k == 0 && c.Places.Cmp(c.Striped) != 0 {
			t.Fatalf("bounded/v1 reaches %v of %v", c.Places, c.Striped)
		}
		if shared == k-1 && c.Any.Cmp(u.Subsets()) != 0 {
			t.Fatalf("distinct subsets: %v, want all %v", c.Any, u.Subsets())
		}
	})
}

// No greedy packing of small cases beats a bound, and polynomials over a prime field reach theirs.
func TestExactCapacityPacked(t *testing.T) {
	for n := 1; n <= 10; n++ {
		for k := 1; k <= n; k++ {
			for shared := range k {
				c := exactMust[SharedCapacity](t)(exactModel(t, n, k).Capacity(shared))
				var packed []uint
				for _, m := range exactMasks(n, k) {
					if !slices.ContainsFunc(packed, func(p uint) bool { return bits.OnesCount(p&m) > shared }) {
						packed = append(packed, m)
					}
				}
				if int64(len(packed)) > c.Any.Int64() {
					t.Fatalf("%d of %d, %d shared: packed %d, bound %v", k, n, shared, len(packed), c.Any)
				}
			}
		}
	}
	const q, k = 5, 4 // a + bx + cx² at x = 0, 1, 2, 3
	words := map[[k]int]bool{}
	for i := range q * q * q {
		var w [k]int
		for x := range k {
			w[x] = (i%q + i/q%q*x + i/q/q*x*x) % q
		}
		for o := range words {
			same := 0
			for x := range k {
				if o[x] == w[x] {
					same++
				}
			}
			if same > 2 {
				t.Fatalf("%v and %v share %d", o, w, same)
			}
		}
		words[w] = true
	}
	if c := exactMust[SharedCapacity](t)(exactModel(t, q*k, k).Capacity(2)); c.Places.Int64() != int64(len(words)) || c.Striped.Cmp(c.Places) != 0 {
		t.Errorf("%d words, want %v of at most %v", len(words), c.Places, c.Striped)
	}
}

func TestExactField(t *testing.T) {
	powers := []int{2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32, 37, 41, 43, 47, 49, 53, 59, 61, 64}
	for most := 0; most <= 64; most++ {
		for least := 0; least <= most; least++ {
			want := 0
			for _, q := range powers {
				if q >= least && q <= most {
					want = q
				}
			}
			if got := exactField(most, least); got != want {
				t.Fatalf("from %d to %d: %d, want %d", least, most, got, want)
			}
		}
	}
}

func TestExactAllInOneZone(t *testing.T) {
	chance := func(zones []int, k int, spread bool) float64 {
		return exactMust[float64](t)(AllInOneZone(zones, k, spread))
	}
	if got := chance([]int{8, 8, 8}, 2, false); math.Abs(got-84.0/276) > 1e-15 { // 30.4 %
		t.Errorf("24 shards in 3 zones: %v, want %v", got, 84.0/276)
	}
	if got := chance([]int{8, 8, 8}, 2, true); got != 0 {
		t.Errorf("with the rule: %v", got)
	}
	for _, c := range []struct {
		zones []int
		k     int
		want  float64
	}{{[]int{8, 8, 8}, 1, 1}, {[]int{5}, 3, 1}, {[]int{3, 2, 1}, 4, 0}} {
		for _, spread := range []bool{false, true} {
			if got := chance(c.zones, c.k, spread); got != c.want {
				t.Errorf("%+v, rule %v: %v", c, spread, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		zones := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "zones")
		n := 0
		var where []int
		for z, size := range zones {
			for range size {
				where = append(where, z)
			}
			n += size
		}
		k := rapid.IntRange(1, n).Draw(t, "k")
		var one, all int64
		for subset := range everySubset(n, k, 1) {
			all++
			if !slices.ContainsFunc(subset, func(s int) bool { return where[s] != where[subset[0]] }) {
				one++
			}
		}
		exactExpect(t, "one zone", exactMust[float64](t)(AllInOneZone(zones, k, false)), big.NewRat(one, all))
	})
}

func TestExactRefuses(t *testing.T) {
	for _, c := range []struct {
		n, k int
		want error
	}{{0, 1, ErrShardCount}, {MaxShards + 1, 1, ErrShardCount}, {4, 0, ErrModel}, {4, 5, ErrModel}, {4, -1, ErrModel}} {
		if _, err := NewUniform(c.n, c.k); !errors.Is(err, c.want) {
			t.Errorf("%d of %d: %v, want %v", c.k, c.n, err, c.want)
		}
	}
	u := exactModel(t, 8, 2)
	for name, err := range map[string]error{
		"fail -1":      exactSecond(u.Fail(-1)),
		"fail 9":       exactSecond(u.Fail(9)),
		"lost -1":      exactSecond(u.Lost(-1)),
		"lost 9":       exactSecond(u.Lost(9)),
		"covered -1":   exactSecond(u.Covered(-1)),
		"covered":      exactSecond(u.Covered(MaxTenants + 1)),
		"large k":      exactSecond(exactModel(t, 9000, MaxCovered+1).Covered(1)),
		"identical -1": exactSecond(u.AnyIdentical(-1)),
		"identical":    exactSecond(u.AnyIdentical(MaxTenants + 1)),
		"birthday 0":   exactSecond(u.Birthday(0)),
		"birthday 1":   exactSecond(u.Birthday(1)),
		"birthday NaN": exactSecond(u.Birthday(math.NaN())),
		"shared -1":    exactSecond(u.Capacity(-1)),
		"shared k":     exactSecond(u.Capacity(2)),
		"empty zone":   exactSecond(AllInOneZone([]int{3, 0}, 2, true)),
		"k > zones":    exactSecond(AllInOneZone([]int{3, 1}, 5, true)),
	} {
		if !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v, want %v", name, err, ErrModel)
		}
	}
	for _, zones := range [][]int{nil, {MaxShards, 1}} {
		if _, err := AllInOneZone(zones, 1, true); !errors.Is(err, ErrShardCount) {
			t.Errorf("zones %v: %v", zones, err)
		}
	}
}

func exactSecond[T any](_ T, err error) error { return err }
