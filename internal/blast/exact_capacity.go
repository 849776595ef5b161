package blast

import (
	"fmt"
	"math/big"
)

// SharedCapacity is how many tenants can have subsets of k of n shards of which no two share more than
// t: what bounded/v1 places, and what is possible at all.
type SharedCapacity struct {
	// Field is bounded/v1's q, the shards of each of k stripes: the largest prime power with
	// k <= q <= n/k. 0 when there is none, so that bounded/v1 cannot place. It takes k·q shards exactly,
	// and where k does not fit the number of zones more stripes than k.
	Field int
	// Places is bounded/v1's capacity, q^(t+1), the words of a Reed-Solomon code (I. S. Reed and
	// G. Solomon, "Polynomial codes over certain finite fields", J. SIAM 8(2), 1960). 0 without a field.
	Places *big.Int
	// Striped bounds every placement with one shard in each of k stripes, as equal as n allows: two
	// words that agree on t+1 stripes are one, so there are no more than the t+1 smallest stripes have
	// choices (R. C. Singleton, "Maximum distance q-nary codes", IEEE Trans. IT 10(2), 1964).
	Striped *big.Int
	// Any bounds every placement: ⌊n/k·⌊(n-1)/(k-1)· ... ⌊(n-t)/(k-t)⌋⌋⌋ (S. M. Johnson, "A new upper
	// bound for error-correcting codes", IRE Trans. IT 8(3), 1962). For t = k-1 it is C(n,k).
	Any *big.Int
}

// Capacity bounds the tenants of which no two share more than maxShared shards, 0 <= maxShared < k.
func (u Uniform) Capacity(maxShared int) (SharedCapacity, error) {
	if maxShared < 0 || maxShared >= u.k {
		return SharedCapacity{}, fmt.Errorf("%w: at most %d shared of %d shards for each tenant promises nothing, want 0 to %d", ErrModel, maxShared, u.k, u.k-1)
	}
	c := SharedCapacity{Field: exactField(u.n/u.k, u.k), Places: new(big.Int)}
	if c.Field > 0 {
		c.Places = exactWords(c.Field, maxShared+1)
	}
	// n shards in k stripes: n mod k stripes have one more than the others.
	small, larger := u.n/u.k, u.n%u.k
	c.Striped = exactWords(small, min(maxShared+1, u.k-larger))
	c.Striped.Mul(c.Striped, exactWords(small+1, max(0, maxShared+1-(u.k-larger))))
	c.Any = big.NewInt(1)
	for i := maxShared; i >= 0; i-- {
		c.Any.Mul(c.Any, big.NewInt(int64(u.n-i)))
		c.Any.Quo(c.Any, big.NewInt(int64(u.k-i)))
	}
	return c, nil
}

// exactWords is q^length.
func exactWords(q, length int) *big.Int {
	return new(big.Int).Exp(big.NewInt(int64(q)), big.NewInt(int64(length)), nil)
}

// exactField is the largest prime power from least to most, or 0; 1 is none.
func exactField(most, least int) int {
	for q := most; q >= max(least, 2); q-- {
		prime := 2
		for prime*prime <= q && q%prime != 0 {
			prime++
		}
		if prime*prime > q {
			return q // no divisor: q itself is prime
		}
		rest := q
		for rest%prime == 0 {
			rest /= prime
		}
		if rest == 1 {
			return q
		}
	}
	return 0
}

// AllInOneZone is the chance that all k shards of a tenant lie in one zone, so that losing the zone
// takes it down. The zones are given by their numbers of shards, each at least 1. Without a rule, as
// in hmac/v1, it is Σ_z C(n_z,k)/C(n,k). With rendezvous/v1's rule, which splits k over the zones as
// evenly as they have shards, it is 0, except where it cannot be: for k = 1, and in a single zone.
func AllInOneZone(zones []int, perTenant int, spread bool) (float64, error) {
	shards := 0
	for _, zone := range zones {
		if zone < 1 || zone > MaxShards {
			return 0, fmt.Errorf("%w: a zone of %d shards, want 1 to %d", ErrModel, zone, MaxShards)
		}
		if shards += zone; shards > MaxShards {
			break // before it can overflow; refused below
		}
	}
	u, err := NewUniform(shards, perTenant)
	if err != nil {
		return 0, err
	}
	if spread && len(zones) > 1 && perTenant > 1 {
		return 0, nil
	}
	sum := exactNew()
	for _, zone := range zones {
		sum.Add(sum, exactMiss(u.n, u.k, u.n-zone))
	}
	return exactFloat(sum), nil
}
