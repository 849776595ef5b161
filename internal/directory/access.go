package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Access is the record that somebody read or changed something of a tenant, or listed tenants, by hand.
type Access struct {
	Tenant    string    `json:"tenant,omitempty"` // "" of a listing
	By        string    `json:"by"`
	What      string    `json:"what"` // for example "tenant show"
	Why       string    `json:"why,omitempty"`
	At        time.Time `json:"at"` // UTC
	Operation string    `json:"operation"`
}

const timeKey = "20060102T150405.000000000Z" // as text in the order of time

func accessKey(a Access) Key {
	part := tenantPart + a.Tenant
	if a.Tenant == "" {
		part = operatorPart + a.By
	}
	return Key{part, famAccess + "#" + a.At.UTC().Format(timeKey) + "#" + a.Operation}
}

// NoteAccess keeps the record that c.By did what to the tenant by hand; whether the tenant exists does
// not matter. Changes are in the history by themselves; note reads.
func (d *Directory) NoteAccess(ctx context.Context, tenant, what string, c Change) error {
	err := error(nil)
	if !ValidTenant(tenant) {
		err = fmt.Errorf("%w: a tenant id is 1 to %d bytes of UTF-8", ErrInvalid, maxTenant)
	} else {
		err = d.noteAccess(ctx, tenant, what, c)
	}
	if err != nil {
		return fmt.Errorf("note who used tenant %q: %w", tenant, err)
	}
	return nil
}

// NoteListing keeps the record that c.By listed tenants by hand: one for the listing, which what names, and
// not one for each of its tenants, who may be a million. DoneBy returns it.
func (d *Directory) NoteListing(ctx context.Context, what string, c Change) error {
	if err := d.noteAccess(ctx, "", what, c); err != nil {
		return fmt.Errorf("note who listed tenants: %w", err)
	}
	return nil
}

func (d *Directory) noteAccess(ctx context.Context, tenant, what string, c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	if what == "" || len(what) > maxWhy || !utf8.ValidString(what) {
		return fmt.Errorf("%w: what was done: want 1 to %d bytes of UTF-8", ErrInvalid, maxWhy)
	}
	a := Access{tenant, c.By, what, c.Why, c.At.UTC(), c.Operation}
	err := d.write(ctx, Batch{c.Operation, []Op{Put(accessKey(a), 0, encode(a), byOperator(c.By))}})
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		return nil // noted before: the key names time and operation
	}
	return err
}

// Accesses returns up to limit accesses to a tenant by hand, oldest first, from the time after on.
func (d *Directory) Accesses(ctx context.Context, tenant string, after time.Time, limit int) ([]Access, error) {
	from := Key{tenantPart + tenant, famAccess + "#" + after.UTC().Format(timeKey)}
	return d.accesses(ctx, Range{Family: famAccess, Part: tenantPart + tenant}, from, limit)
}

// Mark is a place in what an operator did. The zero Mark is the beginning.
type Mark struct{ access, change Key }

// Done is what an operator did by hand: accesses noted, and changes of tenants and cells.
type Done struct {
	Accesses []Access
	Changes  []Logged     // without Before
	Cells    []LoggedCell //
}

// DoneBy returns up to limit accesses and limit changes by an operator, after the mark, in no
// particular order, and the mark that continues. Nothing means the end. It may miss those of the last
// moments.
func (d *Directory) DoneBy(ctx context.Context, by string, after Mark, limit int) (Done, Mark, error) {
	fail := func(err error) (Done, Mark, error) { return Done{}, Mark{}, fmt.Errorf("what %q did: %w", by, err) }
	accesses, err := d.accesses(ctx, Range{Family: famAccess, Index: First, Value: byOperator(by)}, after.access, limit)
	if err != nil {
		return fail(err)
	}
	records, err := d.home.List(ctx, Range{Family: famLog, Index: First, Value: byOperator(by)}, after.change, limit)
	if err != nil {
		return fail(err)
	}
	done := Done{Accesses: accesses}
	if len(accesses) > 0 {
		after.access = accessKey(accesses[len(accesses)-1])
	}
	for _, r := range records {
		after.change = r.Key
		if strings.HasPrefix(r.Part, cellPart) {
			var line LoggedCell
			if err := decode(r, &line); err != nil {
				return fail(err)
			}
			done.Cells = append(done.Cells, line)
			continue
		}
		var line Logged
		if err := decode(r, &line); err != nil {
			return fail(err)
		}
		done.Changes = append(done.Changes, line)
	}
	slices.SortStableFunc(done.Accesses, func(a, b Access) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return done, after, nil
}

func (d *Directory) accesses(ctx context.Context, r Range, from Key, limit int) ([]Access, error) {
	records, err := d.home.List(ctx, r, from, limit)
	if err != nil {
		return nil, err
	}
	accesses := make([]Access, len(records))
	for i, rec := range records {
		if err := decode(rec, &accesses[i]); err != nil {
			return nil, err
		}
	}
	return accesses, nil
}
