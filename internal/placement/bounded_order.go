package placement

import "math/bits"

// ordering is the order in which each tenant prefers the stripes: zone after zone, and round again
// while more members are wanted, each time in another part of the zone.
//
// It goes by the tenant's row, which is all of its polynomial but the constant term (the whole number, if
// there is no more than that). The polynomials of one row differ by constants, so in each stripe every
// shard serves exactly one of them: whatever stripes a row uses, it loads their shards alike.
//
// Rows come in groups of as many as there are stripes. The rows of a group have one shuffle of the zones,
// and each row turns it by another number of zones, or begins at another part in every zone, so that all
// pairs of the two come once. In a group, therefore, the member at any place falls to every stripe exactly
// once, and each stripe is among the first k of the order exactly k times. That is how all shards get
// the same number of tenants, while the zone that stands in when one fails changes from group to group.
//
// The order cannot be divided more finely than by rows, and the last group may not be whole: see Rotating.
type ordering struct {
	zones, parts divisor // parts of each zone
	key          uint64
	shuffles     []uint8 // of zones, which are 256 at most; each begins with 0, because all are turned
	number       divisor // of shuffles; the groups take them in turn
}

// shuffleBytes is about what the shuffles of few zones take: small enough for the first cache, and
// hundreds of them.
const shuffleBytes = 4096

func newOrdering(zones, parts int, key uint64) ordering {
	number := 1
	if zones > 1 {
		// Every zone but the first is second equally often, so that a zone's tenants fall back on all the
		// others alike.
		number = (zones - 1) * max(1, shuffleBytes/(zones*(zones-1)))
	}
	o := ordering{
		zones:    newDivisor(uint64(zones)),
		parts:    newDivisor(uint64(parts)),
		key:      key,
		shuffles: make([]uint8, 0, number*zones),
		number:   newDivisor(uint64(number)),
	}
	word := key
	for i := range number {
		start := len(o.shuffles)
		for zone := range zones {
			o.shuffles = append(o.shuffles, uint8(zone))
		}
		s := o.shuffles[start:]
		if zones > 1 {
			second := 1 + i%(zones-1)
			s[1], s[second] = s[second], s[1]
		}
		for j := 2; j < zones; j++ { // Fisher-Yates over the rest
			word += 0x9e3779b97f4a7c15 // SplitMix64
			skip, _ := bits.Mul64(mix(word), uint64(zones-j))
			s[j], s[j+int(skip)] = s[j+int(skip)], s[j]
		}
	}
	return o
}

// fill sets dst to the first stripes of a row.
func (o *ordering) fill(dst []int, row uint64) {
	group, turn := o.zones.split(row)
	var part uint64
	if o.parts.by > 1 {
		group, part = o.parts.split(group)
	}
	_, pick := o.number.split(group)
	zones := int(o.zones.by)
	shuffle := o.shuffles[int(pick)*zones:][:zones]
	place := 0
	for j := range dst {
		zone := int(shuffle[place]) + int(turn)
		if zone >= zones {
			zone -= zones
		}
		dst[j] = zone
		if place++; place == zones {
			place = 0
		}
	}
	if o.parts.by > 1 {
		o.choose(dst, group, part)
	}
}

// choose replaces zones by stripes. Each zone begins at a part of its own, or the same parts of all zones
// would always go together.
func (o *ordering) choose(dst []int, group, part uint64) {
	seed := mix(group ^ o.key)
	for j, zone := range dst {
		round, place := o.zones.split(uint64(j))
		first, _ := bits.Mul64(mix(seed+place), o.parts.by)
		_, at := o.parts.split(first + part + round)
		dst[j] = zone*int(o.parts.by) + int(at)
	}
}
