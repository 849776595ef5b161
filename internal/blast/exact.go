// # Exact guarantees
//
// The type Uniform and the functions beside it do not count, they calculate: what holds for tenants
// whose subsets are drawn at random. Each guarantee is held by the test of the same name.
//
//  1. ExactRational: every probability is within a relative error of 1e-12 of the exact rational, for
//     up to MaxShards shards. It is the same number on every machine, too, but for AnyIdentical and
//     Birthday among more than 4,194,304 subsets, whose logarithms are the machine's.
//  2. ExactEnumeration: for small n and k it is what counting every case gives.
//  3. ExactCovered: the chance that e tenants cover another's subset is that of the recurrence in
//     Kubernetes' KEP-1040, to every digit of its published table.
//  4. ExactBirthday: the birthday point is the smallest number of tenants that reaches the chance.
//  5. ExactCapacity: no set of subsets with at most t shared shards is larger than the bounds, and
//     bounded/v1 reaches the one for stripes.
//  6. ChooseSmallest: a choice keeps its budget, and nothing with fewer shards, or as many and fewer
//     for each tenant, does.
//  7. ChooseBound: a bound is never below the expectation, and populations drawn at random break it
//     no more often than its confidence says.
//  8. ChooseConflict: a refused budget has no choice, and has one without any line that is named alone.
//  9. Scatter: the chance of a slow answer is 1-(1-p)^n, and the tail that a shard must keep undoes it.
//  10. Stories: the founding texts' numbers come out of the formulas and of the measurement alike.
//  11. Zoned: for small zones every figure of subsets that are spread over them is what counting every case
//     gives, and in one zone that of Uniform.
package blast

import (
	"errors"
	"fmt"
	"math/big"
)

// ErrModel tells that numbers make no sense to calculate with. It comes wrapped with which, and why.
var ErrModel = errors.New("outside the model")

// Uniform is the model of a random placement: the subset of each tenant is k of n shards, any of the
// C(n,k) as likely as another, independently of other tenants. It is what hmac/v1 and, in one zone
// with equal weights, rendezvous/v1 do to sampling noise. Shards fail, misbehaving tenants are met,
// independently of the placement.
//
// Probabilities are calculated with 128 bits and rounded once, so their relative error is below 1e-15, where
// nothing else is said.
// Those below 2.3e-308, the least that a float64 has to full precision, round to fewer digits or to 0.
type Uniform struct{ n, k int }

// NewUniform is the model of subsets of perTenant shards, 1 <= perTenant <= shards <= MaxShards.
func NewUniform(shards, perTenant int) (Uniform, error) {
	if shards < 1 || shards > MaxShards {
		return Uniform{}, fmt.Errorf("%w: %d, want 1 to %d", ErrShardCount, shards, MaxShards)
	}
	if perTenant < 1 || perTenant > shards {
		return Uniform{}, fmt.Errorf("%w: %d shards for each tenant, want 1 to %d, all there are", ErrModel, perTenant, shards)
	}
	return Uniform{shards, perTenant}, nil
}

// Subsets is the number of different subsets, C(n,k).
func (u Uniform) Subsets() *big.Int { return new(big.Int).Binomial(int64(u.n), int64(u.k)) }

// Identical is the chance that two tenants have the same subset, 1/C(n,k): what one misbehaving
// tenant needs to take another down with it.
func (u Uniform) Identical() float64 { return exactFloat(exactMiss(u.n, u.k, u.n-u.k)) }

// Overlap is the distribution of the number of shards that two tenants share: element i is the chance
// of exactly i, for 0 <= i <= k. It is hypergeometric, C(k,i)·C(n-k,k-i)/C(n,k).
func (u Uniform) Overlap() []float64 { return exactHypergeometric(u.n, u.k, u.k) }

// MeanOverlap is the expected number of shards that two tenants share, k²/n. That is also the mean
// for any placement that loads all shards alike.
func (u Uniform) MeanOverlap() float64 { return float64(u.k) * float64(u.k) / float64(u.n) }

// Lost is the distribution of a tenant's failed shards when the given number of all shards has failed:
// element i is the chance of exactly i, C(f,i)·C(n-f,k-i)/C(n,k), for 0 <= i <= min(f,k).
func (u Uniform) Lost(failed int) ([]float64, error) {
	if err := u.canFail(failed); err != nil {
		return nil, err
	}
	return exactHypergeometric(u.n, failed, u.k), nil
}

// Expected is what the failure of f shards does, as shares of all tenants from 0 to 1.
type Expected struct {
	FullyDown    float64 // all k shards have failed: C(f,k)/C(n,k)
	Degraded     float64 // at least one has, so it includes the fully down: 1 - C(n-f,k)/C(n,k)
	Untouched    float64 // none has: C(n-f,k)/C(n,k)
	CapacityLost float64 // of the capacity of a tenant, on average over all tenants: f/n
}

// Fail is the expectation for a number of failed shards, 0 to n. It is also the mean over every set
// of that many shards for any placement with k shards for each tenant, random or not, zones or pins:
// only the spread about the mean is the placement's.
func (u Uniform) Fail(failed int) (Expected, error) {
	if err := u.canFail(failed); err != nil {
		return Expected{}, err
	}
	untouched := exactMiss(u.n, failed, u.k)
	return Expected{
		FullyDown:    exactFloat(exactMiss(u.n, u.k, u.n-failed)),
		Degraded:     exactFloat(exactNew().Sub(exactInt(1), untouched)),
		Untouched:    exactFloat(untouched),
		CapacityLost: float64(failed) / float64(u.n),
	}, nil
}

func (u Uniform) canFail(failed int) error {
	if failed < 0 || failed > u.n {
		return fmt.Errorf("%w: %d of %d shards cannot fail", ErrModel, failed, u.n)
	}
	return nil
}

// exactBits is the precision of what is rounded to a float64 in the end. A product of MaxShards
// factors loses 17 of these bits, and 1-x no more than another 16: x is at most 1-1/MaxShards or 1.
const exactBits = 128

func exactNew() *big.Float { return new(big.Float).SetPrec(exactBits) }

func exactInt(i int) *big.Float { return exactNew().SetInt64(int64(i)) }

func exactFloat(x *big.Float) float64 {
	f, _ := x.Float64()
	return f
}

// exactMiss is the chance that a random a of n things and a fixed b of them have none in common,
// C(n-b,a)/C(n,a). It is the same when a and b change places, so the shorter product is taken.
func exactMiss(n, a, b int) *big.Float {
	if a > b {
		a, b = b, a
	}
	if a+b > n {
		return exactInt(0)
	}
	over, under, factor := exactInt(1), exactInt(1), exactNew()
	for i := range a {
		over.Mul(over, factor.SetInt64(int64(n-b-i)))
		under.Mul(under, factor.SetInt64(int64(n-i)))
	}
	return over.Quo(over, under)
}

// exactHypergeometric is the distribution of how many a random a of n things and a fixed b of them
// have in common, for 0 to min(a,b). From the least possible number on, each chance is a rational
// multiple of the one before, so nothing cancels.
func exactHypergeometric(n, a, b int) []float64 {
	chances := make([]float64, min(a, b)+1)
	least := max(0, a+b-n)
	chance := exactMiss(n, a, b)
	if least > 0 {
		chance = exactMiss(n, n-a, n-b) // all that the one leaves out, the other has
	}
	factor := exactNew()
	for i := least; ; i++ {
		chances[i] = exactFloat(chance)
		if i+1 == len(chances) {
			return chances
		}
		chance.Mul(chance, factor.SetInt64(int64(a-i)*int64(b-i)))
		chance.Quo(chance, factor.SetInt64(int64(i+1)*int64(n-a-b+i+1)))
	}
}
