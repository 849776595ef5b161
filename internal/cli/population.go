package cli

import (
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// population is the tenants that a command is about, each once, in the order in which they were given. It
// takes what the ids take and about 40 bytes for each: never the file, and no second copy of an id.
type population struct {
	tenants []string
	loads   []float64 // parallel to tenants; nil when the tenants came without loads

	// What only some tenants of few files have, by their index.
	sizes, cells []uint16 // into words; nil without the column
	words        []string // each once, "" first
	pins         map[int][]string

	most  idLimit // of each id
	file  string  // its name; empty when no file has them
	first int     // the line, or the argument, that names the first tenant; others follow one by one
	ids   idSet
	text  strings.Builder // that ids are parts of, until it is full
}

// idLimit is the most bytes that an id may have.
type idLimit int

// A directory takes ids of up to 128 bytes. Placement itself is defined for ids of any length, so that
// what only computes takes longer ones; the bound is for what is no id at all.
const (
	directoryID idLimit = 128
	placementID idLimit = 4096
)

// line bounds a line in bytes: an id is twice as long when it is all quotes, and a load needs a few; what
// is longer is no tenants file.
func (most idLimit) line() int { return 2*int(most) + 768 }

// at names the file and its line that has the tenant, for an error; it is empty when no file has it.
func (p *population) at(i int) string {
	if p.file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", p.file, p.first+i)
}

// noteLong says once on w that tenants have ids that no directory takes.
func (p *population) noteLong(w io.Writer) {
	long := 0
	for _, id := range p.tenants {
		if len(id) > int(directoryID) {
			long++
		}
	}
	if long > 0 {
		fmt.Fprintf(w, "note: %s of more than %d bytes: placement takes them, a cell's directory takes ids of 1 to %d bytes\n", count(long, "id"), directoryID, directoryID)
	}
}

// idChunk is the bytes of ids that are allocated together.
const idChunk = 1 << 16

// keep copies an id to where others are, so that it costs its bytes alone.
func (p *population) keep(id string) string {
	if p.text.Cap()-p.text.Len() < len(id) {
		p.text = strings.Builder{}
		p.text.Grow(max(idChunk, len(id)))
	}
	from := p.text.Len()
	p.text.WriteString(id)
	return p.text.String()[from:]
}

// word is the index of a size class or a cell, of which a population has few.
func (p *population) word(text string) (uint16, error) {
	if p.words == nil {
		p.words = []string{""}
	}
	if i := slices.Index(p.words, text); i >= 0 {
		return uint16(i), nil
	}
	if len(p.words) == maxWords {
		return 0, fmt.Errorf("%q is one name too many: sizes and cells together have at most %d", text, maxWords-1)
	}
	p.words = append(p.words, strings.Clone(text))
	return uint16(len(p.words) - 1), nil
}

// maxWords bounds the names of cells (1,000 in a fleet) and size classes.
const maxWords = 4096

// size is the tenant's size class, "" without one.
func (p *population) size(i int) string {
	if p.sizes == nil {
		return ""
	}
	return p.words[p.sizes[i]]
}

// load is the tenant's load, 1 when none came with the tenants.
func (p *population) load(i int) float64 {
	if p.loads == nil {
		return 1
	}
	return p.loads[i]
}

// add adds a tenant; it has the line or argument after the one before.
func (p *population) add(id string) error {
	if id == "" {
		return fmt.Errorf("the tenant's id is empty: write 1 to %d bytes of UTF-8", p.most)
	}
	if len(id) > int(p.most) {
		return fmt.Errorf("the tenant's id is %d bytes long: write 1 to %d bytes of UTF-8", len(id), p.most)
	}
	if !utf8.ValidString(id) {
		return fmt.Errorf("the tenant's id is %q, not valid UTF-8: write 1 to %d bytes of UTF-8", id, p.most)
	}
	if len(p.tenants) == maxPopulation {
		return fmt.Errorf("more than %d tenants", maxPopulation)
	}
	if before, ok := p.ids.add(p.tenants, id); !ok {
		return fmt.Errorf("tenant %q was named before, at %d: name it once", id, p.first+before)
	}
	p.tenants = append(p.tenants, p.keep(id))
	return nil
}

// maxPopulation is what an idSet can number, which is more than blast counts.
const maxPopulation = math.MaxInt32

// idSet finds an id that stands twice in a list, in 4 to 12 bytes for each: a hash table of places in the list.
type idSet struct {
	seed  maphash.Seed
	slots []uint32 // place in the list plus 1, 0 when free; a power of two of them
}

// add puts id, which is to become the last of the list, into the set; or tells where it is in the list.
func (s *idSet) add(list []string, id string) (at int, ok bool) {
	if 3*len(s.slots) <= 4*len(list) { // at most three of four are taken
		s.grow(list)
	}
	slot, found := s.find(list, id)
	if found {
		return int(s.slots[slot]) - 1, false
	}
	s.slots[slot] = uint32(len(list)) + 1
	return 0, true
}

// find is the slot of an id, or the free one where it belongs.
func (s *idSet) find(list []string, id string) (slot int, found bool) {
	mask := len(s.slots) - 1
	for slot = int(maphash.String(s.seed, id)) & mask; s.slots[slot] != 0; slot = (slot + 1) & mask {
		if list[s.slots[slot]-1] == id {
			return slot, true
		}
	}
	return slot, false
}

func (s *idSet) grow(list []string) {
	if s.slots == nil {
		s.seed = maphash.MakeSeed()
	}
	s.slots = make([]uint32, max(64, 2*len(s.slots)))
	for i, id := range list {
		slot, _ := s.find(list[:i], id)
		s.slots[slot] = uint32(i) + 1
	}
}

// namedPopulation is the tenants of the command line, without loads.
func namedPopulation(args []string, most idLimit) (*population, error) {
	p := &population{most: most, first: 1}
	for i, id := range args {
		if err := p.add(id); err != nil {
			return nil, usagef("argument %d: %w", i+1, err)
		}
	}
	return p, nil
}
