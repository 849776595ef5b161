package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Enrolled is what became of entries that were to be enrolled.
type Enrolled struct {
	Created int     // written now
	Present int     // there already, as given
	Differ  []Entry // there already, otherwise, and left alone; as given
}

// Enrol creates many entries under one operation id, as Create does but many to a batch. Tenants who are
// there already are left alone, also those whom this operation created: what stands counts. What can be
// checked is checked for all, by one read, before anything is written. With an error, some may be created;
// repeating it is safe.
func (d *Directory) Enrol(ctx context.Context, entries []Entry, c Change) (Enrolled, error) {
	come, done, err := d.arrivals(ctx, entries, c)
	if err != nil {
		return Enrolled{}, err
	}
	late, err := d.create(ctx, come, c, &done)
	done.Differ = append(done.Differ, late...)
	return done, err
}

// Enrol is Directory.Enrol after every shard of their subsets holds the tenants who come.
func (r *Residence) Enrol(ctx context.Context, entries []Entry, c Change) (Enrolled, error) {
	come, done, err := r.arrivals(ctx, entries, c)
	if err != nil {
		return Enrolled{}, err
	}
	if err := r.holdAll(ctx, come); err != nil {
		return Enrolled{}, err
	}
	late, err := r.create(ctx, come, c, &done)
	for _, e := range late { // another was first, and they are held in vain
		at, heldErr := r.held(ctx, e)
		if heldErr == nil {
			heldErr = r.vain(ctx, e, at)
		}
		err = errors.Join(err, heldErr)
	}
	done.Differ = append(done.Differ, late...)
	return done, err
}

// arrival is an entry that is to be created, with the batch that does it.
type arrival struct {
	Entry
	taking
	ops []Op
}

// arrivals checks entries, and parts those who come from those who are there, by one strong read of all
// entries, and of the slots and topologies that they name.
func (d *Directory) arrivals(ctx context.Context, entries []Entry, c Change) ([]arrival, Enrolled, error) {
	fail := func(e Entry, err error) ([]arrival, Enrolled, error) {
		return nil, Enrolled{}, fmt.Errorf("enrol tenant %q: %w", e.Tenant, err)
	}
	if len(entries) == 0 {
		return nil, Enrolled{}, nil
	}
	come := make([]arrival, len(entries))
	keys := make([]Key, len(entries), 2*len(entries))
	more := map[Key]int{} // of slots and topologies, by their place among the keys
	for i, e := range entries {
		e, b, err := d.draft(ctx, Entry{}, e, c, taking{})
		if err != nil {
			return fail(entries[i], err)
		}
		come[i], keys[i] = arrival{Entry: e, ops: b.Ops}, entryKey(e.Tenant)
		for _, k := range e.dependsOn() {
			if _, twice := more[k]; !twice {
				more[k] = len(keys)
				keys = append(keys, k)
			}
		}
	}
	records, err := d.home.Read(ctx, Strong, keys...)
	if err != nil {
		return fail(entries[0], err)
	}
	done, new, slots := Enrolled{}, come[:0], map[Key]string{}
	for i, a := range come {
		if r := records[i]; r.Version > 0 {
			now, err := decodeEntry(r)
			if err != nil {
				return fail(a.Entry, err)
			}
			done.count(now, a.Entry, 0)
			continue
		}
		for _, k := range a.dependsOn() {
			r := records[more[k]]
			if k.Family() == famTopology {
				if err := live(r); err != nil {
					return fail(a.Entry, err)
				}
				continue
			}
			if other, twice := slots[k]; twice && other != a.Tenant {
				return fail(a.Entry, fmt.Errorf("tenant %q is to have it, too: %w", other, besides(r, Op{Key: k})))
			}
			slots[k] = a.Tenant
			if a.slot, err = vacant(r, a.Tenant, c.At); err != nil {
				return fail(a.Entry, err)
			}
		}
		if a.slot > 0 { // it was used before
			b, err := plan(Entry{}, a.Entry, c, a.taking)
			if err != nil {
				return fail(a.Entry, err)
			}
			a.ops = b.Ops
		}
		new = append(new, a)
	}
	return new, done, nil
}

// dependsOn is the records that must be right for the entry to be created, beside its cell's.
func (e Entry) dependsOn() []Key {
	var keys []Key
	if e.Topology > 0 {
		keys = append(keys, topologyKey(e.Cell, e.Topology))
	}
	if e.Slot > 0 {
		keys = append(keys, slotKey(e.Cell, e.Slot))
	}
	return keys
}

// count counts one who is there. own counts as created when it is as given.
func (s *Enrolled) count(now, given Entry, own int) (differs bool) {
	switch {
	case !now.says(given):
		s.Differ = append(s.Differ, given.Clone())
		return true
	case own > 0:
		s.Created++
	default:
		s.Present++
	}
	return false
}

// create writes those who come, and returns those who are there otherwise by now.
func (d *Directory) create(ctx context.Context, come []arrival, c Change, sum *Enrolled) (differ []Entry, err error) {
	for len(come) > 0 {
		b, n := bundle(come, c)
		err := d.write(ctx, b)
		conflict := (*Conflict)(nil)
		switch {
		case err == nil:
			sum.Created += n
		case !errors.As(err, &conflict):
			return differ, fmt.Errorf("enrol %d tenants from %q on: %w", n, come[0].Tenant, err)
		default: // somebody is there, or a cell is not: one by one
			for _, a := range come[:n] {
				differs, err := d.createOne(ctx, a, c, sum)
				if err != nil {
					return differ, err
				}
				if differs {
					differ = append(differ, a.Entry)
				}
			}
		}
		come = come[n:]
	}
	return differ, nil
}

// createOne creates one, or counts what stands. An entry of this operation is one whose answer was lost.
func (d *Directory) createOne(ctx context.Context, a arrival, c Change, sum *Enrolled) (differs bool, err error) {
	now, err := d.Get(ctx, a.Tenant)
	if errors.Is(err, ErrNotFound) {
		if now, err = d.replace(ctx, Entry{}, a.Entry, c, a.taking); errors.Is(err, ErrExists) {
			now, err = d.Get(ctx, a.Tenant)
		}
	}
	if err != nil {
		return false, fmt.Errorf("enrol tenant %q: %w", a.Tenant, err)
	}
	own := 0
	if now.Operation == c.Operation {
		own = 1
	}
	if now.says(a.Entry) {
		return sum.count(now, a.Entry, own), nil
	}
	return true, nil
}

// bundle is the batch that creates the first n of those who come, as many as go into one.
func bundle(come []arrival, c Change) (b Batch, n int) {
	b.Operation = c.Operation
	at := map[Key]int{}
	for _, a := range come {
		if n > 0 && !b.takes(a.ops, at) {
			break
		}
		for _, op := range a.ops {
			if i, shared := at[op.Key]; shared {
				b.Ops[i].Deltas = addDeltas(b.Ops[i].Deltas, op.Deltas)
				continue
			}
			at[op.Key] = len(b.Ops)
			b.Ops = append(b.Ops, op)
		}
		n++
	}
	return b, n
}

// takes says whether operations can join a batch whose records stand at these places. Only what moves counters
// under one condition is added up: two that write one record are two batches, of which the second is refused.
func (b Batch) takes(more []Op, at map[Key]int) bool {
	if len(b.Ops)+len(more) > MaxOps {
		return false
	}
	for _, op := range more {
		i, shared := at[op.Key]
		if !shared {
			continue
		}
		have := b.Ops[i]
		if have.Put || op.Put || have.Expect != op.Expect || len(addDeltas(slices.Clone(have.Deltas), op.Deltas)) > MaxDeltas {
			return false
		}
	}
	return true
}

// addDeltas adds moves up, all of which have the bounds of cellOps without room, or of topologyOps.
func addDeltas(a, b []Delta) []Delta {
	for _, d := range b {
		i := slices.IndexFunc(a, func(x Delta) bool { return x.Counter == d.Counter })
		if i < 0 {
			a = append(a, d)
			continue
		}
		a[i].By += d.By // MaxOps loads of MaxRate are far from the end of int64
	}
	return a
}

// says whether two entries are alike in all that an import gives.
func (e Entry) says(o Entry) bool {
	o.Epoch, o.Created, o.Updated, o.Operation = e.Epoch, e.Created, e.Updated, e.Operation
	return e.equal(o)
}

// holdAll has the shards hold tenants who are to come, those of one shard at once where the holder can.
func (r *Residence) holdAll(ctx context.Context, come []arrival) error {
	byPlace := map[place][]Holding{}
	many, atOnce := r.holder.(ManyHolder)
	for _, e := range come {
		at, err := r.held(ctx, e.Entry)
		if err == nil && !atOnce {
			err = r.hold(ctx, at, Holding{e.Tenant, e.Epoch})
		}
		if err != nil {
			return fmt.Errorf("enrol tenant %q: %w", e.Tenant, err)
		}
		for _, p := range at {
			byPlace[p] = append(byPlace[p], Holding{e.Tenant, e.Epoch})
		}
	}
	if !atOnce {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxHoldMany)
	for p, holdings := range byPlace {
		g.Go(func() error {
			if err := many.HoldMany(ctx, p.cell, p.shard, holdings); err != nil {
				return fmt.Errorf("enrol: have shard %s/%s hold %d tenants: %w", p.cell, p.shard, len(holdings), err)
			}
			return nil
		})
	}
	return g.Wait()
}
