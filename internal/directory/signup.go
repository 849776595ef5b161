package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// SignUp is a new tenant that looks for a place.
type SignUp struct {
	Tenant   string
	Load     Rate   // expected; reserved on the cell
	Size     string // size class; empty is the default one
	Internal bool   // goes to a cell for internal tenants, and only there
	Stateful bool   // is pinned to the shards with the most headroom, since its state will lie there
}

// ErrNoHeadroom means that no cell may take the tenant.
var ErrNoHeadroom = errors.New("no cell has headroom: stamp a new one first")

// Place writes the first entry of a tenant, in state placing, on the open cell that has the most
// headroom left after adding it, and reserves its load there in the same batch. Nothing is changed with
// an error: ErrNoHeadroom, ErrNoSlot, ErrExists. Repeated under its operation id it returns the entry
// that it wrote, whichever cell would be chosen now. Sign-ups at once contend for the record of the cell;
// each goes on until it is written or refused for one of these causes. ErrBusy comes only with the end of
// the context, or after about a minute when that has no deadline.
func (d *Directory) Place(ctx context.Context, s SignUp, c Change) (Entry, error) {
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("sign up tenant %q: %w", s.Tenant, err) }
	probe := Entry{Tenant: s.Tenant, Cell: "-", State: Placing, Size: s.Size, Load: s.Load, Operation: c.Operation}
	if err := c.check(); err != nil {
		return fail(err)
	}
	if err := Check(probe); err != nil {
		return fail(err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		var e Entry
		var t taking
		err := untilFree(ctx, func() (err error) { e, t, err = d.choose(ctx, s, c); return err })
		if unfit(err) {
			// A tenant that is there already is told so, and a repetition of its success.
			getErr := untilFree(ctx, func() error { _, err := d.Get(ctx, s.Tenant); return err })
			if getErr == nil {
				return d.placed(ctx, s, c)
			} else if !errors.Is(getErr, ErrNotFound) {
				return fail(getErr)
			}
		}
		if err != nil {
			return fail(err)
		}
		stands, err := d.replace(ctx, Entry{}, e, c, t)
		switch {
		case err == nil:
			return stands, nil
		case errors.Is(err, ErrExists):
			return d.placed(ctx, s, c)
		case errors.Is(err, errMoved), errors.Is(err, ErrSlotTaken), errors.Is(err, ErrRetired):
			// Another was faster. Each time round, somebody has come further.
		default:
			return fail(err)
		}
	}
}

// placed returns the first entry of a tenant when this operation wrote it for this sign-up.
func (d *Directory) placed(ctx context.Context, s SignUp, c Change) (Entry, error) {
	var lines []Logged
	err := untilFree(ctx, func() (err error) { lines, err = d.History(ctx, s.Tenant, 0, 1); return err })
	switch {
	case err != nil:
		return Entry{}, err
	case len(lines) == 0 || lines[0].After.Operation != c.Operation:
		return Entry{}, fmt.Errorf("sign up tenant %q: %w", s.Tenant, ErrExists)
	}
	first := lines[0].After
	if first.Load != s.Load || first.Size != s.Size || first.Internal != s.Internal {
		return Entry{}, fmt.Errorf("sign up tenant %q: %w (%q): %w", s.Tenant, ErrReused, c.Operation, ErrExists)
	}
	return first, nil
}

// choose returns the entry that is to be written, and the conditions on which it was chosen.
func (d *Directory) choose(ctx context.Context, s SignUp, c Change) (Entry, taking, error) {
	cells, err := d.Cells(ctx)
	if err != nil {
		return Entry{}, taking{}, err
	}
	slices.SortFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Limit()-b.Load, a.Limit()-a.Load), cmp.Compare(a.Name, b.Name))
	})
	refused := ErrNoHeadroom
	for _, cell := range cells {
		if !cell.Open || cell.Internal != s.Internal || cell.Load+s.Load > cell.Limit() {
			continue
		}
		e := Entry{
			Tenant: s.Tenant, Cell: cell.Name, State: Placing, Size: s.Size, Load: s.Load,
			Internal: s.Internal, Topology: cell.Topology,
		}
		t := taking{room: &cell}
		err := d.fit(ctx, s, c, &e, &t)
		switch {
		case unfit(err):
			refused = err // others may have room, or what this one lacks
			continue
		case err != nil:
			return Entry{}, taking{}, err
		}
		return e, t, nil
	}
	return Entry{}, taking{}, refused
}

// unfit says whether an error means that a cell cannot take the tenant, as it is.
func unfit(err error) bool {
	for _, is := range []error{ErrNoHeadroom, ErrNoSlot, ErrUnknownTopology, ErrInvalid} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// fit gives the entry its slot and pins in the cell that was chosen.
func (d *Directory) fit(ctx context.Context, s SignUp, c Change, e *Entry, t *taking) error {
	if e.Topology == 0 {
		if s.Stateful {
			return fmt.Errorf("cell %q, topology 0: %w", e.Cell, ErrUnknownTopology)
		}
		return nil
	}
	topology, err := d.known(ctx, e.Cell, e.Topology)
	if err != nil {
		return err
	}
	if err := topology.fits(*e); err != nil {
		return err
	}
	if topology.Slots > 0 {
		if e.Slot, t.slot, err = d.findSlot(ctx, topology, c.At); err != nil {
			return err
		}
	}
	if s.Stateful {
		e.Pins, err = roomiest(*t.room, topology, topology.KBySize[s.Size], s.Load)
	}
	return err
}

// roomiest returns the k shards with the most headroom left after adding the tenant's share.
func roomiest(cell Cell, t Topology, k int, load Rate) ([]string, error) {
	share := Entry{Load: load, Pins: make([]string, k)}.pinLoad()
	var shards []string
	for _, s := range t.Shards {
		if s.State == InUse && cell.Pinned[s.ID]+share <= cell.limit(cell.ShardCapacity) {
			shards = append(shards, s.ID)
		}
	}
	if len(shards) < k {
		return nil, fmt.Errorf("cell %q has %d shards with headroom for a tenant that needs %d: %w", cell.Name, len(shards), k, ErrNoHeadroom)
	}
	slices.SortFunc(shards, func(a, b string) int {
		return cmp.Or(cmp.Compare(cell.Pinned[a], cell.Pinned[b]), cmp.Compare(a, b))
	})
	return shards[:k], nil
}
