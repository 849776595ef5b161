package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// SlotQuarantine is how long a slot rests after its tenant gave it back: longer than a router may go on
// with an entry that it read before.
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

// slotOps gives back the slot of before and takes the one of after, whose record has version taken.
func slotOps(before, after Entry, at time.Time, taken uint64) []Op {
	same := before.Cell == after.Cell && before.Slot == after.Slot
	var ops []Op
	if before.Epoch > 0 && before.Slot > 0 && !same {
		// Only who changes the entry can give its slot back, so that the record is as the entry says.
		ops = append(ops, Put(slotKey(before.Cell, before.Slot), AnyVersion, encode(slot{Since: at.UTC()})))
	}
	if after.Slot > 0 && (before.Epoch == 0 || !same) {
		ops = append(ops, Put(slotKey(after.Cell, after.Slot), taken, encode(slot{after.Tenant, at.UTC()})))
	}
	return ops
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
