package directory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// SlotQuarantine is how long a slot rests after its tenant gave it back: longer than a router may go on
// with an entry that it read before. It is counted from the time of the change that gave it back, or of the
// one before when that is later, to the time of the change that takes it; both are their callers'.
const SlotQuarantine = 7 * 24 * time.Hour

// Errors of slots. They come wrapped.
var (
	ErrSlotTaken = errors.New("another tenant has the slot, or had it lately")
	ErrNoSlot    = errors.New("the topology has no free slot: publish one with more, or wait until those given back have rested")
)

// slot is the record of one slot: who has it, or since when nobody has.
type slot struct {
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since"`
}

func (s slot) free(at time.Time) bool {
	return s.Tenant == "" && !at.Before(s.Since.Add(SlotQuarantine))
}

// takesSlot says whether a change takes a slot that the tenant did not have.
func takesSlot(before, after Entry) bool {
	return after.Slot > 0 && (before.Epoch == 0 || before.Cell != after.Cell || before.Slot != after.Slot)
}

// givesSlot says whether a change gives the tenant's slot back.
func givesSlot(before, after Entry) bool {
	return before.Epoch > 0 && before.Slot > 0 && (before.Cell != after.Cell || before.Slot != after.Slot)
}

// slotOps gives back the slot of before and takes the one of after, whose record has version taken.
func slotOps(before, after Entry, at time.Time, taken uint64) []Op {
	var ops []Op
	if givesSlot(before, after) {
		// Only who changes the entry can give its slot back, so that the record is as the entry says. It did
		// not rest before the change that the tenant saw last, whatever the caller takes the time to be.
		since := at.UTC()
		if before.Updated.After(since) {
			since = before.Updated.UTC()
		}
		ops = append(ops, Put(slotKey(before.Cell, before.Slot), AnyVersion, encode(slot{Since: since})))
	}
	if takesSlot(before, after) {
		ops = append(ops, Put(slotKey(after.Cell, after.Slot), taken, encode(slot{after.Tenant, at.UTC()})))
	}
	return ops
}

// occupied in place of a version is that of no slot: whoever takes one under it is told what is in the way.
const occupied = math.MaxUint64 - 1

// vacant is the version of a slot's record under which the tenant may take it, or occupied when the tenant has it.
// ErrSlotTaken when another has it, or it rests.
func vacant(r Record, tenant string, at time.Time) (version uint64, err error) {
	if r.Version == 0 {
		return 0, nil
	}
	var s slot
	if err := decode(r, &s); err != nil {
		return 0, err
	}
	switch {
	case s.free(at):
		return r.Version, nil
	case s.Tenant == tenant:
		return occupied, nil
	}
	return 0, besides(r, Op{Key: r.Key})
}

// slotFor looks up what a change by one batch takes of slots. It reads nothing when that is none.
func (d *Directory) slotFor(ctx context.Context, before, after Entry, at time.Time) (taking, error) {
	if !takesSlot(before, after) {
		return taking{}, nil
	}
	r, err := d.read(ctx, Strong, slotKey(after.Cell, after.Slot))
	if err != nil {
		return taking{}, fmt.Errorf("change tenant %q: %w", after.Tenant, err)
	}
	version, err := vacant(r, after.Tenant, at)
	if errors.Is(err, ErrSlotTaken) { // unless this is a repetition, as the batch will tell
		version, err = occupied, nil
	}
	return taking{slot: version}, err
}

const (
	slotProbes = 16 // slots looked at in one read
	slotRounds = 4  // reads, before all slots are listed
)

// findSlot returns a slot of the topology that is free, and the version of its record. It looks at
// random, so that sign-ups at the same time seldom meet: with half of the slots free, one read in 65,536
// finds none.
func (d *Directory) findSlot(ctx context.Context, t Topology, at time.Time) (number, version uint64, err error) {
	for range slotRounds {
		keys := make([]Key, 0, slotProbes)
		numbers := make([]uint64, 0, slotProbes)
		seen := map[uint64]bool{}
		for range slotProbes {
			if n := rand.Uint64N(t.Slots) + 1; !seen[n] {
				seen[n] = true
				keys, numbers = append(keys, slotKey(t.Cell, n)), append(numbers, n)
			}
		}
		records, err := d.home.Read(ctx, Strong, keys...)
		if err != nil {
			return 0, 0, fmt.Errorf("look for a slot in cell %q: %w", t.Cell, err)
		}
		for i, r := range records {
			if free, err := freeSlot(r, at); err != nil {
				return 0, 0, err
			} else if free {
				return numbers[i], r.Version, nil
			}
		}
	}
	return d.searchSlot(ctx, t, at)
}

func freeSlot(r Record, at time.Time) (bool, error) {
	if r.Version == 0 {
		return true, nil
	}
	var s slot
	if err := decode(r, &s); err != nil {
		return false, err
	}
	return s.free(at), nil
}

// searchSlot goes through all slots in their order, from a random one on and round.
func (d *Directory) searchSlot(ctx context.Context, t Topology, at time.Time) (number, version uint64, err error) {
	start := rand.Uint64N(t.Slots)
	for _, part := range [][2]uint64{{start, t.Slots}, {0, start}} {
		number, version, err = d.searchSlots(ctx, t, part[0], part[1], at)
		if err != nil || number > 0 {
			return number, version, err
		}
	}
	return 0, 0, fmt.Errorf("cell %q, topology %d: %w", t.Cell, t.Version, ErrNoSlot)
}

// searchSlots looks at the slots above after, up to last.
func (d *Directory) searchSlots(ctx context.Context, t Topology, after, last uint64, at time.Time) (number, version uint64, err error) {
	const page = 1000
	for next := after + 1; next <= last; {
		records, err := d.home.List(ctx, Range{Family: famSlot, Part: cellPart + t.Cell}, slotKey(t.Cell, next-1), page)
		if err != nil {
			return 0, 0, fmt.Errorf("look for a slot in cell %q: %w", t.Cell, err)
		}
		for _, r := range records {
			if r.Key != slotKey(t.Cell, next) { // a gap: next was never used
				break
			}
			if free, err := freeSlot(r, at); err != nil {
				return 0, 0, err
			} else if free && next <= last {
				return next, r.Version, nil
			}
			next++
		}
		if next <= last && (len(records) == 0 || len(records) < page || records[len(records)-1].Key != slotKey(t.Cell, next-1)) {
			return next, 0, nil
		}
	}
	return 0, 0, nil
}
