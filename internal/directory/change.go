package directory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Change says who changes something, when and why. Operation is new for each change and the same for its
// repetitions.
type Change struct {
	Operation string    // 1 to 128 bytes of UTF-8
	By        string    // who, 1 to 128 bytes of UTF-8
	Why       string    // up to 1,024 bytes of UTF-8
	At        time.Time // when it was asked for
}

func (c Change) check() error {
	switch {
	case !validOperation(c.Operation):
		return fmt.Errorf("%w: operation id: want 1 to %d bytes of UTF-8, so that a repeated change is recognised", ErrInvalid, maxOperation)
	case c.By == "" || len(c.By) > maxBy || !utf8.ValidString(c.By):
		return fmt.Errorf("%w: who makes the change: want 1 to %d bytes of UTF-8", ErrInvalid, maxBy)
	case len(c.Why) > maxWhy || !utf8.ValidString(c.Why):
		return fmt.Errorf("%w: the reason: want at most %d bytes of UTF-8", ErrInvalid, maxWhy)
	}
	return nil
}

// Errors of changes beside those of Store. They come wrapped.
var (
	// ErrState means that the diagram of State has no such arrow.
	ErrState = errors.New("the tenant's state does not allow it")
	// ErrReused means that the operation id stands for another change already.
	ErrReused = errors.New("the operation id was used for another change")
)

// Logged is one line of a tenant's history.
type Logged struct {
	By     string `json:"by"`
	Why    string `json:"why,omitempty"`
	Before *Entry `json:"before,omitempty"` // nil for the first
	After  Entry  `json:"after"`            // has when (Updated) and the operation
}

// Create writes the first entry of a tenant, with epoch 1: by one request, or after one that reads its slot when
// it takes one. ErrExists when there is an entry, unless this operation wrote it. The cell must be known, and when
// the topology is not 0 it must be live and have the size class, the pins and the slot; ErrSlotTaken when that is
// another's or rests. The load is added to the cell's, without regard to headroom: SignUp is for those who look for
// room. No shard is told: Residence.Enrol does that.
func (d *Directory) Create(ctx context.Context, e Entry, c Change) (Entry, error) {
	t, err := d.slotFor(ctx, Entry{}, e, c.At)
	if err != nil {
		return Entry{}, err
	}
	return d.replace(ctx, Entry{}, e, c, t)
}

// Replace changes the entry before, as it was read, into after, with the next epoch: by one request, or after one
// that reads the slot when it takes another. ErrStale when before stands no longer, unless this operation replaced
// it; ErrReused when the operation changed the tenant otherwise, at any time. No shard is told: Residence.Settle
// does that.
func (d *Directory) Replace(ctx context.Context, before, after Entry, c Change) (Entry, error) {
	if before.Epoch == 0 {
		return Entry{}, fmt.Errorf("change tenant %q: %w: the entry before was never read", after.Tenant, ErrInvalid)
	}
	t, err := d.slotFor(ctx, before, after, c.At)
	if err != nil {
		return Entry{}, err
	}
	return d.replace(ctx, before, after, c, t)
}

// taking is what a change takes on conditions that were read before.
type taking struct {
	room *Cell  // the cell that must be as it was read and have room; nil: it need only exist
	slot uint64 // version of the record of the slot that is taken
}

// draft is the entry that a change would write, and the batch that would do it, with all checked that can be
// without asking what stands.
func (d *Directory) draft(ctx context.Context, before, after Entry, c Change, t taking) (Entry, Batch, error) {
	after = after.Clone()
	after.Epoch, after.Operation, after.Updated = before.Epoch+1, c.Operation, c.At.UTC()
	if before.Epoch > 0 {
		after.Created = before.Created
	} else if after.Created.IsZero() {
		after.Created = after.Updated
	}
	b, err := plan(before, after, c, t)
	if err == nil {
		err = d.fits(ctx, after)
	}
	if err != nil {
		return Entry{}, Batch{}, fmt.Errorf("change tenant %q: %w", after.Tenant, err)
	}
	return after, b, nil
}

// replace is Create when before is the zero Entry.
func (d *Directory) replace(ctx context.Context, before, after Entry, c Change, t taking) (Entry, error) {
	after, b, err := d.draft(ctx, before, after, c, t)
	if err != nil {
		return Entry{}, err
	}
	err = d.write(ctx, b)
	var conflict *Conflict
	if !errors.As(err, &conflict) {
		if err != nil {
			return Entry{}, fmt.Errorf("change tenant %q: %w", after.Tenant, err)
		}
		return after, nil
	}
	stands, err := d.judge(ctx, before, after, c, b, conflict)
	if err != nil {
		return Entry{}, fmt.Errorf("change tenant %q: %w", after.Tenant, err)
	}
	return stands, nil
}

// plan is the batch of a change: the entry, its line in the history, and what must hold beside them.
func plan(before, after Entry, c Change, t taking) (Batch, error) {
	if err := c.check(); err != nil {
		return Batch{}, err
	}
	if err := Check(after); err != nil {
		return Batch{}, err
	}
	switch {
	case before.Epoch > 0 && before.Tenant != after.Tenant:
		return Batch{}, fmt.Errorf("%w: the entry before is tenant %q's", ErrInvalid, before.Tenant)
	case before.Epoch == math.MaxUint64-1:
		return Batch{}, fmt.Errorf("%w: no epoch is left", ErrInvalid)
	case !Step(before.State, after.State):
		return Batch{}, fmt.Errorf("%w: %s", ErrState, wrongStep(before.State, after.State))
	case givesSlot(before, after) && c.At.IsZero():
		return Batch{}, fmt.Errorf("%w: a change that gives a slot back says when, since the slot rests from then on", ErrInvalid)
	case before.Epoch > 0 && before.Cell != after.Cell && before.State != Moving:
		return Batch{}, fmt.Errorf("%w: it is %s, and a tenant changes its cell from %s to %s only", ErrState, before.State, Moving, Active)
	}
	line := encode(Logged{By: c.By, Why: c.Why, After: after})
	ops := []Op{
		Put(entryKey(after.Tenant), before.Epoch, encode(after), byCell(after.Cell), byState(after.State)),
		Put(logKey(after.Tenant, after.Epoch), 0, line, byOperator(c.By)),
	}
	if before.Epoch > 0 { // a creation is known by the first line of the history
		ops = append(ops, Put(doneKey(tenantPart+after.Tenant, c.Operation), 0, encode(doneAt{after.Epoch})))
	}
	ops = append(ops, cellOps(before, after, t.room)...)
	ops = append(ops, topologyOps(before, after)...)
	ops = append(ops, slotOps(before, after, c.At, t.slot)...)
	return Batch{c.Operation, ops}, nil
}

func wrongStep(from, to State) string {
	if from == "" {
		return fmt.Sprintf("a new tenant cannot be %s, only %s, %s or %s", to, Placing, Active, Suspended)
	}
	return fmt.Sprintf("it is %s and cannot become %s, only %v", from, to, steps[from])
}

// besides tells what it means that a condition beside the tenant's own records does not hold.
func besides(have Record, op Op) error {
	cell, number, _ := strings.Cut(strings.TrimPrefix(op.Part, cellPart)+op.Sort, "#")
	switch family := op.Family(); {
	case family == famCell && have.Version == 0:
		return fmt.Errorf("cell %q: %w", number, ErrUnknownCell)
	case family == famCell:
		return fmt.Errorf("cell %q: %w", number, errMoved)
	case family == famTopology && have.Version == 0:
		return fmt.Errorf("cell %q, topology %s: %w", strings.TrimSuffix(cell, famTopology), strings.TrimLeft(number, "0"), ErrUnknownTopology)
	case family == famTopology:
		return fmt.Errorf("cell %q, topology %s: %w", strings.TrimSuffix(cell, famTopology), strings.TrimLeft(number, "0"), ErrRetired)
	case family == famSlot:
		return fmt.Errorf("cell %q, slot %s: %w", strings.TrimSuffix(cell, famSlot), strings.TrimLeft(number, "0"), ErrSlotTaken)
	}
	return fmt.Errorf("%v has version %d", op.Key, have.Version)
}

// History returns up to limit changes of a tenant with epochs above after, oldest first.
func (d *Directory) History(ctx context.Context, tenant string, after uint64, limit int) ([]Logged, error) {
	if !ValidTenant(tenant) {
		return nil, fmt.Errorf("tenant %q: %w", tenant, ErrNotFound)
	}
	if limit < 1 {
		return nil, fmt.Errorf("history of tenant %q: limit %d: want at least 1", tenant, limit)
	}
	from, more := Key{}, 0
	if after > 0 { // one more in front, which is the first one's before
		from, more = logKey(tenant, after-1), 1
	}
	records, err := d.home.List(ctx, Range{Family: famLog, Part: tenantPart + tenant}, from, limit+more)
	if err != nil {
		return nil, fmt.Errorf("history of tenant %q: %w", tenant, err)
	}
	lines := make([]Logged, len(records))
	for i, r := range records {
		if err := decode(r, &lines[i]); err != nil {
			return nil, err
		}
		if i > 0 {
			before := lines[i-1].After.Clone()
			lines[i].Before = &before
		}
	}
	if more > 0 && len(lines) > 0 && lines[0].After.Epoch <= after {
		lines = lines[1:]
	}
	return slices.Clip(lines[:min(limit, len(lines))]), nil
}

// Store is the directory as a Store, whose changes the history has under the name by. Operation and time
// of a change are those of the entry that is given.
func (d *Directory) Store(by string) Store { return store{d, by} }

type store struct {
	*Directory
	by string
}

func (s store) change(e Entry) Change { return Change{Operation: e.Operation, By: s.by, At: e.Updated} }

// Create implements Store.
func (s store) Create(ctx context.Context, e Entry) (Entry, error) {
	return s.Directory.Create(ctx, e, s.change(e))
}

// CompareAndSet implements Store. It reads the entry that it replaces, and so takes one request more than Replace.
func (s store) CompareAndSet(ctx context.Context, expect uint64, e Entry) (Entry, error) {
	if err := Check(e); err != nil {
		return Entry{}, err
	}
	before, err := s.Get(ctx, e.Tenant)
	switch {
	case err != nil:
		return Entry{}, err
	case before.Epoch != expect:
		// Too late, unless it is a repetition: then the history has it.
		return s.repeated(ctx, expect, before.Epoch, e)
	}
	return s.Replace(ctx, before, e, s.change(e))
}

// repeated looks a change up in the history that can no longer be made.
func (s store) repeated(ctx context.Context, expect, found uint64, e Entry) (Entry, error) {
	stale := fmt.Errorf("change tenant %q: expected epoch %d, found %d: %w", e.Tenant, expect, found, ErrStale)
	if expect == 0 || expect >= found {
		return Entry{}, stale
	}
	r, err := s.read(ctx, Strong, logKey(e.Tenant, expect+1))
	if err != nil {
		return Entry{}, fmt.Errorf("change tenant %q: %w", e.Tenant, err)
	}
	var line Logged
	if r.Version == 0 || r.Operation != e.Operation {
		return Entry{}, stale
	}
	if err := decode(r, &line); err != nil {
		return Entry{}, err
	}
	e.Epoch = expect + 1
	if !e.wrote(line.After) {
		return Entry{}, fmt.Errorf("%w: %w", ErrReused, stale)
	}
	return line.After, nil
}
