package blast

import (
	"fmt"
	"math"
)

// LossBudget is what a cell may lose when ConcurrentFailures of its shards fail together, as shares
// from 0 to 1. A line that the budget does not have is 1.
type LossBudget struct {
	ConcurrentFailures int     // shards, at least 1
	DegradedTenants    float64 // tenants with at least one failed shard
	CapacityLoss       float64 // of its capacity, that the tenant which is hit worst loses
	FullyDown          float64 // tenants with no shard left
}

// ChooseInput is what a choice of n and k has to go by.
type ChooseInput struct {
	Budget   LossBudget
	Tenants  int     // 1 to MaxTenants, taken to be of equal load
	Load     float64 // of all tenants together; 0 when it is not known
	Capacity float64 // of each shard, in the unit of the load; 0 when it is not known

	// Zones is the number of zones, over which a subset spreads as rendezvous/v1 does it. They are
	// kept equal, so n is a multiple of it. 1 for a placement that knows no zones, such as hmac/v1.
	Zones int
	// MaxShards is the most shards that n may be, more than the concurrent failures.
	MaxShards int
	// Confidence is the chance, at least 0.5 and below 1, with which each line holds whatever shards
	// fail, over the random placement. 0 stands for ChooseConfidence.
	Confidence float64
}

// ChooseConfidence is the usual confidence of a choice: of 100 keys that could have placed the
// tenants, one may break a line that the choice keeps.
const ChooseConfidence = 0.99

// LossFigures is what a budget is checked against, as shares.
type LossFigures struct {
	Degraded     float64 // tenants with at least one failed shard
	CapacityLoss float64 // of its capacity, that the tenant which is hit worst loses
	FullyDown    float64 // tenants with no shard left
	Utilisation  float64 // load by capacity of the fullest shard that is left; 0 when it is not known
}

// ChoiceRow is one n and k, whether it keeps the budget or not.
type ChoiceRow struct {
	Shards    int // n, which is the cost
	PerTenant int // k

	// Expected is the mean over all sets of shards that can fail. Its CapacityLoss is that of the
	// degraded tenants on average, its Utilisation that of the shards left on average.
	Expected LossFigures
	// Bound is what no set of shards that can fail exceeds: CapacityLoss for certain, each other
	// figure with the confidence of the input.
	Bound LossFigures

	Broken []Breach // lines of the budget that the bound breaks, in the budget's order

	// The noise: what tenants have to do with each other.
	MeanOverlap float64 // shards that two tenants share, expected
	Identical   float64 // chance that one misbehaving tenant covers a given other's whole subset
	Covered     float64 // other tenants that one misbehaving tenant covers, expected

	// ZoneLoss is the most of its capacity that a tenant loses with a whole zone.
	ZoneLoss float64
}

// Choice is the smallest n, and for it the smallest k, that keep a budget.
type Choice struct {
	Row ChoiceRow
	// Neighbours are the rows with one k, and one shard for each zone, more and fewer, as far as they
	// exist, and the chosen one; in the order of n, then k.
	Neighbours []ChoiceRow

	Larger  string // why k is not larger
	Smaller string // why k is not smaller
	Fewer   string // why there are not fewer shards
}

// Choose finds the smallest number of shards, and for it the smallest number for each tenant, that
// keep the budget with the confidence asked for. *NoChoiceError when nothing does, ErrModel when the
// input makes no sense.
//
// More shards for each tenant cost no hardware but more noise: each failure is felt by more tenants.
// So k is only as large as the budget's capacityLoss and fullyDown need.
func Choose(in ChooseInput) (*Choice, error) {
	c, err := newChooser(in)
	if err != nil {
		return nil, err
	}
	n, k, ok := c.smallest()
	if !ok {
		return nil, c.conflict()
	}
	choice := &Choice{Row: c.row(n, k)}
	for _, shards := range []int{n - c.in.Zones, n, n + c.in.Zones} {
		for _, perTenant := range []int{k - 1, k, k + 1} {
			if c.exists(shards, perTenant) {
				choice.Neighbours = append(choice.Neighbours, c.row(shards, perTenant))
			}
		}
	}
	c.explain(choice)
	return choice, nil
}

// chooser is a checked input.
type chooser struct {
	in   ChooseInput
	tail float64 // chance that a line may be broken with
}

func newChooser(in ChooseInput) (*chooser, error) {
	if in.Confidence == 0 {
		in.Confidence = ChooseConfidence
	}
	refuse := func(format string, args ...any) (*chooser, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...)
	}
	if err := in.Budget.check(); err != nil {
		return nil, err
	}
	switch {
	case in.Tenants < 1 || in.Tenants > MaxTenants:
		return refuse("%d tenants, want 1 to %d", in.Tenants, MaxTenants)
	case !(in.Load >= 0) || math.IsInf(in.Load, 1):
		return refuse("a load of %v, want 0 (not known) or more", in.Load)
	case !(in.Capacity >= 0) || math.IsInf(in.Capacity, 1):
		return refuse("shards with a capacity of %v, want 0 (not known) or more", in.Capacity)
	case in.Zones < 1 || in.Zones > MaxShards:
		return refuse("%d zones, want 1 to %d", in.Zones, MaxShards)
	case in.MaxShards < 1 || in.MaxShards > MaxShards:
		return refuse("at most %d shards, want 1 to %d", in.MaxShards, MaxShards)
	case in.MaxShards < chooseLeast(in):
		return refuse("at most %d shards, too few: with %d failed together and %d zones alike, %d is the least", in.MaxShards, in.Budget.ConcurrentFailures, in.Zones, chooseLeast(in))
	case !(in.Confidence >= 0.5 && in.Confidence < 1):
		return refuse("a confidence of %v, want at least 0.5 and below 1", in.Confidence)
	}
	return &chooser{in: in, tail: 1 - in.Confidence}, nil
}

// chooseLeast is the least number of shards of which some are left when as many fail as the budget says.
func chooseLeast(in ChooseInput) int {
	return (in.Budget.ConcurrentFailures/in.Zones + 1) * in.Zones
}

// exists tells whether there is such an n and k to look at. A neighbour may be above MaxShards of the
// input, as the next one to buy.
func (c *chooser) exists(n, k int) bool {
	return n >= chooseLeast(c.in) && n <= MaxShards && k >= 1 && k <= n
}

// smallest goes through n, then k, upwards.
func (c *chooser) smallest() (n, k int, ok bool) {
	for n := chooseLeast(c.in); n <= c.in.MaxShards; n += c.in.Zones {
		if k, ok := c.smallestFor(n); ok {
			return n, k, true
		}
	}
	return 0, 0, false
}

// smallestFor is the smallest k that keeps the budget with n shards. Each line is looked at where it
// ends the search soonest.
func (c *chooser) smallestFor(n int) (int, bool) {
	b, f := c.in.Budget, c.in.Budget.ConcurrentFailures
	k := 1
	if b.CapacityLoss < 1 { // f/k at the most, so k is at least f/loss; rounding is put right below
		if !(float64(f) <= allowed(b.CapacityLoss)*float64(n)*(1+1e-9)) {
			return 0, false
		}
		k = max(1, int(float64(f)/allowed(b.CapacityLoss))-1)
	}
	for ; k <= n; k++ {
		m := chooseModel{n: n, k: k, f: f, zones: c.in.Zones}
		switch {
		case !c.keepsDegraded(m):
			return 0, false // a larger k is hit by more failures
		case exceeds(m.worstLoss(), b.CapacityLoss), !c.keepsFullyDown(m):
		case c.keepsLoad(m):
			return k, true
		case k > f && !c.keepsMeanLoad(m):
			return 0, false // nor with another k above f: the mean is all the same
		}
	}
	return 0, false
}

// row is everything about one n and k.
func (c *chooser) row(n, k int) ChoiceRow {
	f := c.in.Budget.ConcurrentFailures
	m := chooseModel{n: n, k: k, f: f, zones: c.in.Zones}
	u := Uniform{n, k}
	untouched := exactMiss(n, f, k)
	degraded := exactFloat(exactNew().Sub(exactInt(1), untouched))
	identical := m.identical()
	row := ChoiceRow{
		Shards: n, PerTenant: k,
		Expected: LossFigures{
			Degraded:     degraded,
			CapacityLoss: float64(f) / float64(n) / degraded,
			FullyDown:    exactFloat(exactMiss(n, k, n-f)),
		},
		Bound: LossFigures{
			Degraded:     c.degradedBound(m),
			CapacityLoss: m.worstLoss(),
			FullyDown:    c.fullyDownBound(m),
		},
		MeanOverlap: u.MeanOverlap(),
		Identical:   identical,
		Covered:     identical * float64(c.in.Tenants-1),
		ZoneLoss:    float64((k+c.in.Zones-1)/c.in.Zones) / float64(k),
	}
	if c.loadKnown() {
		row.Expected.Utilisation = c.in.Load * (1 - row.Expected.FullyDown) / float64(n-f) / c.in.Capacity
		row.Bound.Utilisation = c.loadBound(m)
	}
	row.Broken = c.in.Budget.Check(row.Bound)
	return row
}

func (c *chooser) loadKnown() bool { return c.in.Load > 0 && c.in.Capacity > 0 }

// explain says why the choice is not another one.
func (c *chooser) explain(choice *Choice) {
	row := choice.Row
	n, k, f := row.Shards, row.PerTenant, c.in.Budget.ConcurrentFailures
	switch {
	case !c.exists(n, k+1):
		choice.Larger = fmt.Sprintf("k = %d is every shard already", k)
	default:
		next := c.row(n, k+1)
		choice.Larger = fmt.Sprintf("k = %d %s: %s", k+1, keepsOrBreaks(next), chooseNoise(row, next, f))
	}
	choice.Smaller = "k = 1 is the least there is"
	if k > 1 {
		choice.Smaller = fmt.Sprintf("k = %d %s", k-1, keepsOrBreaks(c.row(n, k-1)))
	}
	choice.Fewer = fmt.Sprintf("%d shards are the least of which some are left when %d fail", n, f)
	if fewer := n - c.in.Zones; c.exists(fewer, 1) {
		choice.Fewer = fmt.Sprintf("%d shards with k = %d: %s", fewer, min(k, fewer), keepsOrBreaks(c.row(fewer, min(k, fewer))))
	}
}

func chooseNoise(row, next ChoiceRow, f int) string {
	return fmt.Sprintf("%s of the tenants would feel a failure of %d instead of %s, and two tenants share %.3g shards instead of %.3g",
		percentText(next.Expected.Degraded), f, percentText(row.Expected.Degraded), next.MeanOverlap, row.MeanOverlap)
}

func keepsOrBreaks(row ChoiceRow) string {
	if len(row.Broken) == 0 {
		return "keeps the budget too, and the budget does not need it"
	}
	text := "breaks "
	for i, b := range row.Broken {
		if i > 0 {
			text += ", and "
		}
		text += b.short()
	}
	return text
}
