package directory

import (
	"context"
	"fmt"
)

// A change of a tenant who is there, or of a cell, puts a record under its operation id, which must not be
// there yet, in the batch that makes it. So it happens once, on whichever way it is repeated and whatever
// others did since, and its repetition finds which line of the history is its own.

func doneKey(part, operation string) Key { return Key{part, famDone + "#" + operation} }

// doneAt is the record of an operation that changed a tenant.
type doneAt struct {
	Epoch uint64 `json:"epoch"` // that it gave the entry
}

func errReused(operation string, epoch uint64) error {
	return fmt.Errorf("%w (%q), which gave the tenant epoch %d", ErrReused, operation, epoch)
}

// judge tells what a conflict means. What this operation left in the history is looked at first: the conflict
// may be with our own success, whatever happened to the tenant since.
func (d *Directory) judge(ctx context.Context, before, after Entry, c Change, b Batch, conflict *Conflict) (Entry, error) {
	current, moved := conflict.find(0)
	line, _ := conflict.find(1)
	done := Record{}
	if before.Epoch > 0 {
		done, _ = conflict.find(2)
	}
	if line.Version == 0 && (moved || done.Version > 0) { // the change's own records may stand, and not be named
		records, err := d.home.Read(ctx, Strong, logKey(after.Tenant, after.Epoch), doneKey(tenantPart+after.Tenant, c.Operation))
		if err != nil {
			return Entry{}, err
		}
		line, done = records[0], records[1]
	}
	var lost error
	switch {
	case moved && before.Epoch == 0:
		lost = ErrExists
	case moved && current.Version == 0:
		lost = ErrNotFound
	case moved:
		lost = fmt.Errorf("expected epoch %d, found %d: %w", before.Epoch, current.Version, ErrStale)
	}
	reused := func(epoch uint64) error {
		if lost == nil {
			return errReused(c.Operation, epoch)
		}
		return fmt.Errorf("%w: %w", errReused(c.Operation, epoch), lost)
	}
	if line.Version > 0 && line.Operation == c.Operation {
		var own Logged
		if err := decode(line, &own); err != nil {
			return Entry{}, err
		}
		if after.wrote(own.After) && own.By == c.By {
			return own.After, nil
		}
		return Entry{}, reused(after.Epoch)
	}
	if done.Version > 0 && before.Epoch > 0 {
		var at doneAt
		if err := decode(done, &at); err != nil {
			return Entry{}, err
		}
		return Entry{}, reused(at.Epoch)
	}
	if lost != nil {
		return Entry{}, lost
	}
	f := conflict.Failed[0]
	return Entry{}, besides(f.Have, b.Ops[f.Op])
}

// standing is a tenant's entry, and the line of the history that the operation wrote when it changed or
// created the tenant before; nil when it did not.
func (d *Directory) standing(ctx context.Context, tenant string, c Change) (Entry, *Logged, error) {
	if !ValidTenant(tenant) {
		return Entry{}, nil, ErrNotFound
	}
	records, err := d.home.Read(ctx, Strong, entryKey(tenant), doneKey(tenantPart+tenant, c.Operation), logKey(tenant, 1))
	if err != nil {
		return Entry{}, nil, err
	}
	if records[0].Version == 0 {
		return Entry{}, nil, ErrNotFound
	}
	now, err := decodeEntry(records[0])
	if err != nil {
		return Entry{}, nil, err
	}
	at := doneAt{Epoch: 1}
	switch {
	case records[1].Version > 0:
		if err := decode(records[1], &at); err != nil {
			return Entry{}, nil, err
		}
	case records[2].Operation != c.Operation:
		return now, nil, nil
	}
	lines, err := d.History(ctx, tenant, at.Epoch-1, 1)
	if err != nil {
		return Entry{}, nil, err
	}
	if len(lines) == 0 || lines[0].After.Epoch != at.Epoch || lines[0].After.Operation != c.Operation {
		return Entry{}, nil, fmt.Errorf("the directory's history of tenant %q lacks operation %q at epoch %d", tenant, c.Operation, at.Epoch)
	}
	return now, &lines[0], nil
}
