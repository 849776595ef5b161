package directory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Fault is what is wrong with one line of a file.
type Fault struct {
	Line int
	Err  error
}

func (f Fault) Error() string { return fmt.Sprintf("line %d: %v", f.Line, f.Err) }

// Vet reads a whole file before anything is written. It tells report of each bad line, and returns how many
// are bad and good. Bad are those that do not parse, are no valid entries, cannot be a tenant's first, name a
// tenant or a cell's slot twice, or that check refuses. It takes about 50 bytes of memory a tenant, and as many
// a slot.
func Vet(lines iter.Seq2[Line, error], check func(Entry) error, report func(Fault)) (bad, good int, err error) {
	type id [16]byte // of a tenant; two tenants have one with probability 2^-88 at a million
	first := map[id]int32{}
	type place struct {
		cell string
		slot uint64
	}
	slots := map[place]int32{}
	for line, err := range lines {
		if err != nil {
			return bad, good, err
		}
		fault := line.Fault
		if fault == nil {
			fault = vet(line.Entry, check)
		}
		if fault == nil {
			sum := sha256.Sum256([]byte(line.Entry.Tenant))
			if at, twice := first[id(sum[:16])]; twice {
				fault = fmt.Errorf("tenant %q stands on line %d already", line.Entry.Tenant, at)
			} else {
				first[id(sum[:16])] = int32(line.Number)
			}
		}
		if e := line.Entry; fault == nil && e.Slot > 0 {
			if at, twice := slots[place{e.Cell, e.Slot}]; twice {
				fault = fmt.Errorf("slot %d of cell %q stands on line %d already: each tenant needs its own", e.Slot, e.Cell, at)
			} else {
				slots[place{e.Cell, e.Slot}] = int32(line.Number)
			}
		}
		if unread := (*unreadError)(nil); errors.As(fault, &unread) {
			return bad, good, unread.error
		}
		if fault != nil {
			report(Fault{line.Number, fault})
			bad++
			continue
		}
		good++
	}
	return bad, good, nil
}

func vet(e Entry, check func(Entry) error) error {
	e.Operation = "import" // the file's is that of an earlier change
	if err := Check(e); err != nil {
		return err
	}
	if e.State != Active && e.State != Suspended {
		return fmt.Errorf("%w: it is %s; only %s and %s tenants are imported", ErrState, e.State, Active, Suspended)
	}
	return check(e)
}

// unreadError is why a check could not be made. It is the end of Vet, and no line's fault.
type unreadError struct{ error }

// Checker returns the check of an entry against the cells, topologies and slots that are known now, for an
// import at the time at. It reads each cell and topology once, and the slots of a cell when the first entry names
// one: about 50 bytes of memory each.
func (d *Directory) Checker(ctx context.Context, at time.Time) (func(Entry) error, error) {
	cells, err := d.Cells(ctx)
	if err != nil {
		return nil, err
	}
	const page = 100
	known := map[string]map[uint64]Topology{}
	for _, c := range cells {
		known[c.Name] = map[uint64]Topology{}
		for after, more := uint64(0), true; more; {
			topologies, err := d.Topologies(ctx, c.Name, after, page)
			if err != nil {
				return nil, err
			}
			for _, t := range topologies {
				known[c.Name][t.Version], after = t, t.Version
			}
			more = len(topologies) == page
		}
	}
	slots := map[string]map[uint64]slotHad{}
	return func(e Entry) error {
		topologies, ok := known[e.Cell]
		if !ok {
			return fmt.Errorf("cell %q: %w", e.Cell, ErrUnknownCell)
		}
		if e.Topology == 0 {
			return nil
		}
		t, ok := topologies[e.Topology]
		switch {
		case !ok:
			return fmt.Errorf("cell %q, topology %d: %w", e.Cell, e.Topology, ErrUnknownTopology)
		case t.Retired:
			return fmt.Errorf("cell %q, topology %d: %w", e.Cell, e.Topology, ErrRetired)
		}
		if err := t.takes(e); err != nil || e.Slot == 0 {
			return err
		}
		if slots[e.Cell] == nil {
			if slots[e.Cell], err = d.slotsHad(ctx, e.Cell, at); err != nil {
				return &unreadError{err}
			}
		}
		if had, ok := slots[e.Cell][e.Slot]; ok && had != slotOf(e.Tenant) {
			return fmt.Errorf("cell %q, slot %d: %w", e.Cell, e.Slot, ErrSlotTaken)
		}
		return nil
	}, nil
}

// slotHad is a digest of the tenant who has a slot, and zero while it rests.
type slotHad [16]byte

func slotOf(tenant string) slotHad {
	sum := sha256.Sum256([]byte(tenant))
	return slotHad(sum[:16])
}

// slotsHad is the slots of a cell that are not free.
func (d *Directory) slotsHad(ctx context.Context, cell string, at time.Time) (map[uint64]slotHad, error) {
	const page = 1000
	had := map[uint64]slotHad{}
	for after := (Key{}); ; {
		records, err := d.home.List(ctx, Range{Family: famSlot, Part: cellPart + cell}, after, page)
		if err != nil {
			return nil, fmt.Errorf("look at the slots of cell %q: %w", cell, err)
		}
		for _, r := range records {
			after = r.Key
			number, err := strconv.ParseUint(strings.TrimPrefix(r.Sort, famSlot+"#"), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("the directory's record %v: %w", r.Key, err)
			}
			var s slot
			if err := decode(r, &s); err != nil {
				return nil, err
			}
			switch {
			case s.Tenant != "":
				had[number] = slotOf(s.Tenant)
			case !s.free(at):
				had[number] = slotHad{}
			}
		}
		if len(records) < page {
			return had, nil
		}
	}
}

// Progress is how far an import has come. All lines up to Line are done and stay so, and some behind it may
// be: it is where an import that was interrupted is taken up.
type Progress struct {
	Line int
	Enrolled
}

const (
	importChunk   = 500 // tenants that one worker enrols at a time
	importWorkers = 16  // at the same time, so that they share a home's fsyncs and hide its delays

	// importWindow is how many lines are put in the order of the tenants' ids before they are enrolled, so
	// that neighbours are written together: a home in pages on disk writes a page for many tenants then,
	// and not several for each. It takes about 400 bytes of memory a line, twice.
	importWindow = 50_000
)

// Import enrols the lines of a file after line done, by enrol, which is Directory.Enrol or
// Residence.Enrol. Vet the file first: a bad line is an error here. progress is told after each chunk, from
// one goroutine, with sums since the beginning of this call; Differ holds those of the chunk alone. Lines are
// enrolled in the order of ids, by windows of importWindow, and Line moves with each window.
func Import(ctx context.Context, lines iter.Seq2[Line, error], done int, c Change,
	enrol func(context.Context, []Entry, Change) (Enrolled, error), progress func(Progress),
) error {
	type result struct {
		Enrolled
		err error
	}
	type chunk struct {
		last   int
		result chan result
	}
	order := make(chan chunk, importWorkers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(order)
		for entries, err := range chunks(lines, done) {
			if err != nil {
				return err
			}
			ch := chunk{entries.last, make(chan result, 1)}
			select {
			case order <- ch:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				sum, err := enrol(ctx, entries.entries, c)
				ch.result <- result{sum, err}
				return nil
			})
		}
		return nil
	})
	g.Go(func() error {
		sum := Progress{Line: done}
		for ch := range order {
			r := <-ch.result
			if r.err != nil {
				return fmt.Errorf("import, after line %d: %w", sum.Line, r.err)
			}
			sum.Line = ch.last
			sum.Created += r.Created
			sum.Present += r.Present
			sum.Differ = r.Differ
			progress(sum)
		}
		return nil
	})
	return g.Wait()
}

type chunkOf struct {
	entries []Entry
	last    int // line up to which all are done when this chunk and those before it are
}

// chunks gathers the entries after line done.
func chunks(lines iter.Seq2[Line, error], done int) iter.Seq2[chunkOf, error] {
	return func(yield func(chunkOf, error) bool) {
		var window []Entry
		last := done // line of the window
		flush := func() bool {
			slices.SortFunc(window, func(a, b Entry) int { return strings.Compare(a.Tenant, b.Tenant) })
			for some := range slices.Chunk(window, importChunk) {
				now := chunkOf{some, done}
				if &some[len(some)-1] == &window[len(window)-1] {
					now.last = last
				}
				if !yield(now, nil) {
					return false
				}
			}
			window, done = nil, last
			return true
		}
		for line, err := range lines {
			switch {
			case err != nil:
				yield(chunkOf{}, err)
				return
			case line.Number <= done:
				continue
			case line.Fault != nil:
				yield(chunkOf{}, Fault{line.Number, line.Fault})
				return
			}
			window, last = append(window, line.Entry), line.Number
			if len(window) == importWindow && !flush() {
				return
			}
		}
		flush()
	}
}
