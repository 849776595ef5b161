package blast

import (
	"math"
	"math/big"
)

// chooseModel is n shards in equal zones, k for each tenant, of which f fail. A subset has k/zones
// shards of each zone, and one more of as many zones as leave a remainder; any such subset is as
// likely as another. With one zone that is Uniform.
type chooseModel struct{ n, k, f, zones int }

// worstLoss is the share of its shards that the tenant which is hit worst loses: there is always a
// failure that hits a tenant with all it has.
func (m chooseModel) worstLoss() float64 { return float64(min(m.f, m.k)) / float64(m.k) }

// identical is the chance that two tenants have the same subset.
func (m chooseModel) identical() float64 {
	one := new(big.Float).SetPrec(exactBits).SetInt64(1)
	return exactFloat(one.Quo(one, new(big.Float).SetPrec(exactBits).SetInt(m.subsets())))
}

// subsets is the number of subsets that a tenant can have.
func (m chooseModel) subsets() *big.Int {
	each, more := m.k/m.zones, m.k%m.zones
	size := int64(m.n / m.zones)
	ways := new(big.Int).Binomial(int64(m.zones), int64(more))
	pick := func(members, zones int) {
		of := new(big.Int).Binomial(size, int64(members))
		ways.Mul(ways, of.Exp(of, big.NewInt(int64(zones)), nil))
	}
	pick(each, m.zones-more)
	pick(each+1, more)
	return ways
}

// degraded is the chance that a given set of failed shards hits a tenant, or in zones the most that
// it can be: each shard has k/n of the tenants, and f of them no more than f times that. It is that
// for failures in one zone, while k is at most the number of zones.
func (m chooseModel) degraded() float64 {
	if m.zones > 1 {
		return math.Min(1, float64(m.f)*float64(m.k)/float64(m.n))
	}
	return exactFloat(exactNew().Sub(exactInt(1), exactMiss(m.n, m.f, m.k)))
}

// fullyDown is the chance that a given set of failed shards has all of a tenant's, or in zones the
// most that it can be: as if each k of them could be a subset.
func (m chooseModel) fullyDown() float64 {
	if m.f < m.k {
		return 0
	}
	if m.zones > 1 {
		covered := new(big.Float).SetPrec(exactBits).SetInt(new(big.Int).Binomial(int64(m.f), int64(m.k)))
		return math.Min(1, exactFloat(covered.Quo(covered, new(big.Float).SetPrec(exactBits).SetInt(m.subsets()))))
	}
	return exactFloat(exactMiss(m.n, m.k, m.n-m.f))
}

// most is the largest share of a tenant's load that one of its shards can carry after the failure.
func (m chooseModel) most() float64 { return 1 / float64(m.k-min(m.f, m.k-1)) }

// load is the mean share of a tenant's load on a given shard that is left, over all placements; in
// zones the most that it can be. A tenant that lost l of its shards loads the others with
// 1/(k-l) = 1/k + l/(k·(k-l)) each, and it has two given shards with at most the chance of pair.
func (m chooseModel) load() float64 {
	if m.zones == 1 {
		return (1 - m.fullyDown()) / float64(m.n-m.f)
	}
	return math.Min(m.most(), 1/float64(m.n)+float64(m.f)*m.pair()/float64(m.k)*m.most())
}

// pair is the chance that a tenant has two given shards of different zones. Two of one zone it has no
// more often than that, since zones are equal and a subset spreads over them.
func (m chooseModel) pair() float64 {
	zones, size := float64(m.zones), float64(m.n/m.zones)
	each, more := float64(m.k/m.zones), float64(m.k%m.zones)
	return (each*each + 2*each*more/zones + more/zones*(more-1)/(zones-1)) / (size * size)
}

// Whatever shards fail, a line must hold: so the chance that one given failure breaks it is multiplied
// by the number of failures that there are (Boole). For one failure, the number of tenants that it hits
// is binomial, since tenants are placed independently.
//
// Logarithms are those of package math, of which processors may differ in the last digit. A bound that lies on
// the budget to that digit may be kept on one and not on another.

func (c *chooser) degradedBound(m chooseModel) float64 {
	return float64(c.mostTenants(m, m.degraded())) / float64(c.in.Tenants)
}

func (c *chooser) fullyDownBound(m chooseModel) float64 {
	return float64(c.mostTenants(m, m.fullyDown())) / float64(c.in.Tenants)
}

func (c *chooser) keepsDegraded(m chooseModel) bool {
	return c.keepsTenants(m, m.degraded(), c.in.Budget.DegradedTenants)
}

func (c *chooser) keepsFullyDown(m chooseModel) bool {
	return c.keepsTenants(m, m.fullyDown(), c.in.Budget.FullyDown)
}

// keepsTenants tells whether no failure hits more than the share of tenants.
func (c *chooser) keepsTenants(m chooseModel, chance, share float64) bool {
	tenants := float64(c.in.Tenants)
	hit := int(allowed(share) * tenants)
	if float64(hit+1)/tenants <= allowed(share) { // the product was rounded down past a whole number
		hit++
	}
	return c.rare(m, chance, hit)
}

// rare tells whether, with the confidence, no failure hits more than that many tenants.
func (c *chooser) rare(m chooseModel, chance float64, hit int) bool {
	return chooseLogBinomial(m.n, m.f)+chooseLogTail(c.in.Tenants, hit, chance) <= math.Log(c.tail)
}

// mostTenants is the least number of tenants for which rare holds.
func (c *chooser) mostTenants(m chooseModel, chance float64) int {
	if chance == 0 {
		return 0
	}
	low, high := -1, c.in.Tenants // rare never holds for low, always for high
	for high-low > 1 {
		if mid := low + (high-low)/2; c.rare(m, chance, mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// The load of a shard is a sum over tenants, each between 0 and most of a tenant's load. Its tail is
// bounded as Hoeffding does it, by the divergence from the mean (W. Hoeffding, "Probability inequalities
// for sums of bounded random variables", JASA 58(301), 1963, theorem 1).

func (c *chooser) keepsLoad(m chooseModel) bool {
	return !c.loadKnown() || c.rareLoad(m, m.load(), c.in.Capacity/c.in.Load)
}

// keepsMeanLoad is keepsLoad for the mean of all shards that are left after a failure that takes no
// tenant down: no model with more shards for each tenant than failures has less on its fullest shard.
func (c *chooser) keepsMeanLoad(m chooseModel) bool {
	return c.in.Load/float64(m.n-m.f) <= c.in.Capacity
}

func (c *chooser) loadBound(m chooseModel) float64 {
	low, high := m.load(), m.most()
	for range 60 {
		if mid := (low + high) / 2; c.rareLoad(m, m.load(), mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high * c.in.Load / c.in.Capacity
}

// rareLoad tells whether, with the confidence, no failure leaves a shard with more than that share of
// all load, when the mean is as given.
func (c *chooser) rareLoad(m chooseModel, mean, share float64) bool {
	if share >= m.most() {
		return true
	}
	if share <= mean {
		return false
	}
	ways := math.Log(float64(m.n-m.f)) + chooseLogBinomial(m.n, m.f)
	return ways-float64(c.in.Tenants)*chooseDivergence(share/m.most(), mean/m.most()) <= math.Log(c.tail)
}

// chooseDivergence is that of Bernoulli variables, Kullback and Leibler's, in nats; 0 < p < x < 1.
func chooseDivergence(x, p float64) float64 {
	return x*math.Log(x/p) + (1-x)*math.Log((1-x)/(1-p))
}

// chooseLogBinomial is ln C(n,k). It goes into bounds as a number of cases, where 1e-9 is nothing.
func chooseLogBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// chooseLogTail is ln P(X > x) for binomial X, and 0 where x is below the mean. Its relative error is
// below 1e-4 for MaxTenants, below 1e-8 for a million.
func chooseLogTail(tenants, x int, p float64) float64 {
	switch {
	case x >= tenants || p <= 0:
		return math.Inf(-1)
	case p >= 1 || float64(x) < float64(tenants)*p:
		return 0
	}
	first := float64(x + 1)
	log := chooseLogBinomial(tenants, x+1) + first*math.Log(p) + (float64(tenants)-first)*math.Log1p(-p)
	// Beyond the mean the terms fall, by a factor that itself falls.
	sum, term := 1.0, 1.0
	for i := first; i < float64(tenants); i++ {
		factor := (float64(tenants) - i) / (i + 1) * (p / (1 - p))
		term *= factor
		sum += term
		if rest := term * factor / (1 - factor); factor < 1 && rest < 1e-10*sum {
			sum += rest // as if the factor fell no more, which errs towards more
			break
		}
	}
	return math.Min(0, log+math.Log(sum))
}
