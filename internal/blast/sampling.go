package blast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling is how sets of shards are drawn when there are too many to measure each. Equal samplings of
// equal populations give equal results.
type Sampling struct {
	Seed       uint64
	Sets       int     // sets to draw, with replacement, 1 to MaxSets
	Confidence float64 // of each interval, above 0 and below 1: 0.95, say
}

func (s Sampling) check() error {
	if s.Sets < 1 || s.Sets > MaxSets {
		return fmt.Errorf("%w: %d sets, want 1 to %d", ErrSampling, s.Sets, MaxSets)
	}
	if !(s.Confidence > 0 && s.Confidence < 1) {
		return fmt.Errorf("%w: confidence %v, want above 0 and below 1", ErrSampling, s.Confidence)
	}
	return nil
}

// draw gives independent sets of f of n shards, each equally likely, in one slice.
func (s Sampling) draw(n, f int, each func([]int)) {
	rng := rand.New(rand.NewPCG(s.Seed, uint64(f)))
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	for range s.Sets {
		for i := range f { // the first f steps of a shuffle, which may begin from any order
			j := i + rng.IntN(n-i)
			all[i], all[j] = all[j], all[i]
		}
		each(all[:f])
	}
}

// quantile is that of ascending values, with the interval that a sample leaves.
func quantile(values []float64, q float64, s *Spread, atMost float64) Quantile {
	m := len(values)
	value := values[rank(q, m)-1]
	if !s.Sampled {
		return Quantile{value, value, value}
	}
	low, high := orderStatistics(m, q, (1-s.Confidence)/2)
	of := Quantile{Value: value, High: atMost}
	if low > 0 {
		of.Low = values[low-1]
	}
	if high <= m {
		of.High = values[high-1]
	}
	return of
}

// rank is the number, from 1, of the value that is the quantile of m.
func rank(q float64, m int) int {
	// 0.9·10 may come out a little above 9 in floating point, which is still rank 9.
	return min(m, max(1, int(math.Ceil(q*float64(m)-1e-9*float64(m)))))
}

// orderStatistics is the numbers, from 1, of the two of m ordered values that lie below and above the
// quantile q but for a probability of at most tail each; 0 and m+1 when there is none. Let X be how many
// values are at most the quantile, which is binomial with at least q: the low one lies above it with
// P(X < low), and the high one below it with P(X' >= high), where X' counts those strictly below.
func orderStatistics(m int, q, tail float64) (low, high int) {
	pmf := binomialPMF(m, q)
	sum := 0.0
	for low < m && sum+pmf[low] <= tail {
		sum += pmf[low]
		low++
	}
	sum, high = 0, m+1
	for high > 0 && sum+pmf[high-1] <= tail {
		sum += pmf[high-1]
		high--
	}
	return low, high
}

// binomialPMF is the probabilities of 0 to m successes, 0 < q < 1. They are built up from the mode and
// divided by their sum, so that nothing underflows that counts.
func binomialPMF(m int, q float64) []float64 {
	pmf := make([]float64, m+1)
	mode := min(m, int(float64(m+1)*q))
	pmf[mode] = 1
	odds := q / (1 - q)
	for i := mode; i < m; i++ {
		pmf[i+1] = pmf[i] * odds * float64(m-i) / float64(i+1)
	}
	for i := mode; i > 0; i-- {
		pmf[i-1] = pmf[i] / odds * float64(i) / float64(m-i+1)
	}
	return normalised(pmf)
}

func normalised(weights []float64) []float64 {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// meanLosses is how many tenants lose how much when f shards fail, on average over all sets.
func (p *Population) meanLosses(f int) []MeanLoss {
	var losses []MeanLoss
	for _, c := range p.classes {
		least := max(0, f-(p.shards-c.size))
		for i, q := range hypergeometric(p.shards, c.size, f) {
			losses = append(losses, MeanLoss{
				Lost: least + i, Of: c.size,
				Tenants: q * float64(c.tenants),
				Load:    q * p.amount(c.load),
			})
		}
	}
	return losses
}

// hypergeometric is the probabilities that f of n shards have l of the k of a subset, for each l that
// can be, ascending.
func hypergeometric(n, k, f int) []float64 {
	least, most := max(0, f-(n-k)), min(k, f)
	mode := min(most, max(least, int(float64(k+1)*float64(f+1)/float64(n+2))))
	pmf := make([]float64, most-least+1)
	pmf[mode-least] = 1
	// The ratio of the probability of l+1 to that of l.
	ratio := func(l int) float64 {
		return float64(k-l) * float64(f-l) / (float64(l+1) * float64(n-k-f+l+1))
	}
	for l := mode; l < most; l++ {
		pmf[l+1-least] = pmf[l-least] * ratio(l)
	}
	for l := mode; l > least; l-- {
		pmf[l-1-least] = pmf[l-least] / ratio(l-1)
	}
	return normalised(pmf)
}

// bounds is what no failure of f shards exceeds, in the order of a measurement. The capacity lost is a
// sum over the failed shards, so its bound is reached. Whoever is degraded holds a failed shard; whoever
// is fully down has lost all of its capacity, and has no more shards than fail.
func (p *Population) bounds(f int) [6]float64 {
	held := [6][]float64{} // tenants, load, tenants by share, load by share, and these of who can be down
	for i := range held {
		held[i] = make([]float64, p.shards)
	}
	for _, g := range p.groups {
		for _, m := range g.members {
			tenants, load := float64(g.tenants), p.amount(g.load)
			held[0][m] += tenants
			held[1][m] += load
			held[2][m] += tenants / float64(len(g.members))
			held[3][m] += load / float64(len(g.members))
			if len(g.members) <= f {
				held[4][m] += tenants / float64(len(g.members))
				held[5][m] += load / float64(len(g.members))
			}
		}
	}
	var most [6]float64
	for i, by := range held {
		slices.Sort(by)
		for _, v := range by[len(by)-f:] {
			most[i] += v
		}
		all := float64(p.tenants)
		if i%2 == 1 {
			all = p.Load()
		}
		most[i] = min(all, most[i])
	}
	return [6]float64{most[4], most[5], most[0], most[1], most[2], most[3]}
}
