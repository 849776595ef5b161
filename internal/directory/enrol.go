package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Enrolled is what became of entries that were to be enrolled.
type Enrolled struct {
	Created int     // written now
	Present int     // there already, as given
	Differ  []Entry // there already, otherwise, and left alone; as given
}

// Enrol creates many entries under one operation id, as Create does but many to a batch. Tenants who are
// there already are left alone. With an error, some may be created; repeating it is safe.
func (d *Directory) Enrol(ctx context.Context, entries []Entry, c Change) (Enrolled, error) {
	var sum Enrolled
	for len(entries) > 0 {
		b, n, err := d.bundle(ctx, entries, c)
		if err != nil {
			return sum, err
		}
		err = d.write(ctx, b)
		conflict := (*Conflict)(nil)
		switch {
		case err == nil:
			sum.Created += n
		case !errors.As(err, &conflict):
			return sum, fmt.Errorf("enrol %d tenants from %q on: %w", n, entries[0].Tenant, err)
		default: // somebody is there, or a cell is not: one by one
			for _, e := range entries[:n] {
				if err := d.enrol(ctx, e, c, &sum); err != nil {
					return sum, err
				}
			}
		}
		entries = entries[n:]
	}
	return sum, nil
}

// bundle is the batch that creates the first n of the entries, as many as go into one.
func (d *Directory) bundle(ctx context.Context, entries []Entry, c Change) (b Batch, n int, err error) {
	b.Operation = c.Operation
	at := map[Key]int{}
	for _, e := range entries {
		e.Epoch, e.Operation, e.Updated = 1, c.Operation, c.At.UTC()
		if e.Created.IsZero() {
			e.Created = e.Updated
		}
		single, err := plan(Entry{}, e, c, taking{})
		if err == nil {
			err = d.fits(ctx, e)
		}
		if err != nil {
			return Batch{}, 0, fmt.Errorf("enrol tenant %q: %w", e.Tenant, err)
		}
		if n > 0 && (len(b.Ops)+len(single.Ops) > MaxOps || b.crowded(single)) {
			break
		}
		if _, twice := at[entryKey(e.Tenant)]; twice {
			break // the second comes too late, by itself
		}
		for _, op := range single.Ops {
			if i, shared := at[op.Key]; shared {
				b.Ops[i].Deltas = addDeltas(b.Ops[i].Deltas, op.Deltas)
				continue
			}
			at[op.Key] = len(b.Ops)
			b.Ops = append(b.Ops, op)
		}
		n++
	}
	return b, n, nil
}

// crowded says whether adding a batch, as bundle does, would move too many counters of one record.
func (b Batch) crowded(more Batch) bool {
	for _, op := range more.Ops {
		i := slices.IndexFunc(b.Ops, func(o Op) bool { return o.Key == op.Key })
		if i >= 0 && len(addDeltas(slices.Clone(b.Ops[i].Deltas), op.Deltas)) > MaxDeltas {
			return true
		}
	}
	return false
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

func (d *Directory) enrol(ctx context.Context, e Entry, c Change, sum *Enrolled) error {
	_, err := d.Create(ctx, e, c)
	if err == nil { // now, or in an earlier attempt under this operation id
		sum.Created++
		return nil
	}
	if !errors.Is(err, ErrExists) {
		return err
	}
	now, err := d.Get(ctx, e.Tenant)
	if err != nil {
		return err
	}
	if now.says(e) {
		sum.Present++
	} else {
		sum.Differ = append(sum.Differ, e.Clone())
	}
	return nil
}

// says whether two entries are alike in all that an import gives.
func (e Entry) says(o Entry) bool {
	o.Epoch, o.Created, o.Updated, o.Operation = e.Epoch, e.Created, e.Updated, e.Operation
	return e.equal(o)
}
