package blast

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxSets is the most sets of shards that Failures measures one by one: all pairs of 2,048 shards, all
// triples of 233.
const MaxSets = 1 << 21

// maxSteps bounds the work of Failures, in steps of some nanoseconds: several seconds.
const maxSteps = 1 << 31

// Spread is how much the failures of equally many shards hit, over all sets of that many.
type Spread struct {
	Failed  int     // shards that fail together
	Sets    int     // sets measured
	Of      float64 // sets that there are, at most math.MaxFloat64
	Sampled bool    // the sets were drawn; otherwise Sets is all of them

	// Confidence is that of each interval, above 0 and below 1, when the sets were drawn; otherwise 1.
	Confidence float64
	// Beyond bounds, with that confidence, the share of all sets that are worse than the Worst of any
	// one Summary: 0 when all were measured.
	Beyond float64

	FullyDown Measured // tenants with no shard left
	Degraded  Measured // tenants that lost at least one
	Lost      Measured // capacity, or keys with a home; see Impact.LostTenants
	PerTenant []MeanLoss
}

// Measured is one count by tenants and by load, neither as a share.
type Measured struct{ Tenants, Load Summary }

// Summary is the distribution of a count over sets of shards.
type Summary struct {
	// Mean is over all sets, equally likely. It comes from the sizes of subsets alone and is exact
	// however many sets were measured.
	Mean float64

	P50, P90, P99 Quantile

	Worst float64 // of those measured
	// WorstSet is a set that is as bad, ascending. Of several it is the one whose largest member is least,
	// then the next largest, and so on; in a sample the first drawn. Losses tells what it does.
	WorstSet []int
	AtMost   float64 // no set is worse than this; the Worst when all were measured
}

// Quantile is the least value that is not exceeded by that share of the sets (nearest rank).
type Quantile struct {
	Value float64
	// Low to High holds the value over all sets with the Spread's confidence. The two are order
	// statistics of the sample, chosen by the binomial distribution, and need no assumption about how
	// the counts are distributed. High is the Summary's AtMost where the sample is too small to say.
	Low, High float64
}

// MeanLoss is how many tenants lose Lost of their Of shards, on average over all sets: exact, from the
// hypergeometric distribution.
type MeanLoss struct {
	Lost, Of      int
	Tenants, Load float64
}

// Feasible tells whether Failures measures every set of that many shards, and how many there are (at
// most math.MaxFloat64; 0 when there is no such set).
func (p *Population) Feasible(failed int) (sets float64, ok bool) {
	if failed < 1 || failed > p.shards {
		return 0, false
	}
	sets = binomial(p.shards, failed)
	if sets > MaxSets {
		return sets, false
	}
	return sets, p.countable(failed) || sets*p.stepsPerSet(failed) <= maxSteps
}

// Failures measures what the failure of that many shards does, over all sets of them: every one where
// that is feasible, otherwise a sample. ErrFailed when there is no such set. When it is not feasible,
// ErrTooMany with the zero Sampling, and when the sample itself would be too much work.
//
// Up to three shards are counted by inclusion and exclusion over the tenants that hold a shard, a pair
// and a triple: g·C(k, f) steps to count those for g different subsets, then a few for each set and
// size of subset. Otherwise each set is looked up in an index from shards to subsets. The bounds are
// MaxSets, and 2^31 steps, and are checked before any work.
func (p *Population) Failures(failed int, sampling Sampling) (*Spread, error) {
	if failed < 1 || failed > p.shards {
		return nil, fmt.Errorf("%w: %d shards together, want 1 to %d", ErrFailed, failed, p.shards)
	}
	sets, feasible := p.Feasible(failed)
	s := &Spread{Failed: failed, Of: sets}
	switch {
	case feasible:
		p.all(s)
	case sampling == Sampling{}:
		return nil, fmt.Errorf("%w: %.4g sets of %d of %d shards: measure a sample of them", ErrTooMany, sets, failed, p.shards)
	default:
		if err := sampling.check(); err != nil {
			return nil, err
		}
		if float64(sampling.Sets)*p.stepsPerSet(failed) > maxSteps {
			return nil, fmt.Errorf("%w: a sample of %d sets of %d shards: draw fewer sets", ErrTooMany, sampling.Sets, failed)
		}
		p.sample(s, sampling)
	}
	return s, nil
}

// all measures every set of s.
func (p *Population) all(s *Spread) {
	s.Sets, s.Confidence = int(s.Of), 1
	m := newMeasurement(s.Sets, s.Failed)
	if p.countable(s.Failed) {
		newPortions(p, s.Failed).each(m.add)
	} else {
		t := newTally(p)
		combinations(p.shards, s.Failed, func(set []int) { m.add(set, t.fail(set)) })
	}
	m.summarise(s, p)
}

// sample measures some sets of s.
func (p *Population) sample(s *Spread, sampling Sampling) {
	s.Sets, s.Sampled, s.Confidence = sampling.Sets, true, sampling.Confidence
	s.Beyond = 1 - math.Pow(1-s.Confidence, 1/float64(s.Sets))
	m := newMeasurement(s.Sets, s.Failed)
	t := newTally(p)
	sampling.draw(p.shards, s.Failed, func(set []int) { m.add(set, t.fail(set)) })
	m.summarise(s, p)
}

// stepsPerSet is what the failure of a set takes to look up, on average.
func (p *Population) stepsPerSet(failed int) float64 {
	entries, slots := 0.0, 0.0
	for _, with := range p.with {
		entries += float64(len(with))
	}
	for _, c := range p.classes {
		slots += float64(c.size)
	}
	return 1 + slots + 2*entries*float64(failed)/float64(p.shards)
}

// countable tells whether inclusion and exclusion is feasible.
func (p *Population) countable(failed int) bool {
	if failed > 3 {
		return false
	}
	steps := binomial(p.shards, failed) * float64(len(p.classes))
	if steps > 2*MaxSets { // of 16 bytes each
		return false
	}
	for _, g := range p.groups {
		steps += binomial(len(g.members), failed)
	}
	return steps <= maxSteps
}

// binomial is C(n, k), saturated at math.MaxFloat64. It is exact below 2^53.
func binomial(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	k = min(k, n-k)
	exact, c := uint64(1), 1.0
	for i := range k {
		if hi, lo := bits.Mul64(exact, uint64(n-i)); c < 1<<53 && hi == 0 {
			exact = lo / uint64(i+1)
			c = float64(exact)
			continue
		}
		if c *= float64(n-i) / float64(i+1); c > math.MaxFloat64 {
			return math.MaxFloat64
		}
	}
	return c
}

// combinations gives each set of k of n in colexicographic order, ascending, in one slice.
func combinations(n, k int, each func([]int)) {
	set := make([]int, k)
	for i := range set {
		set[i] = i
	}
	for {
		each(set)
		i := 0
		for i < k-1 && set[i]+1 == set[i+1] {
			set[i] = i
			i++
		}
		if set[i]++; set[k-1] == n {
			return
		}
	}
}

// measurement holds the counts of each set measured. The order is that of Spread.of.
type measurement struct {
	values [6][]float64
	worst  [6]int // the number of the set
	sets   [6][]int
	count  int
}

func newMeasurement(sets, failed int) *measurement {
	m := new(measurement)
	all := make([]float64, len(m.values)*sets)
	for i := range m.values {
		m.values[i], all = all[:0:sets], all[sets:]
		m.sets[i] = make([]int, failed)
	}
	return m
}

// add takes the impact of one set.
func (m *measurement) add(set []int, of Impact) {
	for i, v := range [6]float64{
		float64(of.FullyDown), of.FullyDownLoad,
		float64(of.Degraded), of.DegradedLoad,
		of.LostTenants, of.LostLoad,
	} {
		m.values[i] = append(m.values[i], v)
		if m.count == 0 || v > m.values[i][m.worst[i]] {
			m.worst[i] = m.count
			copy(m.sets[i], set)
		}
	}
	m.count++
}

// summarise turns the counts into the distributions of s.
func (m *measurement) summarise(s *Spread, p *Population) {
	s.PerTenant = p.meanLosses(s.Failed)
	var means [6]float64
	for _, l := range s.PerTenant {
		share := float64(l.Lost) / float64(l.Of)
		if l.Lost == l.Of {
			means[0] += l.Tenants
			means[1] += l.Load
		}
		if l.Lost > 0 {
			means[2] += l.Tenants
			means[3] += l.Load
		}
		means[4] += share * l.Tenants
		means[5] += share * l.Load
	}
	bounds := p.bounds(s.Failed)
	for i, to := range []*Summary{
		&s.FullyDown.Tenants, &s.FullyDown.Load,
		&s.Degraded.Tenants, &s.Degraded.Load,
		&s.Lost.Tenants, &s.Lost.Load,
	} {
		values := m.values[i]
		worst := values[m.worst[i]]
		*to = Summary{Mean: means[i], Worst: worst, WorstSet: slices.Clone(m.sets[i]), AtMost: worst}
		slices.Sort(to.WorstSet)
		if s.Sampled {
			to.AtMost = max(worst, bounds[i])
		}
		slices.Sort(values)
		to.P50 = quantile(values, 0.5, s, to.AtMost)
		to.P90 = quantile(values, 0.9, s, to.AtMost)
		to.P99 = quantile(values, 0.99, s, to.AtMost)
	}
}
