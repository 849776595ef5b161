package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// Names of the parts.
const (
	partEntries    = "entries"
	partTopologies = "topologies"
	partKeys       = "placement keys"
	partIssuer     = "issuer's keys"
	partTargets    = "target health"
	partThrottles  = "throttles"
	partQueues     = "queue ages"
	partDrains     = "drains"
	partSuspects   = "suspects"
)

// essential are the parts without which a router cannot place a tenant.
var essential = map[string]bool{partEntries: true, partTopologies: true, partKeys: true}

const (
	listTimeout   = 2 * time.Minute  // for all of the cell's entries
	fleetTimeout  = 4 * time.Minute  // for those of all cells
	sourceTimeout = 15 * time.Second // for any other part
	page          = 1000             // records in one listing

	// A directory that has less than half of at least so many tenants that the last snapshot had is not
	// believed: cells empty one tenant at a time.
	manyTenants = 20
)

// round is one collection. Its parts are read at the same time, and each writes its own fields of next.
type round struct {
	*Keeper
	last, next *snapshot.Snapshot
	force      bool
	unknown    bool // the directory does not know the cell yet

	mu    sync.Mutex
	parts []Part
}

// collect makes the next snapshot of what the sources have, and of the last one where they are down.
func (k *Keeper) collect(ctx context.Context, last *snapshot.Snapshot, o Options) *round {
	if last == nil {
		last = &snapshot.Snapshot{}
	}
	r := &round{Keeper: k, last: last, next: &snapshot.Snapshot{}, force: o.Force}
	var wait sync.WaitGroup
	if k.c.Issuer != nil {
		wait.Go(func() {
			r.part(ctx, partIssuer, sourceTimeout, &last.Times.Issuer, &r.next.Times.Issuer, r.issuer)
		})
	}
	if k.cells != nil {
		r.part(ctx, partEntries, fleetTimeout, &last.Times.Entries, &r.next.Times.Entries, r.fleet)
		wait.Wait()
		return r
	}
	drained := map[string]bool{}
	wait.Go(func() {
		// In this order: an entry names a topology that is there, and a topology a key.
		r.part(ctx, partEntries, listTimeout, &last.Times.Entries, &r.next.Times.Entries, r.entries)
		r.part(ctx, partTopologies, sourceTimeout, &last.Times.Topologies, &r.next.Times.Topologies, r.topologies)
		r.part(ctx, partKeys, sourceTimeout, &last.Times.Keys, &r.next.Times.Keys, r.keys)
	})
	wait.Go(func() {
		r.part(ctx, partDrains, sourceTimeout, &last.Times.Drained, &r.next.Times.Drained, func(ctx context.Context) (err error) {
			drained, err = r.drains(ctx)
			return err
		})
	})
	if k.c.Suspects != nil {
		wait.Go(func() {
			r.part(ctx, partSuspects, sourceTimeout, &last.Times.Suspects, &r.next.Times.Suspects, r.suspects)
		})
	}
	wait.Wait()
	r.health(ctx, drained)
	return r
}

// part reads one part, in its own time. When that fails, read has left what the last snapshot has in its
// place, and so its time is the last one's.
func (r *round) part(ctx context.Context, name string, limit time.Duration, was, is *time.Time, read func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	at := r.c.Now().UTC() // what is read is not older than the beginning of reading
	err := read(ctx)
	*is = at
	if err != nil {
		*is = *was
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, Part{name, *is, err})
}

func (r *round) entries(ctx context.Context) error {
	r.next.Entries = r.last.Entries
	b, before := snapshot.NewBuilder(r.c.Cell), 0
	if r.last.Entries != nil {
		before = r.last.Entries.Len()
	}
	if err := r.list(ctx, r.c.Cell, b); err != nil {
		return err
	}
	entries, err := b.Entries()
	if err != nil {
		return err
	}
	if now := entries.Len(); before >= manyTenants && now < before/2 && !r.force {
		return fmt.Errorf("%w: %d tenants, and %d before", ErrShrunk, now, before)
	}
	r.next.Entries = entries
	return nil
}

// list adds the entries of a cell.
func (r *round) list(ctx context.Context, cell string, to *snapshot.Builder) error {
	for after := ""; ; {
		list, err := r.lists.ListCell(ctx, cell, after, page)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := to.Add(r.newer(e)); err != nil {
				return err
			}
			after = e.Tenant
		}
		if len(list) < page {
			return nil
		}
	}
}

// newer is the entry, or the last snapshot's when a listing that lags behind shows it as it was before that.
func (r *round) newer(e directory.Entry) directory.Entry {
	if r.last.Entries == nil || r.force {
		return e
	}
	if known, ok := r.last.Entries.Lookup(e.Tenant); ok && known.Epoch > e.Epoch && (r.cells == nil || slices.Contains(r.cells, known.Cell)) {
		return known
	}
	return e
}

func (r *round) topologies(ctx context.Context) error {
	r.next.Topologies = r.last.Topologies
	var list []directory.Topology
	for after := uint64(0); ; {
		found, err := r.c.Directory.Topologies(ctx, r.c.Cell, after, page)
		if err != nil {
			return err
		}
		for _, t := range found {
			after = t.Version
			t.Tenants = 0 // it changes with every sign-up, and routers do not ask
			list = append(list, t)
		}
		if len(found) < page {
			break
		}
	}
	for _, had := range r.last.Topologies {
		if !r.force && !slices.ContainsFunc(list, func(t directory.Topology) bool { return t.Version == had.Version }) {
			return fmt.Errorf("%w: topology %d is gone, and topologies are never deleted", ErrShrunk, had.Version)
		}
	}
	r.next.Topologies = list
	return nil
}

// keys reads the version of the key that each topology names. A version that cannot be read stays as the last
// snapshot has it.
func (r *round) keys(ctx context.Context) error {
	r.next.Keys = map[string]snapshot.Secret{}
	type answer struct {
		key []byte
		err error
	}
	asked := map[string]answer{} // each version once
	var errs []error
	for _, t := range r.next.Topologies {
		a, ok := asked[t.KeyVersion]
		if !ok {
			a.key, a.err = r.c.Keys(ctx, r.c.Cell, t.KeyVersion)
			asked[t.KeyVersion] = a
		}
		key, err := a.key, a.err
		if err == nil {
			err = t.CheckKey(key)
		}
		if err != nil {
			if key, known := r.last.Keys[t.KeyVersion]; known && t.CheckKey(key) == nil {
				r.next.Keys[t.KeyVersion] = key
			}
			if !t.Retired { // nobody is on a retired one, and its key may be gone
				errs = append(errs, fmt.Errorf("version %s, of topology %d: %w", t.KeyVersion, t.Version, err))
			}
			continue
		}
		r.next.Keys[t.KeyVersion] = key
	}
	return errors.Join(errs...)
}

func (r *round) issuer(ctx context.Context) error {
	r.next.IssuerKeys = r.last.IssuerKeys
	keys, err := r.c.Issuer.JWKS(ctx)
	if err != nil {
		return err
	}
	compact := &bytes.Buffer{}
	if err := json.Compact(compact, keys); err != nil || compact.Len() == 0 || compact.Bytes()[0] != '{' {
		return errors.New("what it publishes is no JSON object")
	}
	r.next.IssuerKeys = compact.Bytes()
	return nil
}

// suspects is the tenants that all routers are to hold.
func (r *round) suspects(ctx context.Context) error {
	r.next.Suspects = r.last.Suspects // a hold says itself when it is over
	held, err := r.c.Suspects.Suspects(ctx)
	if err == nil {
		r.next.Suspects = held
	}
	return err
}

// drains is the shards that operators drained.
func (r *round) drains(ctx context.Context) (map[string]bool, error) {
	drained := map[string]bool{}
	c, err := r.c.Directory.Cell(ctx, r.c.Cell)
	if err == nil {
		for _, d := range c.Drained {
			drained[d.Shard] = true
		}
		return drained, nil
	}
	// A cell is stamped before the directory is told of it, and nobody is placed on it by then.
	if r.unknown = errors.Is(err, directory.ErrUnknownCell) && len(r.last.Topologies) == 0; r.unknown {
		return drained, nil
	}
	for _, was := range r.last.Health {
		if was.Drained {
			drained[was.Shard] = true
		}
	}
	return drained, err
}

// health reads what is known of every shard that a topology names.
func (r *round) health(ctx context.Context, drained map[string]bool) {
	reports := map[string]*snapshot.Report{}
	for _, t := range r.next.Topologies {
		if t.Retired {
			continue
		}
		for _, s := range t.Shards {
			reports[s.ID] = &snapshot.Report{Shard: s.ID, Drained: drained[s.ID]}
		}
	}
	shards := slices.Sorted(maps.Keys(reports))
	var wait sync.WaitGroup
	observe := func(there bool, name string, was, is *time.Time, read func(context.Context) error, keep func(now *snapshot.Report, last snapshot.Report)) {
		if !there {
			return
		}
		wait.Go(func() {
			r.part(ctx, name, sourceTimeout, was, is, func(ctx context.Context) error {
				err := read(ctx)
				if err != nil {
					for _, last := range r.last.Health {
						if now := reports[last.Shard]; now != nil {
							keep(now, last)
						}
					}
				}
				return err
			})
		})
	}
	was, is := &r.last.Times, &r.next.Times
	observe(r.c.Targets != nil, partTargets, &was.Targets, &is.Targets, func(ctx context.Context) error {
		counts, err := r.c.Targets.Targets(ctx, shards)
		return fill(reports, counts, err, func(to *snapshot.Report, c Count) { to.Healthy, to.Targets = max(0, c.Healthy), max(0, c.Targets) })
	}, func(now *snapshot.Report, last snapshot.Report) {
		now.Healthy, now.Targets = last.Healthy, last.Targets
	})
	observe(r.c.Throttles != nil, partThrottles, &was.Throttles, &is.Throttles, func(ctx context.Context) error {
		rates, err := r.c.Throttles.Throttles(ctx, shards)
		return fill(reports, rates, err, func(to *snapshot.Report, rate float64) {
			if rate > 0 { // not for what is no number
				to.Throttled = min(rate, math.MaxInt32)
			}
		})
	}, func(now *snapshot.Report, last snapshot.Report) { now.Throttled = last.Throttled })
	observe(r.c.Queues != nil, partQueues, &was.Queues, &is.Queues, func(ctx context.Context) error {
		ages, err := r.c.Queues.QueueAges(ctx, shards)
		return fill(reports, ages, err, func(to *snapshot.Report, age time.Duration) { to.QueueAge = max(0, age) })
	}, func(now *snapshot.Report, last snapshot.Report) { now.QueueAge = last.QueueAge })
	wait.Wait()
	for _, shard := range shards {
		r.next.Health = append(r.next.Health, *reports[shard])
	}
}

// fill puts a source's values into the reports.
func fill[V any](reports map[string]*snapshot.Report, values map[string]V, err error, put func(*snapshot.Report, V)) error {
	if err != nil {
		return err
	}
	for shard, value := range values {
		if to := reports[shard]; to != nil {
			put(to, value)
		}
	}
	return nil
}
