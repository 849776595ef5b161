package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Reconciling is what Reconcile goes through, and what it may do beside what is safe at any time.
type Reconciling struct {
	Cell   string
	Shards []string // those that may hold somebody; others are not asked, and tenants not held there
	// Touch rewrites the entry of a tenant whom a shard holds above it, unchanged but for the epoch, so that
	// the shard can let go. A change that is on its way loses to that, and is made again by whoever asked.
	Touch bool
	// Absent has shards forget tenants whom the directory does not have. An import that is on its way holds
	// tenants before it creates them, and would lose that: none may run.
	Absent bool
}

// Finding is one holding that is not as the directory says, or a shard that does not answer.
type Finding struct {
	What   Mismatch `json:"what"`
	Shard  string   `json:"shard"`
	Tenant string   `json:"tenant,omitempty"`
	Held   uint64   `json:"held,omitempty"`  // epoch at which the shard held the tenant
	Entry  uint64   `json:"entry,omitempty"` // epoch of the tenant's entry
	Done   bool     `json:"done"`            // the shard is in step now
	Err    error    `json:"-"`
}

// Mismatch is a kind of Finding.
type Mismatch string

const (
	Missing     Mismatch = "missing"     // in the subset, and not held; it is held at the entry's epoch
	Superfluous Mismatch = "superfluous" // held where the entry has left; it is let go
	Pending     Mismatch = "pending"     // held one epoch above the entry: by a change on its way, or one that ended half-way
	Ahead       Mismatch = "ahead"       // held, or let go, at a higher epoch than that: the directory is older than the shard
	Absent      Mismatch = "absent"      // the directory has no such tenant
	Unreachable Mismatch = "unreachable" // the shard does not answer; it is not asked again
)

// Reconciled counts what Reconcile went through and found.
type Reconciled struct {
	Holdings int              `json:"holdings"` // that shards have
	Tenants  int              `json:"tenants"`  // that the directory has in the cell
	Found    map[Mismatch]int `json:"found"`
	Left     int              `json:"left"` // findings of which the shard is not in step yet
}

// reconcilePage is how many holdings or tenants are looked at together.
const reconcilePage = 200

// Reconcile brings the shards of a cell in step with the directory, whatever ended half-way before: it goes
// through whom each shard holds, and then through who is in the cell. All that it does is safe while others
// change tenants, beside what Reconciling says, and may be repeated. report is told of each finding, and
// progress after each page, neither by two goroutines at once. An error ends it; a shard that does not answer
// is a finding.
func (r *Residence) Reconcile(ctx context.Context, o Reconciling, c Change, report func(Finding), progress func(Reconciled)) (Reconciled, error) {
	fail := func(err error) (Reconciled, error) {
		return Reconciled{}, fmt.Errorf("reconcile cell %q: %w", o.Cell, err)
	}
	if err := c.check(); err != nil {
		return fail(err)
	}
	if _, err := r.Cell(ctx, o.Cell); err != nil {
		return fail(err)
	}
	if _, can := r.holder.(Forgetter); o.Absent && !can {
		return fail(errors.New("these shards cannot forget a tenant"))
	}
	w := &reconciler{Residence: r, o: o, c: c, report: report, sum: Reconciled{Found: map[Mismatch]int{}}, down: map[string]bool{}}
	for _, shard := range o.Shards {
		if err := w.shard(ctx, shard, progress); err != nil {
			return fail(err)
		}
	}
	if err := w.tenants(ctx, progress); err != nil {
		return fail(err)
	}
	return w.sum, nil
}

type reconciler struct {
	*Residence
	o      Reconciling
	c      Change
	report func(Finding)

	mu   sync.Mutex
	sum  Reconciled
	down map[string]bool // shards that do not answer
}

func (w *reconciler) found(f Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.What == Unreachable {
		if w.down[f.Shard] {
			return
		}
		w.down[f.Shard] = true
	}
	w.sum.Found[f.What]++
	if !f.Done {
		w.sum.Left++
	}
	w.report(f)
}

func (w *reconciler) isDown(shard string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down[shard]
}

// gone notes a shard that failed. It is the caller's context that ended, or the shard does not answer.
func (w *reconciler) gone(ctx context.Context, shard string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.found(Finding{What: Unreachable, Shard: shard, Err: err})
	return nil
}

// shard goes through whom a shard holds.
func (w *reconciler) shard(ctx context.Context, shard string, progress func(Reconciled)) error {
	for after := ""; ; {
		// The holdings first: a tenant who is held and then not in the directory was not there before either.
		page, err := w.holder.Holdings(ctx, w.o.Cell, shard, after, reconcilePage)
		if err != nil {
			return w.gone(ctx, shard, err)
		}
		tenants := make([]string, len(page))
		for i, h := range page {
			tenants[i], after = h.Tenant, h.Tenant
		}
		entries, err := w.entries(ctx, tenants)
		if err != nil {
			return err
		}
		for i, h := range page {
			if err := w.holding(ctx, shard, h, entries[i]); err != nil {
				return err
			}
			if w.isDown(shard) {
				return nil
			}
		}
		w.sum.Holdings += len(page)
		progress(w.sum)
		if len(page) < reconcilePage {
			return nil
		}
	}
}

// entries reads the entries of tenants as of now, by one Read; those without have epoch 0.
func (w *reconciler) entries(ctx context.Context, tenants []string) ([]Entry, error) {
	entries := make([]Entry, len(tenants))
	if len(tenants) == 0 {
		return entries, nil
	}
	keys := make([]Key, len(tenants))
	for i, tenant := range tenants {
		keys[i] = entryKey(tenant)
	}
	records, err := w.home.Read(ctx, Strong, keys...)
	if err != nil {
		return nil, err
	}
	for i, rec := range records {
		if rec.Version == 0 {
			continue
		}
		if entries[i], err = decodeEntry(rec); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// holding judges one holding by the entry that was read after it.
func (w *reconciler) holding(ctx context.Context, shard string, h Holding, e Entry) error {
	at := place{w.o.Cell, shard}
	f := Finding{Shard: shard, Tenant: h.Tenant, Held: h.Epoch, Entry: e.Epoch}
	if e.Epoch == 0 {
		f.What = Absent
		if w.o.Absent {
			if err := w.holder.(Forgetter).Forget(ctx, at.cell, at.shard, h); err != nil {
				return w.gone(ctx, shard, err)
			}
			f.Done = true
		}
		w.found(f)
		return nil
	}
	needed, err := w.held(ctx, e)
	if err != nil {
		return err
	}
	here := slices.Contains(needed, at)
	switch {
	case here && h.Epoch <= e.Epoch:
		return nil
	case h.Epoch <= e.Epoch:
		f.What = Superfluous
	case h.Epoch == e.Epoch+1:
		f.What = Pending
	default:
		f.What = Ahead
	}
	if f.What == Pending && w.o.Touch && (e.State == Active || e.State == Suspended) {
		touched, err := w.Settle(ctx, e, e, w.c)
		switch {
		case err == nil:
			e, f.Entry = touched, touched.Epoch
		case !refused(err): // else somebody changed the tenant meanwhile
			return err
		}
	}
	if h.Epoch <= e.Epoch {
		if !here {
			if err := w.release(ctx, []place{at}, Holding{e.Tenant, e.Epoch}); err != nil {
				return w.gone(ctx, shard, err)
			}
		}
		f.Done = true
	}
	w.found(f)
	return nil
}

// tenantsAtOnce is how many tenants' shards are asked at the same time.
const tenantsAtOnce = 16

// tenants goes through who is in the cell.
func (w *reconciler) tenants(ctx context.Context, progress func(Reconciled)) error {
	for after := ""; ; {
		page, err := w.ListCell(ctx, w.o.Cell, after, reconcilePage)
		if err != nil {
			return err
		}
		names := make([]string, len(page))
		for i, e := range page {
			names[i], after = e.Tenant, e.Tenant
		}
		entries, err := w.entries(ctx, names) // the listing may be behind
		if err != nil {
			return err
		}
		g, each := errgroup.WithContext(ctx)
		g.SetLimit(tenantsAtOnce)
		for _, e := range entries {
			if e.Epoch > 0 && e.Cell == w.o.Cell {
				g.Go(func() error { return w.tenant(each, e) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		w.sum.Tenants += len(page)
		progress(w.sum)
		if len(page) < reconcilePage {
			return nil
		}
	}
}

// tenant has the shards of a tenant's subset hold it that do not.
func (w *reconciler) tenant(ctx context.Context, e Entry) error {
	needed, err := w.held(ctx, e)
	if err != nil {
		return err
	}
	for _, p := range needed {
		if !slices.Contains(w.o.Shards, p.shard) || w.isDown(p.shard) {
			continue
		}
		h, ok, err := w.holder.Held(ctx, p.cell, p.shard, e.Tenant)
		if err == nil && ok {
			continue // above the entry, it is found from the shard's side
		}
		if err == nil {
			err = w.hold(ctx, []place{p}, Holding{e.Tenant, e.Epoch})
		}
		if err == nil {
			h, ok, err = w.holder.Held(ctx, p.cell, p.shard, e.Tenant)
		}
		if err != nil {
			if err := w.gone(ctx, p.shard, err); err != nil {
				return err
			}
			continue
		}
		if !ok { // it let go at a higher epoch: the tenant left meanwhile, or the directory is older
			now, err := w.Get(ctx, e.Tenant)
			if err != nil || now.Epoch != e.Epoch {
				return err
			}
			w.found(Finding{What: Ahead, Shard: p.shard, Tenant: e.Tenant, Entry: e.Epoch})
			continue
		}
		w.found(Finding{What: Missing, Shard: p.shard, Tenant: e.Tenant, Held: h.Epoch, Entry: e.Epoch, Done: true})
	}
	return nil
}
