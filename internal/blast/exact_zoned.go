package blast

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
)

// MaxExactZones is the largest number of zones of the model Zoned, that of rendezvous/v1.
const MaxExactZones = 64

// maxZonedWork bounds what Zoned calculates, in elementary steps: about a second.
const maxZonedWork = 1 << 25

// Zoned is the model of subsets that are spread over zones, as rendezvous/v1 does it with equal weights: k
// members fall to the zones in rounds, one to each zone that still has a shard. A last round that is not whole
// falls to zones drawn for each tenant, any choice of them as likely as another; and within a zone any of its
// shards are. In one zone it is Uniform. How many of a tenant's shards a failure of any f of all shards takes is
// the same as in Uniform, for zones do not enter into that: Lost and Fail are to be asked there.
//
// Nothing cancels in float64: every figure is a sum of positive terms, or is summed with as many bits as its
// terms can lose, and has a relative error below 1e-12.
type Zoned struct {
	u     Uniform
	zones []zonedZone
	open  int // zones from which the last round may take one
	rest  int // from how many of them it does
}

// zonedZone is one zone: its shards, how many of them every tenant has, and whether some have one more.
type zonedZone struct {
	shards, full int
	open         bool
}

// NewZoned is the model for zones with these numbers of shards, each at least 1, and subsets of perTenant
// shards, 1 <= perTenant <= all shards. ErrModel, ErrShardCount.
func NewZoned(zones []int, perTenant int) (Zoned, error) {
	if len(zones) > MaxExactZones {
		return Zoned{}, fmt.Errorf("%w: %d zones, want at most %d", ErrModel, len(zones), MaxExactZones)
	}
	shards := 0
	for _, n := range zones {
		if n < 1 || n > MaxShards {
			return Zoned{}, fmt.Errorf("%w: a zone of %d shards, want 1 to %d", ErrModel, n, MaxShards)
		}
		shards += n
	}
	u, err := NewUniform(shards, perTenant)
	if err != nil {
		return Zoned{}, err
	}
	z := Zoned{u: u, rest: perTenant}
	full := 0
	for {
		z.open = 0
		for _, n := range zones {
			if n > full {
				z.open++
			}
		}
		if z.rest < z.open || z.open == 0 {
			break
		}
		z.rest -= z.open
		full++
	}
	for _, n := range slices.Sorted(slices.Values(zones)) {
		z.zones = append(z.zones, zonedZone{shards: n, full: min(n, full), open: n > full})
	}
	return z, nil
}

// choices is the number of sets of zones from which the last round may take.
func (z Zoned) choices() *big.Int { return new(big.Int).Binomial(int64(z.open), int64(z.rest)) }

// Subsets is the number of different subsets.
func (z Zoned) Subsets() *big.Int {
	ways := []*big.Int{big.NewInt(1)} // by the zones of the last round so far
	for _, zone := range z.zones {
		out := new(big.Int).Binomial(int64(zone.shards), int64(zone.full))
		in := new(big.Int)
		if zone.open {
			in.Binomial(int64(zone.shards), int64(zone.full+1))
		}
		next := make([]*big.Int, min(len(ways), z.rest)+1)
		for i := range next {
			next[i] = new(big.Int)
			if i < len(ways) {
				next[i].Mul(ways[i], out)
			}
			if i > 0 {
				next[i].Add(next[i], new(big.Int).Mul(ways[i-1], in))
			}
		}
		ways = next
	}
	if len(ways) <= z.rest {
		return new(big.Int) // cannot be: there are as many open zones
	}
	return ways[z.rest]
}

// Even tells whether every subset is as likely as another: when zones of the last round are alike.
func (z Zoned) Even() bool {
	if z.rest == 0 {
		return true
	}
	size := 0
	for _, zone := range z.zones {
		if zone.open && size > 0 && zone.shards != size {
			return false
		}
		if zone.open {
			size = zone.shards
		}
	}
	return true
}

// Overlap is the distribution of the number of shards that two tenants share: element i is the chance of
// exactly i, for 0 <= i <= k. ErrModel when there is too much to calculate.
//
// It is the convolution over zones of what two subsets of one zone share, which is hypergeometric; over all
// zones that the last round takes for the one tenant, and for the other.
func (z Zoned) Overlap() ([]float64, error) {
	states := (z.rest + 1) * (z.rest + 1)
	work := 0
	for _, zone := range z.zones {
		work += 4 * states * (z.u.k + 1) * (zone.full + 2)
		if work > maxZonedWork {
			return nil, fmt.Errorf("%w: subsets of %d shards over %d zones take too long to calculate: ask without zones, or fewer shards for each tenant", ErrModel, z.u.k, len(z.zones))
		}
	}
	// chances[a][b][i]: so far the last round took a zones for the one, b for the other, and they share i.
	at := func(a, b int) int { return a*(z.rest+1) + b }
	chances := make([][]float64, states)
	chances[0] = []float64{1}
	for _, zone := range z.zones {
		next := make([][]float64, states)
		for one := 0; one <= 1; one++ {
			for other := 0; other <= 1; other++ {
				if one+other > 0 && !zone.open {
					continue
				}
				shared := exactHypergeometric(zone.shards, zone.full+one, zone.full+other)
				for a := 0; a+one <= z.rest; a++ {
					for b := 0; b+other <= z.rest; b++ {
						if from := chances[at(a, b)]; from != nil {
							to := &next[at(a+one, b+other)]
							*to = addConvolved(*to, from, shared)
						}
					}
				}
			}
		}
		chances = next
	}
	all, _ := new(big.Float).SetInt(z.choices()).Float64()
	overlap := make([]float64, z.u.k+1)
	for i, ways := range chances[at(z.rest, z.rest)] {
		if i <= z.u.k {
			overlap[i] = ways / all / all
		}
	}
	return overlap, nil
}

// addConvolved adds the convolution of two lists to a third, which grows as needed.
func addConvolved(to, a, b []float64) []float64 {
	if grow := len(a) + len(b) - 1 - len(to); grow > 0 {
		to = append(to, make([]float64, grow)...)
	}
	for i, x := range a {
		for j, y := range b {
			to[i+j] += x * y
		}
	}
	return to
}

// Identical is the chance that two tenants have the same subset. It is 1 over their number only if they are Even.
func (z Zoned) Identical() float64 {
	prec := uint(2 * exactBits)
	weights := make([][2]*big.Float, len(z.zones))
	for i, zone := range z.zones {
		weights[i] = [2]*big.Float{zonedOver(prec, zone.shards, zone.full), nil}
		if zone.open {
			weights[i][1] = zonedOver(prec, zone.shards, zone.full+1)
		}
	}
	sum := z.overRest(prec, weights) // the mean over the choices of one, and the other has to make the same
	return exactFloat(sum.Quo(sum, new(big.Float).SetPrec(prec).SetInt(z.choices())))
}

// zonedOver is 1/C(n,k).
func zonedOver(prec uint, n, k int) *big.Float {
	one := new(big.Float).SetPrec(prec).SetInt64(1)
	return one.Quo(one, new(big.Float).SetPrec(prec).SetInt(new(big.Int).Binomial(int64(n), int64(k))))
}

// overRest is the mean, over the choices of zones for the last round, of the product of one weight for each zone:
// the first for a zone that is left out, the second for one that is taken.
func (z Zoned) overRest(prec uint, weights [][2]*big.Float) *big.Float {
	zero := func() *big.Float { return new(big.Float).SetPrec(prec) }
	sums := make([]*big.Float, z.rest+1)
	for i := range sums {
		sums[i] = zero()
	}
	sums[0].SetInt64(1)
	term := zero()
	for i, w := range weights {
		for r := min(i+1, z.rest); r >= 0; r-- {
			sums[r].Mul(sums[r], w[0])
			if r > 0 && z.zones[i].open {
				sums[r].Add(sums[r], term.Mul(sums[r-1], w[1]))
			}
		}
	}
	return sums[z.rest].Quo(sums[z.rest], zero().SetInt(z.choices()))
}

// Covered is the chance that the subsets of the given number of misbehaving tenants together cover the whole
// subset of another. ErrModel for a negative number or one above MaxTenants, and when there is too much to
// calculate: the work grows with the number of ways to take some of a subset from each zone.
//
// It is the inclusion and exclusion of Uniform.Covered over the shards left uncovered, by how many of them are in
// each zone: Σ_s (-1)^|s| · E[Π_z C(c_z,s_z)] · E[Π_z C(n_z-s_z,c_z)/C(n_z,c_z)]^e, both means over the zones of
// the last round, of the tenant and of each that misbehaves.
func (z Zoned) Covered(misbehaving int) (float64, error) {
	if misbehaving < 0 || misbehaving > MaxTenants {
		return 0, fmt.Errorf("%w: %d misbehaving tenants, want 0 to %d", ErrModel, misbehaving, MaxTenants)
	}
	if misbehaving == 0 {
		return 0, nil
	}
	if z.u.k > MaxCovered {
		return 0, fmt.Errorf("%w: covering subsets of %d shards takes too long to calculate, at most %d shards for each tenant do not", ErrModel, z.u.k, MaxCovered)
	}
	// No term is above 2^k, and the sum is at least the chance of one subset and of one choice of zones.
	subsets := z.Subsets().BitLen() + z.choices().BitLen()
	prec := uint(exactBits + 2*z.u.k + 2*subsets + 2*bits.Len(uint(z.u.k)) + bits.Len(uint(misbehaving)) + len(z.zones))
	words := int(prec/bits.UintSize) + 1 // of each factor, which a product takes the square of
	vectors := z.missed(maxZonedWork / (len(z.zones) * (z.rest + 1) * (16 + words*words/4)))
	if vectors == nil {
		return 0, fmt.Errorf("%w: covering subsets of %d shards over %d zones takes too long to calculate", ErrModel, z.u.k, len(z.zones))
	}
	var tables [][]zonedTable
	for i, zone := range z.zones {
		if i > 0 && zone == z.zones[i-1] {
			tables = append(tables, tables[i-1])
			continue
		}
		tables = append(tables, zone.tables(prec))
	}
	sum := new(big.Float).SetPrec(prec)
	has, miss := make([][2]*big.Float, len(z.zones)), make([][2]*big.Float, len(z.zones))
	for _, v := range vectors {
		uncovered := 0
		for i, s := range v.missed {
			has[i], miss[i] = tables[i][s].has, tables[i][s].miss
			uncovered += s
		}
		term := z.overRest(prec, miss)
		if term.Sign() == 0 {
			continue
		}
		term = exactPower(term, misbehaving)
		term.Mul(term, z.overRest(prec, has))
		term.Mul(term, new(big.Float).SetPrec(prec).SetInt(v.alike))
		if uncovered%2 == 1 {
			term.Neg(term)
		}
		sum.Add(sum, term)
	}
	return exactFloat(sum), nil
}

// zonedTable is, for s shards of a zone and subsets with c there: C(c,s), and the chance C(n-s,c)/C(n,c) that one
// misses them; for c without the last round and with it.
type zonedTable struct{ has, miss [2]*big.Float }

// tables is a table for each number s that a subset may have in the zone.
func (z zonedZone) tables(prec uint) []zonedTable {
	number := func(i int) *big.Float { return new(big.Float).SetPrec(prec).SetInt64(int64(i)) }
	most := z.full
	if z.open {
		most++
	}
	tables := make([]zonedTable, most+1)
	for one := 0; z.full+one <= most; one++ {
		c := z.full + one
		ways, miss := big.NewInt(1), number(1)
		for s := range tables {
			tables[s].has[one] = new(big.Float).SetPrec(prec).SetInt(ways)
			tables[s].miss[one] = new(big.Float).Copy(miss)
			ways.Mul(ways, big.NewInt(int64(max(0, c-s))))
			ways.Quo(ways, big.NewInt(int64(s+1)))
			miss.Mul(miss, number(max(0, z.shards-c-s)))
			miss.Quo(miss, number(max(1, z.shards-s)))
		}
	}
	return tables
}

// zonedMissed is how many shards of each zone are left uncovered, and in how many orders of zones that are alike.
type zonedMissed struct {
	missed []int
	alike  *big.Int
}

// missed lists what a tenant's shards that are left uncovered come to, zones that are alike told once. It is nil
// when there are more than most.
func (z Zoned) missed(most int) []zonedMissed {
	// Zones that are alike stand side by side, so their counts can be taken in descending order.
	var all []zonedMissed
	now := make([]int, len(z.zones))
	var take func(i, left, rest int) bool
	take = func(i, left, rest int) bool {
		if i == len(z.zones) {
			if len(all) == most {
				return false
			}
			all = append(all, zonedMissed{slices.Clone(now), z.alike(now)})
			return true
		}
		zone := z.zones[i]
		top := zone.full
		if zone.open && rest > 0 {
			top++
		}
		if i > 0 && z.zones[i-1] == zone {
			top = min(top, now[i-1])
		}
		for now[i] = 0; now[i] <= min(top, left); now[i]++ {
			taken := 0
			if now[i] > zone.full {
				taken = 1
			}
			if !take(i+1, left-now[i], rest-taken) {
				return false
			}
		}
		now[i] = 0
		return true
	}
	if !take(0, z.u.k, z.rest) {
		return nil
	}
	return all
}

// alike is the number of ways in which these counts can be dealt to zones that are alike.
func (z Zoned) alike(missed []int) *big.Int {
	ways := big.NewInt(1)
	for i := 0; i < len(missed); {
		zones, same := 0, 0 // so far of this kind, and of them with the count at hand
		for from := i; i < len(missed) && z.zones[i] == z.zones[from]; i++ {
			zones++
			if same++; i > from && missed[i] != missed[i-1] {
				same = 1
			}
			ways.Mul(ways, big.NewInt(int64(zones))) // the multinomial coefficient, factor by factor
			ways.Quo(ways, big.NewInt(int64(same)))
		}
	}
	return ways
}

// AnyIdentical is the chance that at least two of the tenants have the same subset. ErrModel for a negative
// number of tenants or one above MaxTenants. It is exact when subsets are Even. Otherwise it is taken for that of
// as many even ones as make two tenants coincide as often, which comes close and is no bound.
func (z Zoned) AnyIdentical(tenants int) (float64, error) {
	return exactAnyIdentical(z.alikeSubsets(), tenants)
}

// Birthday is the smallest number of tenants of which at least two have the same subset with at least the given
// chance, above 0 and below 1, as Uniform.Birthday and AnyIdentical have it.
func (z Zoned) Birthday(chance float64) (float64, error) {
	return exactBirthday(z.alikeSubsets(), chance)
}

// alikeSubsets is the number of subsets of which any is as likely as another, with the chance Identical: theirs,
// or rounded up.
func (z Zoned) alikeSubsets() *big.Int {
	if z.Even() {
		return z.Subsets()
	}
	identical := z.Identical()
	if identical == 0 {
		return z.Subsets()
	}
	n, _ := new(big.Float).Quo(big.NewFloat(1), big.NewFloat(identical)).Int(nil)
	return n.Add(n, big.NewInt(1))
}
