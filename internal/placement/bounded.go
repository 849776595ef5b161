package placement

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// The ends of the HMAC messages of bounded/v1. They keep to the rule in rendezvous.go.
var (
	slotSuffix  = []byte("\x00bounded/v1 slots")
	orderSuffix = []byte("\x00bounded/v1 order")
)

// bounded is the scheme bounded/v1: a Reed-Solomon code (Reed and Solomon, "Polynomial Codes over
// Certain Finite Fields", 1960) whose code words are the subsets.
//
// The shards lie in stripes of q. A slot is permuted, and the digits of the result in base q are the
// coefficients of a polynomial f of degree t or less over GF(q). Stripe i belongs to the point that the
// field writes as i, and f(i) is the slot's shard in it.
//
// Two slots have two polynomials, f and g. They share a shard where they use one stripe i and f(i) = g(i),
// so where f-g is zero. f-g is not the zero polynomial and its degree is t or less, so it is zero at t
// points at most. It plays no part which stripes either of them uses, or how many. No other choice of
// one shard a stripe holds more tenants under that bound when k is the number of stripes (Singleton, 1964).
type bounded struct {
	field  field
	times  []uint16 // the product of v and a stripe's point, at stripe·q + v
	slots  permutation
	shared int // t
	q      divisor
	order  ordering
	shards []uint16 // index of the shard at stripe·q + element; stripe = zone·parts + part
}

// maxCoefficients bounds t+1: t < stripes ≤ q and q^(t+1) < 2^63 hold together for no more. It is 16 that
// gets there, with 2^60.
const maxCoefficients = 15

func newBounded(m *mac, shards []Shard, maxShared, maxPerTenant int) (bounded, error) {
	layout, err := newStriping(shards, maxPerTenant)
	if err != nil {
		return bounded{}, err
	}
	if maxShared < 0 || maxShared >= maxPerTenant {
		return bounded{}, fmt.Errorf("%w: %d of %d shards per tenant, want 0 to %d", ErrMaxShared, maxShared, maxPerTenant, maxPerTenant-1)
	}
	capacity, most := capacityOf(layout.q, maxShared)
	if most < maxShared {
		return bounded{}, fmt.Errorf("%w: %d in stripes of %d shards makes more than 2^63-1 slots, want 0 to %d", ErrMaxShared, maxShared, layout.q, most)
	}
	// Another q or t is another permutation, of other keys.
	shape := fmt.Sprintf("%d^%d", layout.q, maxShared+1)
	var d digest
	var keys [rounds]roundKey
	for i := range keys {
		m.sum(&d, fmt.Sprintf("%s round %d", shape, i), slotSuffix)
		keys[i] = roundKey{binary.BigEndian.Uint64(d[:]), binary.BigEndian.Uint64(d[8:])}
	}
	m.sum(&d, shape, orderSuffix)
	b := bounded{
		field:  newField(layout.q),
		times:  make([]uint16, len(shards)),
		slots:  newPermutation(capacity, keys),
		shared: maxShared,
		q:      newDivisor(uint64(layout.q)),
		order:  newOrdering(layout.zones, layout.parts, binary.BigEndian.Uint64(d[:])),
		shards: layout.shards,
	}
	for i := range b.times {
		stripe, v := b.q.split(uint64(i))
		b.times[i] = uint16(b.field.mul(uint32(stripe), uint32(v)))
	}
	return b, nil
}

// capacityOf is q^(t+1), or the largest t for which it stays below 2^63.
func capacityOf(q, t int) (capacity uint64, most int) {
	capacity = uint64(q)
	for most < t {
		high, low := bits.Mul64(capacity, uint64(q))
		if high != 0 || low>>63 != 0 {
			break
		}
		capacity = low
		most++
	}
	return capacity, most
}

// stripes is the largest k.
func (b *bounded) stripes() int { return int(b.order.zones.by * b.order.parts.by) }

// capacity is the number of slots.
func (b *bounded) capacity() uint64 { return b.slots.size }

// append appends the k shards of a slot from 1 to capacity, each of another stripe, 1 <= k <= stripes.
// Else it is ErrNoSlot or *FullError, with dst as it was.
func (b *bounded) append(dst []int, slot uint64, k int) ([]int, error) {
	if slot == 0 {
		return dst, ErrNoSlot
	}
	if slot > b.slots.size {
		return dst, &FullError{Slot: slot, Capacity: b.slots.size}
	}
	var array [maxCoefficients]uint32
	coefficients := array[:b.shared+1]
	word := b.slots.of(slot - 1)
	row := word
	for i := range coefficients {
		var digit uint64
		word, digit = b.q.split(word)
		coefficients[i] = uint32(digit)
		if i == 0 && b.shared > 0 {
			row = word
		}
	}
	start := len(dst)
	dst = slices.Grow(dst, k)[:start+k]
	subset := dst[start:]
	b.order.fill(subset, row)
	for j, stripe := range subset {
		at := stripe * int(b.q.by)
		value := b.field.horner(coefficients, b.times[at:at+int(b.q.by)])
		subset[j] = int(b.shards[at+int(value)])
	}
	return dst, nil
}
