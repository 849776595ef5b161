package blast

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawChoose(t *rapid.T) ChooseInput {
	share := func(name string) float64 {
		return float64(rapid.OneOf(rapid.Just(10_000), rapid.IntRange(0, 10_000)).Draw(t, name)) / 10_000
	}
	in := ChooseInput{
		Budget: LossBudget{
			ConcurrentFailures: rapid.IntRange(1, 3).Draw(t, "failures"),
			DegradedTenants:    share("degraded"), CapacityLoss: share("loss"), FullyDown: share("down"),
		},
		Tenants:    rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(100, 3000)).Draw(t, "tenants"),
		Zones:      rapid.IntRange(1, 3).Draw(t, "zones"),
		MaxShards:  rapid.IntRange(6, 24).Draw(t, "most shards"),
		Confidence: rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.9999}).Draw(t, "confidence"),
	}
	if rapid.Bool().Draw(t, "load known") {
		in.Load = rapid.Float64Range(1, 2000).Draw(t, "load")
		in.Capacity = 100
	}
	return in
}

// ChooseSmallest: against a look at every n and k.
func TestChooseSmallest(t *testing.T) {
	found, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawChoose(t)
		c := exactMust[*chooser](t)(newChooser(in))
		choice, err := Choose(in)
		for n := in.Zones; n <= in.MaxShards; n += in.Zones {
			for k := 1; k <= n && n > in.Budget.ConcurrentFailures; k++ {
				row := c.row(n, k)
				if len(row.Broken) > 0 {
					continue
				}
				found++
				if err != nil || choice.Row.Shards != n || choice.Row.PerTenant != k {
					t.Fatalf("%+v, %v; %d of %d keeps the budget", choice, err, k, n)
				}
				if !reflect.DeepEqual(choice.Row, row) {
					t.Fatalf("%+v, want %+v", choice.Row, row)
				}
				return
			}
		}
		refused++
		if err == nil {
			t.Fatalf("%d of %d, but none keeps the budget", choice.Row.PerTenant, choice.Row.Shards)
		}
	})
	if found == 0 || refused == 0 {
		t.Errorf("%d found and %d refused: the test looks at one side only", found, refused)
	}
}

// The worked example of DESIGN and the founding text: one failure, at most half of a tenant's capacity,
// nobody down.
func TestChooseExample(t *testing.T) {
	in := ChooseInput{
		Budget:  LossBudget{ConcurrentFailures: 1, DegradedTenants: 0.15, CapacityLoss: 0.5, FullyDown: 0},
		Tenants: 2000, Zones: 1, MaxShards: 64,
	}
	choice := exactMust[*Choice](t)(Choose(in))
	row := choice.Row
	if row.PerTenant != 2 || row.Bound.Degraded > 0.15 || row.Bound.CapacityLoss != 0.5 || row.Bound.FullyDown != 0 {
		t.Errorf("%+v", row)
	}
	// 16 shards are 12.5 % by expectation, but with 99 % confidence the fullest shard is no less than this.
	if row.Shards != 16 && row.Shards != 17 {
		t.Errorf("%d shards", row.Shards)
	}
	if len(choice.Neighbours) != 9 {
		t.Errorf("%d neighbours", len(choice.Neighbours))
	}
	for _, want := range []struct{ text, part string }{
		{choice.Smaller, "breaks capacityLoss (100%, at most 50%), and fullyDown"},
		{choice.Larger, "k = 3 breaks degradedTenants"},
		{choice.Fewer, "breaks degradedTenants"},
	} {
		if !strings.Contains(want.text, want.part) {
			t.Errorf("%q says nothing of %q", want.text, want.part)
		}
	}
	// A budget that does not mind degraded tenants still gets no more than it needs.
	in.Budget.DegradedTenants = 1
	choice = exactMust[*Choice](t)(Choose(in))
	if choice.Row.Shards != 2 || choice.Row.PerTenant != 2 || choice.Larger != "k = 2 is every shard already" {
		t.Errorf("%+v", choice)
	}
	in.Budget.DegradedTenants, in.Load, in.Capacity = 0.6, 4000, 1000 // 4 shards' worth, so 5 at least when one may fail
	choice = exactMust[*Choice](t)(Choose(in))
	if choice.Row.Shards < 5 || choice.Row.Bound.Utilisation > 1 || choice.Row.Expected.Utilisation >= choice.Row.Bound.Utilisation {
		t.Errorf("%+v", choice.Row)
	}
	if !strings.Contains(choice.Larger, "keeps the budget too") {
		t.Errorf("%q", choice.Larger)
	}
	if !strings.Contains(choice.Fewer, "shard.capacity") {
		t.Errorf("%q", choice.Fewer)
	}
}

// spreadSubsets are all that a tenant can have in equal zones: shard s is in zone s mod zones.
func spreadSubsets(n, k, zones int) (subsets [][]int) {
	for subset := range everySubset(n, k, 1) {
		per := make([]int, zones)
		for _, s := range subset {
			per[s%zones]++
		}
		if slices.Max(per)-slices.Min(per) <= 1 {
			subsets = append(subsets, slices.Clone(subset))
		}
	}
	return subsets
}

// The model's chances, against every subset and every failure: exact in one zone, a bound in more, and
// one that is reached where its comment says so.
func TestChooseModel(t *testing.T) {
	for zones := 1; zones <= 3; zones++ {
		for n := zones; n <= 9; n += zones {
			for k := 1; k <= n; k++ {
				subsets := spreadSubsets(n, k, zones)
				for f := 1; f < n; f++ {
					m := chooseModel{n: n, k: k, f: f, zones: zones}
					if m.subsets().Int64() != int64(len(subsets)) {
						t.Fatalf("%+v: %v subsets, want %d", m, m.subsets(), len(subsets))
					}
					exactExpect(t, "identical", m.identical(), big.NewRat(1, int64(len(subsets))))
					degraded, down, load := chooseWorst(subsets, m)
					for _, c := range []struct {
						name         string
						bound, found float64
						exact        bool
					}{
						{"degraded", m.degraded(), degraded, zones == 1 || k <= zones && f <= n/zones},
						{"fully down", m.fullyDown(), down, zones == 1},
						{"load", m.load(), load, zones == 1 || f == 1 && k > 1},
					} {
						if c.found > c.bound+1e-12 || c.exact && c.found < c.bound-1e-12 {
							t.Errorf("%+v: %s %v, model %v", m, c.name, c.found, c.bound)
						}
					}
				}
			}
		}
	}
}

// chooseWorst is the largest share of subsets hit, down, and of load on one shard, over all failures.
func chooseWorst(subsets [][]int, m chooseModel) (degraded, down, load float64) {
	each := 1 / float64(len(subsets))
	for failed := range everySubset(m.n, m.f, 1) {
		var hit, gone float64
		loads := make([]float64, m.n)
		for _, subset := range subsets {
			var left []int
			for _, s := range subset {
				if !slices.Contains(failed, s) {
					left = append(left, s)
				}
			}
			if len(left) < m.k {
				hit += each
			}
			if len(left) == 0 {
				gone += each
			}
			for _, s := range left {
				loads[s] += each / float64(len(left))
			}
		}
		degraded, down, load = max(degraded, hit), max(down, gone), max(load, slices.Max(loads))
	}
	return degraded, down, load
}

func TestChooseBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawChoose(t)
		c := exactMust[*chooser](t)(newChooser(in))
		n := in.Zones * rapid.IntRange(chooseLeast(in)/in.Zones, 12).Draw(t, "shards of a zone")
		row := c.row(n, rapid.IntRange(1, n).Draw(t, "k"))
		for name, pair := range map[string][2]float64{
			"degraded":      {row.Expected.Degraded, row.Bound.Degraded},
			"capacity loss": {row.Expected.CapacityLoss, row.Bound.CapacityLoss},
			"fully down":    {row.Expected.FullyDown, row.Bound.FullyDown},
			"utilisation":   {row.Expected.Utilisation, row.Bound.Utilisation},
		} {
			if pair[0] > pair[1]*(1+1e-9) {
				t.Fatalf("%s: %v expected, bound %v", name, pair[0], pair[1])
			}
		}
	})

	const seed1, seed2, trials, confidence = 12, 3, 200, 0.9
	t.Logf("seed %d, %d", seed1, seed2)
	rng := rand.New(rand.NewPCG(seed1, seed2))
	for _, m := range []chooseModel{{12, 3, 2, 1}, {12, 2, 2, 3}, {9, 4, 1, 3}, {8, 2, 3, 2}} {
		const tenants = 300
		c := exactMust[*chooser](t)(newChooser(ChooseInput{
			Budget:  LossBudget{m.f, 1, 1, 1},
			Tenants: tenants, Load: tenants, Capacity: tenants, Zones: m.zones, MaxShards: m.n, Confidence: confidence,
		}))
		bound, subsets := c.row(m.n, m.k).Bound, spreadSubsets(m.n, m.k, m.zones)
		broken := map[string]int{}
		for range trials {
			placed := make([][]int, tenants)
			for i := range placed {
				placed[i] = subsets[rng.IntN(len(subsets))]
			}
			degraded, down, load := chooseWorst(placed, m)
			for name, over := range map[string]bool{
				"degraded":    degraded > bound.Degraded+1e-12,
				"fully down":  down > bound.FullyDown+1e-12,
				"utilisation": load > bound.Utilisation+1e-12,
			} {
				if over {
					broken[name]++
				}
			}
		}
		// A tenth may; four standard deviations of 200 trials more never do.
		for name, times := range broken {
			if float64(times) > trials*(1-confidence)+4*math.Sqrt(trials*confidence*(1-confidence)) {
				t.Errorf("%+v: %s beyond its bound %d times of %d", m, name, times, trials)
			}
		}
	}
}

func TestChooseTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := rapid.IntRange(1, 60).Draw(t, "tenants")
		x := rapid.IntRange(0, tenants).Draw(t, "x")
		p := big.NewRat(int64(rapid.IntRange(0, 50).Draw(t, "p")), 50)
		tail := new(big.Rat)
		for i := x + 1; i <= tenants; i++ {
			term := new(big.Rat).SetInt(exactBinomial(tenants, i))
			for range i {
				term.Mul(term, p)
			}
			for range tenants - i {
				term.Mul(term, new(big.Rat).Sub(big.NewRat(1, 1), p))
			}
			tail.Add(tail, term)
		}
		chance, _ := p.Float64()
		want, _ := tail.Float64()
		got := math.Exp(chooseLogTail(tenants, x, chance))
		if float64(x) < float64(tenants)*chance {
			if got < want*(1-1e-9) {
				t.Fatalf("%v below the mean, want at least %v", got, want)
			}
		} else if math.Abs(got-want) > 1e-9*want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	// A million and MaxTenants at three deviations, about as the normal distribution has it.
	for _, tenants := range []int{1_000_000, MaxTenants} {
		n := float64(tenants)
		if got := math.Exp(chooseLogTail(tenants, int(0.1*n+3*math.Sqrt(0.09*n)), 0.1)); math.Abs(got-0.00135) > 0.00002 {
			t.Errorf("%d tenants: %v", tenants, got)
		}
	}
}

func TestChooseConflict(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawChoose(t)
		_, err := Choose(in)
		if err == nil {
			return
		}
		refused++
		var no *NoChoiceError
		if !errors.As(err, &no) || len(no.Conflicts) == 0 || len(no.Best.Broken) == 0 {
			t.Fatalf("%v", err)
		}
		drop := func(lines []BudgetLine) ChooseInput {
			in := in
			for _, line := range lines {
				switch line {
				case LineDegradedTenants:
					in.Budget.DegradedTenants = 1
				case LineCapacityLoss:
					in.Budget.CapacityLoss = 1
				case LineFullyDown:
					in.Budget.FullyDown = 1
				case LineCapacity:
					in.Load = 0
				default:
					t.Fatalf("no such line: %s", line)
				}
			}
			return in
		}
		for _, lines := range no.Conflicts {
			if _, err := Choose(drop(lines)); err != nil {
				t.Fatalf("without %v: %v", lines, err)
			}
			for i := range lines { // no fewer are enough
				if _, err := Choose(drop(slices.Delete(slices.Clone(lines), i, i+1))); err == nil {
					t.Fatalf("without all of %v but one there is a choice", lines)
				}
			}
		}
		for _, broken := range no.Best.Broken {
			if !slices.Contains(no.Conflicts[0], broken.Line) {
				t.Fatalf("the best row breaks %s, which is not in %v", broken.Line, no.Conflicts[0])
			}
		}
		if no.Enough > 0 {
			if no.Enough <= in.MaxShards {
				t.Fatalf("%d shards are enough, and there may be %d", no.Enough, in.MaxShards)
			}
			in.MaxShards = no.Enough
			if _, err := Choose(in); err != nil {
				t.Fatalf("with %d shards: %v", no.Enough, err)
			}
		}
	})
	if refused == 0 {
		t.Error("none was refused")
	}
}

func TestChooseConflictNamed(t *testing.T) {
	base := ChooseInput{Tenants: 100_000, Zones: 1, MaxShards: 32}
	for _, c := range []struct {
		budget         LossBudget
		load, capacity float64
		want           [][]BudgetLine
		text           string
	}{
		{LossBudget{1, 0.05, 0.5, 0}, 0, 0, [][]BudgetLine{{LineDegradedTenants}}, "degradedTenants (6."},
		{LossBudget{1, 1, 0.01, 1}, 0, 0, [][]BudgetLine{{LineCapacityLoss}}, "capacityLoss (3.125%, at most 1%)"},
		{LossBudget{1, 1, 0, 1}, 0, 0, [][]BudgetLine{{LineCapacityLoss}}, "no number of shards is enough"},
		{LossBudget{1, 1, 1, 1}, 5000, 100, [][]BudgetLine{{LineCapacity}}, "shard.capacity"},
		{LossBudget{2, 0.08, 1, 0}, 0, 0, [][]BudgetLine{{LineDegradedTenants}, {LineFullyDown}}, "degradedTenants, or without fullyDown"},
		{LossBudget{1, 0.05, 0.5, 0}, 5000, 100, [][]BudgetLine{{LineDegradedTenants, LineCapacity}}, "degradedTenants with shard.capacity"},
	} {
		in := base
		in.Budget, in.Load, in.Capacity = c.budget, c.load, c.capacity
		_, err := Choose(in)
		var no *NoChoiceError
		if !errors.As(err, &no) {
			t.Fatalf("%+v: %v", c.budget, err)
		}
		if !reflect.DeepEqual(no.Conflicts, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v: %v; want %v, %q", c.budget, no.Conflicts, err, c.want, c.text)
		}
	}
}

func TestChooseRefuses(t *testing.T) {
	good := ChooseInput{Budget: LossBudget{1, 0.5, 0.5, 0}, Tenants: 100, Zones: 3, MaxShards: 30}
	exactMust[*Choice](t)(Choose(good))
	for i, change := range []func(*ChooseInput){
		func(in *ChooseInput) { in.Budget.ConcurrentFailures = 0 },
		func(in *ChooseInput) { in.Budget.ConcurrentFailures = 30 },
		func(in *ChooseInput) { in.Budget.DegradedTenants = -0.1 },
		func(in *ChooseInput) { in.Budget.CapacityLoss = 1.1 },
		func(in *ChooseInput) { in.Budget.FullyDown = math.NaN() },
		func(in *ChooseInput) { in.Tenants = 0 },
		func(in *ChooseInput) { in.Tenants = MaxTenants + 1 },
		func(in *ChooseInput) { in.Load = -1 },
		func(in *ChooseInput) { in.Load = math.Inf(1) },
		func(in *ChooseInput) { in.Capacity = math.NaN() },
		func(in *ChooseInput) { in.Zones = 0 },
		func(in *ChooseInput) { in.Zones = 31 },
		func(in *ChooseInput) { in.MaxShards = 0 },
		func(in *ChooseInput) { in.MaxShards = MaxShards + 1 },
		func(in *ChooseInput) { in.Confidence = 1 },
		func(in *ChooseInput) { in.Confidence = 0.4 },
		func(in *ChooseInput) { in.Confidence = math.NaN() },
	} {
		in := good
		change(&in)
		if c, err := Choose(in); !errors.Is(err, ErrModel) || c != nil {
			t.Errorf("change %d: %v, %v", i, c, err)
		}
	}
}

func TestChooseCheck(t *testing.T) {
	b := LossBudget{1, 0.15, 0.3333, 0}
	for _, c := range []struct {
		found LossFigures
		want  []Breach
	}{
		{LossFigures{0.15, 1.0 / 3, 0, 1}, nil}, // a third is 33.33 %, as far as a budget can be written
		{LossFigures{0.150049, 0.3333, 0, 0}, nil},
		{LossFigures{Degraded: 0.15005}, []Breach{{LineDegradedTenants, 0.15, 0.15005}}},
		{LossFigures{CapacityLoss: 0.33335}, []Breach{{LineCapacityLoss, 0.3333, 0.33335}}},
		{LossFigures{FullyDown: 1e-7}, []Breach{{LineFullyDown, 0, 1e-7}}}, // none is none
		{LossFigures{Utilisation: 1.00001}, []Breach{{LineCapacity, 1, 1.00001}}},
		{LossFigures{1, 1, 1, 2}, []Breach{{LineDegradedTenants, 0.15, 1}, {LineCapacityLoss, 0.3333, 1}, {LineFullyDown, 0, 1}, {LineCapacity, 1, 2}}},
	} {
		if got := b.Check(c.found); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.found, got, c.want)
		}
	}
	if over := (Breach{LineCapacity, 1, 1.5}).Over(); over != 0.5 {
		t.Error(over)
	}
}

// 29 % of 100 tenants are 29, though 0.29 times 100 is less to a float64.
func TestChooseWholeTenants(t *testing.T) {
	c := exactMust[*chooser](t)(newChooser(ChooseInput{Budget: LossBudget{1, 1, 1, 1}, Tenants: 100, Zones: 1, MaxShards: 10}))
	told := false
	for p := 0.05; p < 0.3; p += 0.001 {
		m := chooseModel{n: 10, k: 2, f: 1, zones: 1}
		if got, want := c.keepsTenants(m, p, 0.29), c.rare(m, p, 29); got != want {
			t.Fatalf("chance %v: %v, want %v", p, got, want)
		}
		told = told || c.rare(m, p, 29) && !c.rare(m, p, 28)
	}
	if !told {
		t.Error("no chance tells 28 from 29")
	}
}

func ExampleChoose() {
	choice, err := Choose(ChooseInput{
		Budget:  LossBudget{ConcurrentFailures: 1, DegradedTenants: 0.15, CapacityLoss: 0.5, FullyDown: 0},
		Tenants: 2000, Zones: 3, MaxShards: 64,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(choice.Row.PerTenant, "of", choice.Row.Shards)
	fmt.Println(choice.Larger)
	fmt.Println(choice.Smaller)
	fmt.Println(choice.Fewer)
	// Output:
	// 2 of 18
	// k = 3 breaks degradedTenants (19.45%, at most 15%): 16.67% of the tenants would feel a failure of 1 instead of 11.11%, and two tenants share 0.5 shards instead of 0.222
	// k = 1 breaks capacityLoss (100%, at most 50%), and fullyDown (7.3%, at most 0%)
	// 15 shards with k = 2: breaks degradedTenants (15.85%, at most 15%)
}
