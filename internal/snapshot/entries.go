package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
)

// Entries are tenants' entries, packed. An entry is:
//
//	tenant    1 byte of length, 1 to 128 bytes
//	flags     1 byte: state in bits 0 and 1, then whether a size, a slot and pins follow
//	epoch     unsigned varint
//	topology  unsigned varint
//	size      1 byte of length, 1 to 16 bytes
//	slot      unsigned varint
//	pins      1 byte of number, then each as the size
//
// Of a front door's, an entry is the tenant, its state in 1 byte, the epoch, and the number of its cell in the
// list of cells, from 0, as an unsigned varint.
//
// They follow one another in the order of the tenants' bytes. Beside them in memory are 4 bytes for each,
// where it begins. What they say in words is kept once for all.
type Entries struct {
	cell    string
	cells   []string // in order; nil but for a front door's
	data    []byte
	offsets []uint32
	words   map[string]string   // size classes and shards
	pins    map[string][]string // by their packed form
}

const (
	maxName = 16 // bytes of a cell's, shard's, key version's or size class's name, as the directory has it
	maxPins = 65_536

	flagSize, flagSlot, flagPins, flagsEnd = 1 << 2, 1 << 3, 1 << 4, 1 << 5
)

var states = [...]directory.State{directory.Placing, directory.Active, directory.Suspended, directory.Moving}

func shortName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsSpace)
}

// Len is the number of entries.
func (e *Entries) Len() int { return len(e.offsets) }

// Bytes is what the packed entries take, without their index.
func (e *Entries) Bytes() int { return len(e.data) }

// Lookup returns a tenant's entry. Its pins are shared with others' entries and must not be changed.
func (e *Entries) Lookup(tenant string) (directory.Entry, bool) {
	low, high := 0, len(e.offsets)
	for low < high {
		middle := int(uint(low+high) >> 1)
		at := e.offsets[middle]
		id := e.data[at+1 : at+1+uint32(e.data[at])]
		switch {
		case string(id) < tenant: // compares without a copy
			low = middle + 1
		case string(id) == tenant:
			return e.entry(at, tenant), true
		default:
			high = middle
		}
	}
	return directory.Entry{}, false
}

// All is every entry in the order of the tenants.
func (e *Entries) All() iter.Seq[directory.Entry] {
	return func(yield func(directory.Entry) bool) {
		for _, at := range e.offsets {
			if !yield(e.entry(at, string(e.data[at+1:at+1+uint32(e.data[at])]))) {
				return
			}
		}
	}
}

// entry unpacks what index has found to be whole.
func (e *Entries) entry(at uint32, tenant string) directory.Entry {
	r := reader{data: e.data[at+1+uint32(len(tenant)):]}
	p := r.rest(len(e.cells))
	if e.cells != nil {
		return directory.Entry{Tenant: tenant, Cell: e.cells[p.cell], State: p.state, Epoch: p.epoch}
	}
	pins, ok := e.pins[string(p.pins)]
	if !ok && len(p.pins) > 0 {
		pins = e.unpackPins(p.pins)
	}
	return directory.Entry{
		Tenant: tenant, Cell: e.cell, State: p.state, Epoch: p.epoch, Topology: p.topology,
		Size: e.words[string(p.size)], Slot: p.slot, Pins: pins,
	}
}

func (e *Entries) unpackPins(packed []byte) []string {
	r := reader{data: packed}
	pins := make([]string, r.octet())
	for i := range pins {
		pins[i] = e.words[string(r.short())]
	}
	return pins
}

// index reads packed entries once, refuses what is not in order, and finds where each begins.
func index(cell string, cells []string, data []byte, count int) (*Entries, error) {
	const least = 5 // bytes of an entry
	if count > maxEntries || count > len(data)/least {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrMalformed, count, len(data))
	}
	e := &Entries{cell: cell, cells: cells, data: data, offsets: make([]uint32, 0, count), words: map[string]string{}, pins: map[string][]string{}}
	r := reader{data: data}
	var last []byte
	for i := range count {
		at := len(data) - len(r.data)
		tenant := r.short()
		p := r.rest(len(cells))
		switch {
		case r.bad:
			return nil, fmt.Errorf("%w: entry %d", ErrMalformed, i+1)
		case len(tenant) > maxTenant || !utf8.Valid(tenant) || i > 0 && bytes.Compare(last, tenant) >= 0:
			return nil, fmt.Errorf("%w: entry %d has no tenant's id, or stands in the wrong place", ErrMalformed, i+1)
		case !e.learn(p):
			return nil, fmt.Errorf("%w: entry %d names a size class or a shard as none is called", ErrMalformed, i+1)
		}
		last = tenant
		e.offsets = append(e.offsets, uint32(at))
	}
	if len(r.data) > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow the last entry", ErrMalformed, len(r.data))
	}
	return e, nil
}

// learn keeps the words of an entry, and says whether they are well formed.
func (e *Entries) learn(p packed) bool {
	if !e.word(p.size, true) {
		return false
	}
	if _, known := e.pins[string(p.pins)]; known || len(p.pins) == 0 {
		return true
	}
	r := reader{data: p.pins}
	for range r.octet() {
		if !e.word(r.short(), false) {
			return false
		}
	}
	pins := e.unpackPins(p.pins)
	for i, pin := range pins {
		if slices.Contains(pins[:i], pin) {
			return false
		}
	}
	if len(e.pins) < maxPins {
		e.pins[string(p.pins)] = pins
	}
	return true
}

func (e *Entries) word(w []byte, mayLack bool) bool {
	if len(w) == 0 {
		return mayLack
	}
	if _, known := e.words[string(w)]; known {
		return true
	}
	if s := string(w); shortName(s) && len(e.words) < maxShards {
		e.words[s] = s
		return true
	}
	return false
}

const maxTenant = 128 // bytes, as directory.ValidTenant has it

// packed is an entry without its tenant. Its slices are those of the data.
type packed struct {
	state                 directory.State
	epoch, topology, slot uint64
	size, pins            []byte
	cell                  uint64 // in a front door's
}

// reader reads packed values from the front of its data, and is bad from the first that is not there.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) octet() int {
	if len(r.data) == 0 {
		r.bad = true
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return int(b)
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.bad, r.data = true, nil
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

// short is 1 to 255 bytes behind their number.
func (r *reader) short() []byte {
	n := r.octet()
	if n == 0 {
		r.bad = true
	}
	return r.take(n)
}

// number is an unsigned varint in its shortest form, so that a value has one encoding.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || n > 1 && r.data[n-1] == 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

// rest is what follows the tenant: in a front door's, which knows so many cells, or with 0 in a cell's.
func (r *reader) rest(cells int) packed {
	var p packed
	flags := r.octet()
	if flags >= flagsEnd {
		r.bad = true
	}
	p.state = states[flags&3]
	if p.epoch = r.number(); p.epoch == 0 {
		r.bad = true
	}
	if cells > 0 {
		if p.cell = r.number(); p.cell >= uint64(cells) || flags > 3 {
			r.bad = true
		}
		return p
	}
	p.topology = r.number()
	if flags&flagSize != 0 {
		p.size = r.short()
	}
	if flags&flagSlot != 0 {
		if p.slot = r.number(); p.slot == 0 {
			r.bad = true
		}
	}
	if flags&flagPins != 0 {
		from := r.data
		n := r.octet()
		if n == 0 || n > directory.MaxPins {
			r.bad = true
		}
		for range n {
			r.short()
		}
		p.pins = from[:len(from)-len(r.data)]
	}
	return p
}
