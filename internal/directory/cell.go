package directory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// DefaultHeadroom is the share of a cell's capacity that sign-ups leave free, in per cent, so that
// tenants who are there can grow.
const DefaultHeadroom = 30

// Cell is what the directory knows of one cell. A stamped cell is closed until OpenCell.
type Cell struct {
	Name          string    `json:"name"`                    // 1 to 16 bytes
	Internal      bool      `json:"internal,omitempty"`      // for internal tenants only
	Zones         []string  `json:"zones,omitempty"`         // that shards of its topologies may lie in; grows at its end
	Open          bool      `json:"open"`                    // takes new tenants
	Capacity      Rate      `json:"capacity"`                // that a load test measured for the whole cell
	ShardCapacity Rate      `json:"shardCapacity,omitempty"` // that a load test measured for one shard; needed where tenants are pinned for their state
	Headroom      int       `json:"headroom"`                // per cent of the capacities that is kept free, 0 to 90
	Topology      uint64    `json:"topology,omitempty"`      // version that new tenants get; 0 until one is published
	Drained       []Drain   `json:"drained,omitempty"`       // shards that routers are to choose last, by id
	Updated       time.Time `json:"updated"`                 // of the last change by hand
	Did           string    `json:"did,omitempty"`           // what that change was

	Load    Rate            `json:"-"` // reserved by its tenants
	Tenants int64           `json:"-"` // that live there, in any state
	Pinned  map[string]Rate `json:"-"` // reserved by pinned tenants, by shard
	version uint64
}

// Errors of cells. They come wrapped.
var (
	ErrUnknownCell = errors.New("the directory does not know this cell: add it first")
	ErrCellExists  = errors.New("the directory knows this cell already")
	ErrZones       = errors.New("zones of a cell are neither taken away nor put in another order")
	errMoved       = errors.New("the cell has no room or was changed meanwhile")
)

// Limit is what sign-ups may reserve of the capacity.
func (c Cell) Limit() Rate { return c.limit(c.Capacity) }

func (c Cell) limit(capacity Rate) Rate { return capacity * Rate(100-c.Headroom) / 100 }

// Counters of a cell's record.
const (
	loadCounter    = "load"    // thousandths of a request per second
	tenantsCounter = "tenants" //
	shardCounter   = "shard/"  // followed by the shard's id; thousandths of a request per second
)

func decodeCell(r Record) (Cell, error) {
	var c Cell
	if err := decode(r, &c); err != nil {
		return Cell{}, err
	}
	c.version, c.Load, c.Tenants = r.Version, Rate(r.Counters[loadCounter]), r.Counters[tenantsCounter]
	for name, value := range r.Counters {
		if len(name) > len(shardCounter) && name[:len(shardCounter)] == shardCounter && value > 0 {
			if c.Pinned == nil {
				c.Pinned = map[string]Rate{}
			}
			c.Pinned[name[len(shardCounter):]] = Rate(value)
		}
	}
	return c, nil
}

func (c Cell) check() error {
	switch {
	case !name(c.Name):
		return fmt.Errorf("%w: cell %q: want a name of 1 to %d characters", ErrInvalid, c.Name, maxName)
	case c.Headroom < 0 || c.Headroom > 90:
		return fmt.Errorf("%w: headroom %d %%: want 0 to 90", ErrInvalid, c.Headroom)
	case c.Capacity < 0 || c.Capacity > MaxRate || c.ShardCapacity < 0 || c.ShardCapacity > MaxRate:
		return fmt.Errorf("%w: capacity: want 0 to %v requests per second", ErrInvalid, MaxRate)
	case c.Open && c.Capacity == 0:
		return fmt.Errorf("%w: an open cell needs the capacity that a load test measured for it", ErrInvalid)
	}
	return nil
}

// Cell returns one cell with what is reserved on it, as of now. ErrUnknownCell when there is none.
func (d *Directory) Cell(ctx context.Context, name string) (Cell, error) {
	r, err := d.read(ctx, Strong, cellKey(name))
	switch {
	case err != nil:
		return Cell{}, fmt.Errorf("cell %q: %w", name, err)
	case r.Version == 0:
		return Cell{}, fmt.Errorf("cell %q: %w", name, ErrUnknownCell)
	}
	return decodeCell(r)
}

// Cells returns all cells in the order of their names.
func (d *Directory) Cells(ctx context.Context) ([]Cell, error) {
	const page = 1000
	var cells []Cell
	for after := (Key{}); ; {
		records, err := d.home.List(ctx, Range{Family: famCell, Part: cellsPart}, after, page)
		if err != nil {
			return nil, fmt.Errorf("list the cells: %w", err)
		}
		for _, r := range records {
			c, err := decodeCell(r)
			if err != nil {
				return nil, err
			}
			cells, after = append(cells, c), r.Key
		}
		if len(records) < page {
			return cells, nil
		}
	}
}

// AddCell makes a stamped cell known, closed. Name, Internal, Zones and Headroom are taken from cell.
// ErrCellExists unless this operation added it, at any time.
func (d *Directory) AddCell(ctx context.Context, cell Cell, c Change) (Cell, error) {
	cell = Cell{Name: cell.Name, Internal: cell.Internal, Zones: slices.Clone(cell.Zones), Headroom: cell.Headroom}
	if !name(cell.Name) {
		return Cell{}, cell.check()
	}
	if err := d.mark(ctx, c); err != nil {
		return Cell{}, fmt.Errorf("add cell %q: %w", cell.Name, err)
	}
	return d.changeCell(ctx, cell.Name, fmt.Sprintf("add, internal %t, zones %q, headroom %d %%", cell.Internal, cell.Zones, cell.Headroom), c, func(current Cell) (Cell, []Op, error) {
		if current.version > 0 {
			return Cell{}, nil, ErrCellExists
		}
		cell.Did = current.Did
		return cell, nil, nil
	})
}

// mark writes the format's number into an empty home.
func (d *Directory) mark(ctx context.Context, c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	r, err := d.read(ctx, Strong, formatKey)
	if err != nil || r.Version > 0 {
		return err
	}
	err = d.write(ctx, Batch{c.Operation, []Op{Put(formatKey, 0, encode(format{Format}))}})
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		return nil // another was first
	}
	return err
}

// ExtendZones makes zones the cell's, in which shards of its topologies may lie from then on. They are the
// ones that it has, in their order, with new ones behind: the networks of a cell are numbered by the
// positions of its zones. ErrZones otherwise, and nothing is written when there is no new one.
func (d *Directory) ExtendZones(ctx context.Context, name string, zones []string, c Change) (Cell, error) {
	now, err := d.Cell(ctx, name)
	if err != nil || slices.Equal(now.Zones, zones) {
		return now, err
	}
	zones = slices.Clone(zones)
	return d.changeCell(ctx, name, fmt.Sprintf("extend, zones %q", zones), c, func(cell Cell) (Cell, []Op, error) {
		if cell.version == 0 {
			return Cell{}, nil, ErrUnknownCell
		}
		if err := cell.extends(zones); err != nil {
			return Cell{}, nil, err
		}
		cell.Zones = zones
		return cell, nil, nil
	})
}

func (c Cell) extends(zones []string) error {
	if len(zones) < len(c.Zones) || !slices.Equal(zones[:len(c.Zones)], c.Zones) {
		return fmt.Errorf("%w: it has %q, and %q do not begin with them: put them back and write new ones behind", ErrZones, c.Zones, zones)
	}
	for i, zone := range zones[len(c.Zones):] {
		if zone == "" || slices.Contains(zones[:len(c.Zones)+i], zone) {
			return fmt.Errorf("%w: zones %q: want each named once", ErrInvalid, zones)
		}
	}
	return nil
}

// OpenCell lets a cell take new tenants, up to capacity less headroom per cent of it. The capacities are
// what a load test measured for the cell, and for one of its shards where tenants are pinned for their
// state.
func (d *Directory) OpenCell(ctx context.Context, name string, capacity, shardCapacity Rate, headroom int, c Change) (Cell, error) {
	did := fmt.Sprintf("open, capacity %v, of a shard %v, headroom %d %%", capacity, shardCapacity, headroom)
	return d.changeCell(ctx, name, did, c, func(cell Cell) (Cell, []Op, error) {
		if cell.version == 0 {
			return Cell{}, nil, ErrUnknownCell
		}
		cell.Open, cell.Capacity, cell.ShardCapacity, cell.Headroom = true, capacity, shardCapacity, headroom
		return cell, nil, nil
	})
}

// CloseCell keeps new tenants from a cell. Those who are there stay.
func (d *Directory) CloseCell(ctx context.Context, name string, c Change) (Cell, error) {
	return d.changeCell(ctx, name, "close", c, func(cell Cell) (Cell, []Op, error) {
		if cell.version == 0 {
			return Cell{}, nil, ErrUnknownCell
		}
		cell.Open = false
		return cell, nil, nil
	})
}

// LoggedCell is one line of a cell's history.
type LoggedCell struct {
	Operation string `json:"operation"`
	By        string `json:"by"`
	Why       string `json:"why,omitempty"`
	After     Cell   `json:"after"`
}

func cellLogKey(cell string, version uint64) Key {
	return Key{cellPart + cell, fmt.Sprintf("%s#%020d", famLog, version)}
}

// didCell is the record of an operation that changed a cell.
type didCell struct {
	Did     string `json:"did"`
	Version uint64 `json:"version"` // that it gave the cell
}

// didBefore is the record of an operation on a cell; one of version 0 when it has not changed the cell.
func (d *Directory) didBefore(ctx context.Context, cell, operation string) (didCell, error) {
	r, err := d.read(ctx, Strong, doneKey(cellPart+cell, operation))
	if err != nil || r.Version == 0 {
		return didCell{}, err
	}
	var done didCell
	err = decode(r, &done)
	return done, err
}

// changeCell edits a cell, again as long as others are faster. did says what the change is, as no other is;
// edit is given the cell, or one without a version when there is none, and returns what else must hold. It
// may word Did otherwise for people. When the operation did this before, the cell is returned as it left it,
// with what is reserved there now.
func (d *Directory) changeCell(ctx context.Context, name, did string, c Change, edit func(Cell) (Cell, []Op, error)) (Cell, error) {
	fail := func(err error) (Cell, error) { return Cell{}, fmt.Errorf("change cell %q: %w", name, err) }
	if err := c.check(); err != nil {
		return fail(err)
	}
	for {
		r, err := d.read(ctx, Strong, cellKey(name))
		if err != nil {
			return fail(err)
		}
		current := Cell{}
		if r.Version > 0 {
			if current, err = decodeCell(r); err != nil {
				return fail(err)
			}
		}
		// Read after the cell: when it is not there, no change of the operation is in that cell.
		done, err := d.didBefore(ctx, name, c.Operation)
		if err != nil {
			return fail(err)
		}
		if done.Version > 0 {
			if done.Did != did {
				return fail(fmt.Errorf("%w (%q): %s", ErrReused, c.Operation, done.Did))
			}
			left, err := d.cellAt(ctx, name, done.Version)
			if err != nil {
				return fail(err)
			}
			left.Load, left.Tenants, left.Pinned = current.Load, current.Tenants, current.Pinned
			return left, nil
		}
		current.Did = did
		after, more, err := edit(current)
		if err == nil {
			err = after.check()
		}
		if err != nil {
			return fail(err)
		}
		after.Updated, after.version = c.At.UTC(), r.Version+1
		err = d.write(ctx, Batch{c.Operation, append([]Op{
			Put(cellKey(name), r.Version, encode(after)),
			Put(cellLogKey(name, after.version), 0, encode(LoggedCell{c.Operation, c.By, c.Why, after}), byOperator(c.By)),
			Put(doneKey(cellPart+name, c.Operation), 0, encode(didCell{did, after.version})),
		}, more...)})
		conflict := (*Conflict)(nil)
		if !errors.As(err, &conflict) {
			if err != nil {
				return fail(err)
			}
			return after, nil
		}
		const own = 3 // the cell, its history and the operation: another was faster, or this very change
		if f := conflict.Failed[0]; f.Op >= own {
			return fail(besides(f.Have, more[f.Op-own]))
		}
	}
}

// cellAt is a cell as its history has it at a version.
func (d *Directory) cellAt(ctx context.Context, name string, version uint64) (Cell, error) {
	r, err := d.read(ctx, Strong, cellLogKey(name, version))
	if err != nil {
		return Cell{}, err
	}
	if r.Version == 0 {
		return Cell{}, fmt.Errorf("the directory's history of cell %q lacks version %d", name, version)
	}
	var line LoggedCell
	err = decode(r, &line)
	line.After.version = version
	return line.After, err
}

// CellHistory returns up to limit changes of a cell by hand with versions above after, oldest first.
func (d *Directory) CellHistory(ctx context.Context, name string, after uint64, limit int) ([]LoggedCell, error) {
	records, err := d.home.List(ctx, Range{Family: famLog, Part: cellPart + name}, cellLogKey(name, after), limit)
	if err != nil {
		return nil, fmt.Errorf("history of cell %q: %w", name, err)
	}
	lines := make([]LoggedCell, len(records))
	for i, r := range records {
		if err := decode(r, &lines[i]); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// reserved is what an entry takes of its cell's counters.
func reserved(e Entry) map[string]int64 {
	counters := map[string]int64{}
	if e.Epoch == 0 {
		return counters
	}
	counters[tenantsCounter], counters[loadCounter] = 1, int64(e.Load)
	for _, pin := range e.Pins {
		counters[shardCounter+pin] = int64(e.pinLoad())
	}
	return counters
}

// pinLoad is the load that a pinned tenant puts on each of its shards, rounded up.
func (e Entry) pinLoad() Rate {
	k := Rate(len(e.Pins))
	return (e.Load + k - 1) / k
}

// cellOps moves the counters of the cells of two entries. With room given, the cell of after must be as
// it was read, open, and stay within its limits.
func cellOps(before, after Entry, room *Cell) []Op {
	moves := map[string]map[string]int64{}
	add := func(e Entry, sign int64) {
		if moves[e.Cell] == nil {
			moves[e.Cell] = map[string]int64{}
		}
		for counter, by := range reserved(e) {
			moves[e.Cell][counter] += sign * by
		}
	}
	if before.Epoch > 0 {
		add(before, -1)
	}
	add(after, 1)
	var ops []Op
	for _, cell := range slices.Sorted(maps.Keys(moves)) {
		op := Require(cellKey(cell), AnyVersion)
		limit := func(string) Rate { return math.MaxInt64 }
		if room != nil && cell == after.Cell {
			op.Expect = room.version
			limit = func(counter string) Rate {
				switch counter {
				case tenantsCounter:
					return math.MaxInt64
				case loadCounter:
					return room.Limit()
				}
				return room.limit(room.ShardCapacity)
			}
		}
		for _, counter := range slices.Sorted(maps.Keys(moves[cell])) {
			by := moves[cell][counter]
			if by == 0 {
				continue
			}
			op.Deltas = append(op.Deltas, Delta{counter, by, 0, int64(limit(counter))})
		}
		if len(op.Deltas) > 0 || before.Epoch == 0 {
			ops = append(ops, op)
		}
	}
	return ops
}
