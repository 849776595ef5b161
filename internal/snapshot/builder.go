package snapshot

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/directory"
)

// Builder packs entries one by one, so that a million of them are never in memory unpacked. The zero value
// is not usable.
type Builder struct {
	cell  string
	cells []string // of a front door's, in order
	data  []byte
	at    []uint32
}

// NewBuilder begins the entries of a cell.
func NewBuilder(cell string) *Builder { return &Builder{cell: cell} }

// NewFleetBuilder begins the entries of a front door, which are those of all these cells.
func NewFleetBuilder(cells []string) *Builder {
	return &Builder{cell: Fleet, cells: slices.Compact(slices.Sorted(slices.Values(cells)))}
}

// Add packs what a router or a front door needs of an entry; of one that comes twice, the higher epoch stays.
// ErrInvalid for another cell's, for what the directory would not have, and when there are too many.
func (b *Builder) Add(e directory.Entry) error {
	if _, listed := slices.BinarySearch(b.cells, e.Cell); !listed && (e.Cell != b.cell || b.cells != nil) {
		return fmt.Errorf("%w: the entry of tenant %q is cell %q's, and this is of %q", ErrInvalid, e.Tenant, e.Cell, cmp.Or(strings.Join(b.cells, " "), b.cell))
	}
	serving := e.Serving()
	serving.Operation = "pack" // any: it is not packed, and Check wants one
	if err := directory.Check(serving); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if e.Epoch == 0 {
		return fmt.Errorf("%w: the entry of tenant %q has no epoch", ErrInvalid, e.Tenant)
	}
	if len(b.at) == maxEntries || len(b.data) > MaxBytes-maxMeta {
		return fmt.Errorf("%w: more entries than a snapshot takes: at most %d, and %d bytes of them", ErrInvalid, maxEntries, MaxBytes-maxMeta)
	}
	b.at = append(b.at, uint32(len(b.data)))
	if b.cells == nil {
		b.data = pack(b.data, e)
	} else {
		b.data = packWhere(b.data, e, b.cells)
	}
	return nil
}

// pack appends an entry.
func pack(to []byte, e directory.Entry) []byte {
	flags := stateOf(e)
	if e.Size != "" {
		flags |= flagSize
	}
	if e.Slot != 0 {
		flags |= flagSlot
	}
	if len(e.Pins) > 0 {
		flags |= flagPins
	}
	to = append(packShort(to, e.Tenant), flags)
	to = binary.AppendUvarint(to, e.Epoch)
	to = binary.AppendUvarint(to, e.Topology)
	if e.Size != "" {
		to = packShort(to, e.Size)
	}
	if e.Slot != 0 {
		to = binary.AppendUvarint(to, e.Slot)
	}
	if len(e.Pins) > 0 {
		to = append(to, byte(len(e.Pins)))
		for _, pin := range e.Pins {
			to = packShort(to, pin)
		}
	}
	return to
}

func stateOf(e directory.Entry) byte { return byte(slices.Index(states[:], e.State)) }

// packWhere appends an entry of a front door: in which of the cells the tenant is.
func packWhere(to []byte, e directory.Entry, cells []string) []byte {
	at, _ := slices.BinarySearch(cells, e.Cell)
	to = append(packShort(to, e.Tenant), stateOf(e))
	return binary.AppendUvarint(binary.AppendUvarint(to, e.Epoch), uint64(at))
}

func packShort(to []byte, s string) []byte { return append(append(to, byte(len(s))), s...) }

// Entries returns what was added, in order. The Builder is spent.
func (b *Builder) Entries() (*Entries, error) {
	tenant := func(at uint32) []byte { return b.data[at+1 : at+1+uint32(b.data[at])] }
	rest := func(at uint32) packed {
		r := reader{data: b.data[at+1+uint32(b.data[at]):]}
		return r.rest(len(b.cells))
	}
	end := func(at uint32) int {
		r := reader{data: b.data[at:]}
		r.short()
		r.rest(len(b.cells))
		return len(b.data) - len(r.data)
	}
	inOrder := slices.IsSortedFunc(b.at, func(x, y uint32) int { return bytes.Compare(tenant(x), tenant(y)) })
	if !inOrder {
		slices.SortStableFunc(b.at, func(x, y uint32) int { return bytes.Compare(tenant(x), tenant(y)) })
	}
	kept := b.at[:0]
	for _, at := range b.at {
		if n := len(kept); n > 0 && bytes.Equal(tenant(kept[n-1]), tenant(at)) {
			if rest(at).epoch > rest(kept[n-1]).epoch {
				kept[n-1] = at
			}
			inOrder = false
			continue
		}
		kept = append(kept, at)
	}
	data := b.data
	if !inOrder {
		data = make([]byte, 0, len(b.data))
		for _, at := range kept {
			data = append(data, b.data[at:end(at)]...)
		}
	}
	cell, cells, count := b.cell, b.cells, len(kept)
	*b = Builder{cell: cell, cells: cells}
	return index(cell, cells, data, count)
}

// Pack is the entries of a list.
func Pack(cell string, list []directory.Entry) (*Entries, error) {
	b := NewBuilder(cell)
	for _, e := range list {
		if err := b.Add(e); err != nil {
			return nil, err
		}
	}
	return b.Entries()
}
