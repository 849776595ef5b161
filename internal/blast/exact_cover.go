package blast

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// MaxCovered is the largest subset that Covered looks at: its work grows with the cube of k.
const MaxCovered = 512

// Covered is the chance that the subsets of the given number of misbehaving tenants together cover the
// whole subset of another, which is then fully down. ErrModel for a negative number or one above
// MaxTenants, and for k above MaxCovered.
//
// It is the value of the recurrence over dealt hands in Kubernetes' KEP-1040 ("Probability of
// Collisions"), in the closed form that inclusion and exclusion over the shards left uncovered gives:
//
//	Σ_j (-1)^j · C(k,j) · (C(n-j,k)/C(n,k))^e
//
// Its terms cancel, so it takes as many bits more as they can lose. Unlike the recurrence's, its work
// does not grow with e but with its logarithm.
func (u Uniform) Covered(misbehaving int) (float64, error) {
	if misbehaving < 0 || misbehaving > MaxTenants {
		return 0, fmt.Errorf("%w: %d misbehaving tenants, want 0 to %d", ErrModel, misbehaving, MaxTenants)
	}
	if u.k > MaxCovered {
		return 0, fmt.Errorf("%w: covering subsets of %d shards takes too long to calculate, at most %d shards for each tenant do not", ErrModel, u.k, MaxCovered)
	}
	if misbehaving == 0 {
		return 0, nil
	}
	// No term is above 2^k, and the sum, which grows with e, is at least 1/C(n,k). Each of the k
	// terms is a product of up to 2k factors raised to the power e.
	lost := u.k + u.Subsets().BitLen() + 2*bits.Len(uint(u.k)) + bits.Len(uint(misbehaving))
	prec := uint(exactBits + lost)
	number := func(i int) *big.Float { return new(big.Float).SetPrec(prec).SetInt64(int64(i)) }
	sum, miss, ways := number(0), number(1), big.NewInt(1)
	for j := 0; ; j++ {
		term := exactPower(miss, misbehaving)
		term.Mul(term, new(big.Float).SetPrec(prec).SetInt(ways))
		if j%2 == 1 {
			term.Neg(term)
		}
		sum.Add(sum, term)
		if j == u.k || j == u.n-u.k {
			return exactFloat(sum), nil // from n-k on, no k shards miss that many
		}
		// C(n-j-1,k) = C(n-j,k) · (n-j-k)/(n-j)
		miss.Mul(miss, number(u.n-u.k-j))
		miss.Quo(miss, number(u.n-j))
		ways.Mul(ways, big.NewInt(int64(u.k-j)))
		ways.Quo(ways, big.NewInt(int64(j+1)))
	}
}

// exactPower is x^e, for e >= 1.
func exactPower(x *big.Float, e int) *big.Float {
	power := new(big.Float).Copy(x)
	for i := bits.Len(uint(e)) - 2; i >= 0; i-- {
		power.Mul(power, power)
		if e>>i&1 == 1 {
			power.Mul(power, x)
		}
	}
	return power
}

// exactFew is the number of subsets up to which birthdays are multiplied out. Above it the tenants
// that make a coincidence likely are so few among the subsets that four terms of a series do.
const exactFew = 1 << 22

// exactSure is where e^-x is no longer a float64: a chance of 1 - e^-x is 1.
const exactSure = 746

// AnyIdentical is the chance that at least two of the tenants have the same subset. Its relative error
// is below 1e-12. ErrModel for a negative number of tenants or one above MaxTenants.
func (u Uniform) AnyIdentical(tenants int) (float64, error) {
	return exactAnyIdentical(u.Subsets(), tenants)
}

// exactAnyIdentical is AnyIdentical for so many subsets, any as likely as another.
func exactAnyIdentical(subsets *big.Int, tenants int) (float64, error) {
	if tenants < 0 || tenants > MaxTenants {
		return 0, fmt.Errorf("%w: %d tenants, want 0 to %d", ErrModel, tenants, MaxTenants)
	}
	if subsets.Cmp(big.NewInt(exactFew)) > 0 {
		return -math.Expm1(-exactHazard(float64(tenants), exactBigFloat(subsets))), nil
	}
	var chance float64
	exactBirthdays(int(subsets.Int64()), func(met int, any *big.Float) bool {
		if met <= tenants {
			chance = exactFloat(any)
		}
		return met < tenants && chance < 1
	})
	return chance, nil
}

// Birthday is the smallest number of tenants of which at least two have the same subset with at least
// the given chance, above 0 and below 1: with 1/2 the birthday point, about 1.18·√C(n,k). It is exact
// as far as float64 tells numbers of tenants apart, up to 2^48, and has a relative error below 1e-12
// above that; +Inf when there are more subsets than a float64 can tell, 1.8e308.
func (u Uniform) Birthday(chance float64) (float64, error) {
	return exactBirthday(u.Subsets(), chance)
}

// exactBirthday is Birthday for so many subsets, any as likely as another.
func exactBirthday(subsets *big.Int, chance float64) (float64, error) {
	if !(chance > 0 && chance < 1) {
		return 0, fmt.Errorf("%w: a birthday point for a chance of %v, want one between 0 and 1", ErrModel, chance)
	}
	if subsets.Cmp(big.NewInt(exactFew)) <= 0 {
		want, point := new(big.Float).SetFloat64(chance), 0
		exactBirthdays(int(subsets.Int64()), func(met int, any *big.Float) bool {
			point = met
			return any.Cmp(want) < 0
		})
		return float64(point), nil
	}
	n, want := exactBigFloat(subsets), -math.Log1p(-chance)
	// The first term of the series alone is met here, and the others only add to it.
	hi := math.Ceil(0.5+math.Sqrt(0.25+2*n*want)) + 1
	lo := 1.0 // one tenant has no other
	for {
		mid := math.Floor(lo + (hi-lo)/2)
		if mid <= lo || mid >= hi {
			return hi, nil
		}
		if exactHazard(mid, n) >= want {
			hi = mid
		} else {
			lo = mid
		}
	}
}

// exactBirthdays tells the chance that tenants met so far coincide, for one tenant, two, and so on,
// until next says no or the chance is 1.
func exactBirthdays(subsets int, next func(met int, any *big.Float) bool) {
	apart, under, factor := exactInt(1), exactInt(subsets), exactNew()
	for met := 1; next(met, exactNew().Sub(exactInt(1), apart)) && met <= subsets; met++ {
		apart.Mul(apart, factor.SetInt64(int64(subsets-met)))
		apart.Quo(apart, under)
	}
}

// exactHazard is -ln of the chance that no two of t tenants coincide on n > exactFew subsets:
//
//	-Σ_{i<t} ln(1-i/n) = Σ_m S_m/(m·n^m), S_m = 1^m + ... + (t-1)^m
//
// What follows the fourth term is below (t/n)^4 of the whole, for as long as that matters. It is calculated
// in float64, and so are the exponentials of it: machines that fuse a product with a sum may differ in the
// last digits.
func exactHazard(t, n float64) float64 {
	if t < 2 {
		return 0
	}
	x := t - 1
	first := x * (t / n) / 2
	if !(first < exactSure) {
		return exactSure
	}
	return first * (1 +
		(2*x+1)/(6*n) +
		x*(t/n)/(6*n) +
		(2*x+1)/n*((3*x*x+3*x-1)/n)/(60*n))
}

func exactBigFloat(i *big.Int) float64 {
	f, _ := new(big.Float).SetInt(i).Float64()
	return f
}
