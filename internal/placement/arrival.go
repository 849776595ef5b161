package placement

import (
	"math"
	"slices"
)

// shares is the chance of each position to be among the first c.
func (r *ranking) shares(c int) []float64 {
	n := len(r.words)
	if c == 0 || r.weights == nil || c == n {
		return slices.Repeat([]float64{float64(c) / float64(n)}, n)
	}
	a := newArrival(r.weights)
	byClass := a.first(c)
	shares := make([]float64, n)
	for at, w := range r.weights {
		i, _ := slices.BinarySearch(a.classes, w)
		shares[at] = byClass[i]
	}
	return shares
}

// arrival is the race in which the shards of a zone arrive one after the other. By the time t one of
// weight w has, with probability 1-exp(-w·t) and whatever the others do. How many have is a sum of
// unequal coins (Poisson's binomial distribution).
type arrival struct {
	classes []uint64  // the different weights, ascending
	count   []int     // shards of each, parallel
	shards  int       // of all
	dist    []float64 // dist[m] is the chance that m have arrived, for from <= m < to
	from    int
	to      int
}

func newArrival(weights []uint64) *arrival {
	a := &arrival{shards: len(weights), dist: make([]float64, len(weights)+1)}
	for _, w := range slices.Sorted(slices.Values(weights)) {
		if last := len(a.classes) - 1; last >= 0 && a.classes[last] == w {
			a.count[last]++
			continue
		}
		a.classes, a.count = append(a.classes, w), append(a.count, 1)
	}
	return a
}

// first is the chance of a shard of each class to be among the first c, 1 <= c < shards.
//
// A shard that arrives at the time t is so when fewer than c of the others came before. That chance falls
// from 1 to 0 within a window of log t. Whoever arrives before the window is among the first and whoever
// arrives after is not, so that only the window is integrated over: in panels, each by Gauss and Legendre's
// rule.
//
// In log t the fall is no steeper than 1/√c, since the mean number that has arrived, M, grows by at most
// √M standard deviations for each e-fold of t. A panel of four such widths, or of a factor e² in t where
// that is less, is one over which the rule's error is far below what is promised.
func (a *arrival) first(c int) []float64 {
	low, high := a.window(c)
	shares := make([]float64, len(a.classes))
	for i, w := range a.classes {
		shares[i] = -math.Expm1(-float64(w) * math.Exp(low))
	}
	panels := math.Ceil((high - low) / min(2, 4/math.Sqrt(float64(c))))
	half := (high - low) / panels / 2
	for panel := range int(panels) {
		middle := low + half*float64(2*panel+1)
		for _, node := range gauss {
			for _, side := range [2]float64{-1, 1} {
				t := math.Exp(middle + side*node[0]*half)
				a.at(t)
				for i, w := range a.classes {
					rate := float64(w) * t // density of its arrival in log t is rate·exp(-rate)
					shares[i] += half * node[1] * rate * math.Exp(-rate) * a.fewer(c, w, t)
				}
			}
		}
	}
	for i := range shares {
		shares[i] = min(1, shares[i])
	}
	return shares
}

// gauss is Gauss and Legendre's rule with 16 nodes over -1 to 1: the nodes above 0, and their weights. Those
// below have the same.
var gauss = [8][2]float64{
	{0.0950125098376374402, 0.1894506104550684963},
	{0.2816035507792589132, 0.1826034150449235889},
	{0.4580167776572273863, 0.1691565193950025382},
	{0.6178762444026437484, 0.1495959888165767321},
	{0.7554044083550030339, 0.1246289712555338721},
	{0.8656312023878317439, 0.0951585116824927848},
	{0.9445750230732325761, 0.0622535239386478929},
	{0.9894009349916499326, 0.0271524594117540949},
}

// outside is the chance that is neglected on each side of the window.
const outside = 1e-13

// window is the logarithms of two times: before the first, c have arrived with a chance below outside; after
// the second, c or fewer have. By Hoeffding's bound that is so once n times the divergence of c/n from M/n
// exceeds -ln(outside) ("Probability inequalities for sums of bounded random variables", 1963, theorem 1).
func (a *arrival) window(c int) (low, high float64) {
	n := float64(a.shards)
	part := float64(c) / n
	within := func(x float64) (late, inside bool) {
		came, left := 0.0, 0.0
		for i, w := range a.classes {
			rate := float64(w) * math.Exp(x)
			came -= float64(a.count[i]) * math.Expm1(-rate)
			left += float64(a.count[i]) * math.Exp(-rate)
		}
		divergence := part*math.Log(part*n/came) + (1-part)*math.Log((1-part)*n/left)
		return came > float64(c), n*divergence < -math.Log(outside)
	}
	// No weight is above MaxWeight or below 1, so that these are before and after every window.
	first, last := -math.Log(MaxWeight*n)+math.Log(outside), math.Log(2*n)+math.Log(-math.Log(outside))
	return bisect(first, last, func(x float64) bool { late, inside := within(x); return late || inside }),
		bisect(first, last, func(x float64) bool { late, inside := within(x); return late && !inside })
}

// bisect is where holds begins to, near enough: it is false below and true above.
func bisect(low, high float64, holds func(float64) bool) float64 {
	for range 40 {
		if mid := (low + high) / 2; holds(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// negligible is a chance that counts for nothing even MaxShards times.
const negligible = 1e-22

// at sets the distribution to that of the time t.
func (a *arrival) at(t float64) {
	a.from, a.to = 0, 1
	a.dist[0] = 1
	for i, w := range a.classes {
		came, left := -math.Expm1(-float64(w)*t), math.Exp(-float64(w)*t)
		for range a.count[i] {
			a.dist[a.to] = 0
			for m := a.to; m > a.from; m-- {
				a.dist[m] = a.dist[m]*left + a.dist[m-1]*came
			}
			a.dist[a.from] *= left
			a.to++
			for a.dist[a.from] < negligible {
				a.from++
			}
			for a.dist[a.to-1] < negligible {
				a.to--
			}
		}
	}
}

// fewer is the chance at the time t that fewer than c have arrived of all shards but one of weight w.
//
// With F for all shards and G without this one, F(m) = left·G(m) + came·G(m-1), where F and G are the chances
// of m or fewer. That is solved from whichever end divides by the larger of the two, so that errors shrink.
func (a *arrival) fewer(c int, w uint64, t float64) float64 {
	came, left := -math.Expm1(-float64(w)*t), math.Exp(-float64(w)*t)
	if left >= came {
		all, without := 0.0, 0.0
		for m := a.from; m < min(c, a.to); m++ {
			all += a.dist[m]
			without = (all - came*without) / left
		}
		if c > a.to {
			return 1
		}
		return without
	}
	all, without := 0.0, 0.0 // of m or more, and of m-1 or more
	for m := a.to - 1; m > max(c, a.from-1); m-- {
		all += a.dist[m]
		without = (all - left*without) / came
	}
	if c < a.from {
		return 0
	}
	return 1 - without
}
