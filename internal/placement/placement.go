// Package placement turns a tenant into its subset: the k shards of n that serve it, in preference
// order. It is a pure function of a key, the shards and the tenant's id; nothing is remembered.
//
// # Guarantees
//
// Each is held by the test of the same name. "Both" means hmac/v1 and rendezvous/v1.
//
//  1. Deterministic (both): equal keys, shards, k and tenants give equal subsets, in every process.
//  2. Complete (both): a subset has exactly k members, all different, each an index of a given shard.
//  3. Recipe (hmac/v1): byte for byte Recipe 12.1: HMAC-SHA256 over tenant, 0x00 and an 8-byte
//     big-endian counter, read as 64-bit big-endian words, rejected at the largest multiple of n that
//     fits 2^64, repeated members skipped. Shard ids play no part, only their number.
//  4. Golden (rendezvous/v1): pinned vectors, without zones, over equal and unequal zones, and with
//     weights. Nothing is computed in floating point, so every processor gives them.
//  5. Uniform (both): over random tenants every ordered subset is equally likely; over equal zones, every
//     order of the zones with every choice in each.
//  6. Nested (both): the subset for k is the beginning of the subset for k+1. Another size class, or
//     a raised k, keeps the members that a tenant has.
//  7. OrderFree (rendezvous/v1): the order in which shards are given changes the indices only, never
//     the shards chosen. Equal scores go to the id that is first in byte order.
//  8. Minimal (rendezvous/v1): a shard that is added becomes a member of some subsets, in the place of
//     one member each, and nothing else changes; one that is removed is replaced where it was a member,
//     by one other. In one zone it is the last member that goes, or comes. When all shards weigh the same
//     and one is added to the only zone, or to one of equal zones, no more tenants move than k/(n+1), the
//     share that the new shard is to have. A heavier shard moves more, and so does the first shard of a
//     new zone, since zones serve alike; how many, Growth tells. A weight that rises brings its shard in in
//     the same way. hmac/v1 has no such guarantee: its subsets are all drawn anew when n changes.
//  9. Keyed (both): under another key of the same length the subsets are unrelated, so that nobody without
//     the key can tell a tenant's shards, or choose an id for them. Of keys of unlike length, HMAC takes
//     two as one: a key that is shorter than 64 bytes and the same key with bytes 0x00 at its end, and a
//     key that is longer and its SHA-256.
//  10. Separate (both): one key may serve several schemes and several levels. No two of their HMAC
//     messages are equal, whatever the ids, and on another level subsets are unrelated.
//  11. NoAllocations (both): Append allocates nothing when dst has room for k indices.
//  12. Concurrent (both): a Placer and its Subsets never change and need no lock.
//
// Of these, bounded/v1 gives Complete, Golden, Nested, OrderFree, Keyed, Separate, NoAllocations and
// Concurrent too, held by the tests of those names that end in Bounded: Complete by ZonesDistinct, which is
// more. It goes by a tenant's slot, not by its id. Its shards are cut into stripes of q, a prime power: a
// stripe is a zone, or each zone is cut into as many parts as Config.MaxPerTenant takes. And it gives:
//
//  13. AtMostT (bounded/v1): two tenants with different slots share at most Config.MaxShared shards, t,
//     whatever their size classes. All q^(t+1) slots are there.
//  14. Full (bounded/v1): a slot above the capacity is *FullError and no slot is ErrNoSlot. A subset is
//     never shorter than k.
//  15. ZonesDistinct (bounded/v1): no two members lie in one stripe, and of two zones one has at most one
//     member more than the other.
//  16. Balanced (bounded/v1): over all slots every shard is in the same number of subsets, if k is the
//     number of stripes or that number divides q^t. Else two shards differ by k subsets at most.
//  17. Rotating (bounded/v1): each zone is the first of as many subsets, and after each first zone every
//     other one is as often the second, so that a failed zone's tenants fall back on all others alike. That
//     goes by rows of slots, q^t of them, or q if t is 0, whose slots have one order of the zones (they must,
//     for Balanced). Two zones differ by a row at most in how often they are the first, and as the second
//     after a first by as many rows as a zone has parts. Where rows are few that is coarse: 3 zones of 3
//     shards with t = 1 have 3 rows of 3 slots for 6 pairs of zones, so that 3 of the pairs do not occur.
//
// And of rendezvous/v1:
//
//  18. Spread: of two zones one has at most one member of a subset more than the other, unless the
//     other has no more shards. The zones with one more are the first in an order that each tenant has
//     for itself, so that no zone is always first.
//  19. Weighted: within a zone the members are those of successive weighted sampling without
//     replacement: the next member is each shard that is left with probability its weight by their sum.
//     At 2 of 16 a shard of double weight has 1.93 times the tenants of another, not 2.
//
// What the guarantees cost is computed, too:
//
//  20. Shares: the part of all tenants that each shard is to have, under any scheme.
//  21. Balance: how far that is from even. Unequal zones have unequal shares, since each zone has as
//     many members as another: in zones of 3, 2 and 1 shards with k = 2 the one that is alone serves two
//     thirds of all tenants.
//  22. Anew, Growth: whether a change draws all subsets anew, and how many places of a tenant it moves,
//     against the least that any scheme could.
package placement

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// Scheme is the algorithm that turns a tenant into a subset. A population is placed by one scheme and
// never by two.
type Scheme string

const (
	// HMACv1 is Recipe 12.1. It moves nearly every tenant when the number of shards changes.
	HMACv1 Scheme = "hmac/v1"
	// RendezvousV1 is highest random weight: it moves k/(n+1) of the tenants, by one member each,
	// when a shard is added. It is the scheme for fleets that grow.
	RendezvousV1 Scheme = "rendezvous/v1"
	// BoundedV1 places by slot: any two tenants share at most Config.MaxShared shards.
	BoundedV1 Scheme = "bounded/v1"
)

// Level names what is placed on what. One key serves several levels, and what it does on one of them
// says nothing about another.
type Level string

// ShardLevel places the tenants of a cell on its shards.
const ShardLevel Level = ""

// MaxShards is the largest number of shards in one placement. It is 16 times what the vectors of
// Recipe 12.1 and 32 times what the largest published use (2,048, Route 53) ask for, and it bounds the
// stack that a subset with many members takes.
const MaxShards = 1 << 16

// Errors of the constructors. They come wrapped with what was found; test with errors.Is.
var (
	ErrUnknownScheme  = errors.New("unknown placement scheme")
	ErrEmptyKey       = errors.New("placement key is empty")
	ErrShardCount     = errors.New("number of shards out of range")
	ErrShardID        = errors.New("shard without an id")
	ErrDuplicateShard = errors.New("two shards have one id")
	ErrWeight         = errors.New("weight out of range")
	ErrZones          = errors.New("too many zones")
	ErrPerTenant      = errors.New("shards per tenant out of range")
	ErrMaxShared      = errors.New("shards that two tenants may share out of range")
)

// ErrNoSlot is what Append gives for a tenant without a slot, under a scheme that places by slot.
var ErrNoSlot = errors.New("tenant has no slot")

// FullError is what Append gives for a slot above the capacity: there is no place for such a tenant.
type FullError struct {
	Slot     uint64 // that was asked for
	Capacity uint64 // slots that there are, numbered from 1
}

func (e *FullError) Error() string {
	return fmt.Sprintf("slot %d is beyond the %d that this placement has: give the tenant a free one, or publish a topology with more shards", e.Slot, e.Capacity)
}

// ParseScheme returns the scheme of that name, or ErrUnknownScheme.
func ParseScheme(name string) (Scheme, error) {
	switch s := Scheme(name); s {
	case HMACv1, RendezvousV1, BoundedV1:
		return s, nil
	}
	return "", fmt.Errorf("%w %q: want %s, %s or %s", ErrUnknownScheme, name, HMACv1, RendezvousV1, BoundedV1)
}

// Shard is what a scheme may know of one shard.
type Shard struct {
	ID     string // stable, unique among the shards, not empty; never reused for another shard
	Zone   string // where the shard runs and fails together with others; without, all are in one
	Weight int    // share of tenants relative to the others of its zone, 1 to MaxWeight; RendezvousV1 alone reads it
}

// Config is what a Placer is made of.
type Config struct {
	Scheme Scheme
	Key    []byte `json:"-"` // any length but zero; 32 random bytes are what a cell has
	Shards []Shard
	Level  Level

	// MaxShared is the most shards that two tenants share, from 0, under BoundedV1. The other schemes
	// promise nothing of the kind and want 0.
	MaxShared int
	// MaxPerTenant is the largest k that will be asked for. BoundedV1 cuts zones into stripes by it; the
	// other schemes ignore it.
	MaxPerTenant int
}

// Format writes what is configured, whatever the verb, and nothing of the key.
func (c Config) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s of %d shards", c.Scheme, len(c.Shards))
}

// Tenant is what a scheme may know of one tenant.
type Tenant struct {
	ID   string // taken as its bytes, of any length
	Slot uint64 // 1 to Placer.Slots, given out by the directory, each to one tenant; BoundedV1 alone reads it
}

// Placer places tenants on a fixed list of shards under one key. It is immutable and safe for
// concurrent use.
type Placer struct {
	scheme     Scheme
	shards     int
	most       int     // the largest k
	list       []Shard // as given
	maxShared  int
	mac        mac
	recipe     reduction // of HMACv1 only
	rendezvous spread    // of RendezvousV1 only
	bounded    bounded   // of BoundedV1 only
}

// New checks the configuration and prepares the key. None of its slices is kept.
func New(c Config) (*Placer, error) {
	if _, err := ParseScheme(string(c.Scheme)); err != nil {
		return nil, err
	}
	if len(c.Key) == 0 {
		return nil, fmt.Errorf("%w: subsets would be public; give at least one byte, 32 random ones in earnest", ErrEmptyKey)
	}
	if err := checkShards(c.Scheme, c.Shards); err != nil {
		return nil, err
	}
	if c.Scheme != BoundedV1 && c.MaxShared != 0 {
		return nil, fmt.Errorf("%w: %d under %s, which bounds nothing: want 0, or %s", ErrMaxShared, c.MaxShared, c.Scheme, BoundedV1)
	}
	p := &Placer{
		scheme: c.Scheme, shards: len(c.Shards), most: len(c.Shards), list: slices.Clone(c.Shards),
		maxShared: c.MaxShared, mac: levelMAC(c.Key, c.Level),
	}
	switch c.Scheme {
	case HMACv1:
		p.recipe = newReduction(uint64(len(c.Shards)))
	case RendezvousV1:
		var err error
		if p.rendezvous, err = newSpread(&p.mac, c.Shards); err != nil {
			return nil, err
		}
	case BoundedV1:
		var err error
		if p.bounded, err = newBounded(&p.mac, c.Shards, c.MaxShared, c.MaxPerTenant); err != nil {
			return nil, err
		}
		p.most = p.bounded.stripes()
	}
	return p, nil
}

// levelSuffix ends the message that makes the key of another level. It keeps to the rule in
// rendezvous.go.
var levelSuffix = []byte("\x00placement level")

// levelMAC is the key itself on the level of shards, where hmac/v1 must be the recipe, and an own key on
// each other level.
func levelMAC(key []byte, level Level) mac {
	m := newMAC(key)
	if level == ShardLevel {
		return m
	}
	var d digest
	m.sum(&d, string(level), levelSuffix)
	return newMAC(d[:])
}

func checkShards(scheme Scheme, shards []Shard) error {
	if len(shards) < 1 || len(shards) > MaxShards {
		return fmt.Errorf("%w: %d, want 1 to %d", ErrShardCount, len(shards), MaxShards)
	}
	first := make(map[string]int, len(shards))
	for i, s := range shards {
		if s.ID == "" {
			return fmt.Errorf("%w: the one with index %d", ErrShardID, i)
		}
		if j, ok := first[s.ID]; ok {
			return fmt.Errorf("%w: %q, with indices %d and %d", ErrDuplicateShard, s.ID, j, i)
		}
		first[s.ID] = i
		most := 1
		if scheme == RendezvousV1 {
			most = MaxWeight
		}
		if s.Weight < 1 || s.Weight > most {
			return fmt.Errorf("%w: shard %q has %d under %s, want %s", ErrWeight, s.ID, s.Weight, scheme, oneTo(most))
		}
	}
	return nil
}

func oneTo(most int) string {
	if most == 1 {
		return "1, since the scheme does not weigh shards"
	}
	return fmt.Sprintf("1 to %d", most)
}

// Format writes what the Placer is, whatever the verb, and nothing of its key. A copy of one is written no
// differently.
func (p Placer) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s of %d shards", p.scheme, p.shards)
}

// Scheme is the scheme in use.
func (p *Placer) Scheme() Scheme { return p.scheme }

// Shards is the number of shards, n.
func (p *Placer) Shards() int { return p.shards }

// Slots is the number of slots, 0 when the scheme does not place by slot.
func (p *Placer) Slots() uint64 {
	if p.scheme != BoundedV1 {
		return 0
	}
	return p.bounded.capacity()
}

// PerTenant gives the subsets of k shards, or ErrPerTenant. k is from 1 to n, under BoundedV1 to the
// number of stripes. Size classes with different k share one Placer.
func (p *Placer) PerTenant(k int) (Subsets, error) {
	if k < 1 || k > p.most {
		return Subsets{}, fmt.Errorf("%w: %d of %d shards, want 1 to %d", ErrPerTenant, k, p.shards, p.most)
	}
	s := Subsets{placer: p, k: k}
	if p.scheme == RendezvousV1 {
		s.deal = p.rendezvous.deal(k)
	}
	return s, nil
}

// Subsets computes subsets of one size. It comes from Placer.PerTenant; its zero value is of no use.
type Subsets struct {
	placer *Placer
	k      int
	deal   deal // of RendezvousV1 only
}

// Format writes what the subsets are of, whatever the verb, and nothing of the key.
func (s Subsets) Format(f fmt.State, _ rune) {
	if s.placer == nil {
		fmt.Fprint(f, "no subsets")
		return
	}
	fmt.Fprintf(f, "%d each by %v", s.k, s.placer)
}

// PerTenant is the number of shards in each subset, k.
func (s Subsets) PerTenant() int { return s.k }

// Append appends the tenant's k indices into the list of shards, the most preferred first, and returns
// the extended slice. Only BoundedV1 has errors, ErrNoSlot and *FullError, with which dst comes back as
// it was: a subset is whole or not there.
//
// HMACv1 costs one HMAC-SHA256 for each four words that it draws, about n·ln(n/(n-k)) of them and so
// one HMAC when k is small. RendezvousV1 costs one HMAC and n integer mixes, and time in the order of
// k² more, which shows from hundreds of members on. BoundedV1 costs 8 integer mixes and k·t sums and products
// in a field, less than one HMAC while k·t is small.
func (s Subsets) Append(dst []int, t Tenant) ([]int, error) {
	// A switch, not an interface: through a dynamic call the caller's buffers would escape to the heap.
	p := s.placer
	switch p.scheme {
	case HMACv1:
		return appendRecipe(dst, &p.mac, &p.recipe, t.ID, s.k), nil
	case RendezvousV1:
		return p.rendezvous.append(dst, &p.mac, t.ID, s.k, s.deal), nil
	default:
		return p.bounded.append(dst, t.Slot, s.k)
	}
}

// digest is one HMAC-SHA256.
type digest = [sha256.Size]byte
