package localcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// breakFor is how long traffic has a shard broken at most; it lets the shard come back before that.
const breakFor = maxHold

// askLimit is for a question to the directory that an operator waits for. The store may be hung on purpose.
const askLimit = 10 * time.Second

// patient asks for an operator: a process that hangs on purpose would keep the command for ever.
func patient() *http.Client { return &http.Client{Timeout: askLimit} }

// statusLimit is the same for what a status can do without.
const statusLimit = 2 * time.Second

// ErrTenants means that the cell does not have the tenants that were asked for.
var ErrTenants = errors.New("not enough tenants")

// Directory is the running cell's directory, for its operator.
func (r *Running) Directory() (directory.Home, error) {
	return httpdir.NewClient(r.DirectoryURL, r.Secret, patient())
}

// Holder reaches the holdings of the running cell's shards, for its operator.
func (r *Running) Holder() (directory.Holder, error) {
	return httpdir.NewHolds(r.Store, r.Secret, patient())
}

// residence is the running cell's directory with its shards' holdings.
func (d Dir) residence(ctx context.Context, r *Running) (*directory.Residence, error) {
	home, err := r.Directory()
	if err != nil {
		return nil, err
	}
	holder, err := r.Holder()
	if err != nil {
		return nil, err
	}
	dir, err := directory.Open(ctx, home)
	if err != nil {
		return nil, err
	}
	return directory.NewResidence(dir, holder, func(_ context.Context, cell, version string) ([]byte, error) { return d.Key(cell, version) }), nil
}

// Queues counts the jobs of every queue that has some: a shard's is named CELL/SHARD, and a cell's from which its
// router places jobs CELL.
func (r *Running) Queues(ctx context.Context) (map[string]jobqueue.Stats, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusLimit, errors.New("the store does not answer"))
	defer cancel()
	all, err := jobqueue.NewClient(r.Store, r.Secret).All(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return all, err
}

// Entry is what the directory of the running cells has of a tenant.
func (d Dir) Entry(ctx context.Context, r *Running, tenant string) (directory.Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, errors.New("the directory does not answer"))
	defer cancel()
	store, err := d.residence(ctx, r)
	if err != nil {
		return directory.Entry{}, err
	}
	return store.Get(ctx, tenant)
}

// Traffic prepares traffic of the first n active tenants of the running cell in d, in the order of their
// ids, each with its own token; all of them when n is 0. With a shard to break, that is to be broken
// half-way.
func (d Dir) Traffic(ctx context.Context, r *Running, n int, broken string) (traffic.Config, error) {
	store, err := d.residence(ctx, r)
	if err != nil {
		return traffic.Config{}, err
	}
	c := traffic.Config{
		URL:    r.Router,
		Broken: broken,
		Break: func(ctx context.Context) error {
			_, err := r.Break(ctx, broken, breakFor)
			return err
		},
		Restore: func(ctx context.Context) error { return r.Restore(ctx, broken) },
		FellBack: func(ctx context.Context) (map[string]int64, error) {
			counters, err := r.Counters(ctx)
			return counters.FellBack, err
		},
	}
	var ids []string
	const page = 1000
	for after, more := "", true; more && (n == 0 || len(ids) < n); {
		entries, err := store.List(ctx, after, page)
		if err != nil {
			return traffic.Config{}, err
		}
		if more = len(entries) == page; more {
			after = entries[page-1].Tenant
		}
		for _, e := range entries {
			if n > 0 && len(ids) == n {
				break
			}
			if !slices.Contains(r.Names(), e.Cell) || e.State != directory.Active {
				continue
			}
			subset, err := store.Subset(ctx, e)
			if err != nil {
				return traffic.Config{}, err
			}
			ids = append(ids, e.Tenant)
			c.Tenants = append(c.Tenants, traffic.Tenant{ID: e.Tenant, Subset: subset})
		}
	}
	if len(ids) < n {
		return traffic.Config{}, fmt.Errorf("%w: %d were asked for, and the directory has %d active ones in %s", ErrTenants, n, len(ids), strings.Join(r.Names(), " and "))
	}
	tokens, err := r.Tokens(ctx, ids...)
	if err != nil {
		return traffic.Config{}, err
	}
	for i := range c.Tenants {
		c.Tenants[i].Token = tokens[i]
	}
	return c, nil
}

// LoadTraffic prepares traffic in open loop of these tenants of the running cells, in proportion to their
// loads, each with its own token. ErrTenants when one of them is not an active tenant of a cell that runs.
func (d Dir) LoadTraffic(ctx context.Context, r *Running, ids []string, loads []float64) (traffic.Load, error) {
	l, err := d.readLayout()
	if err != nil {
		return traffic.Load{}, err
	}
	store, err := d.residence(ctx, r)
	if err != nil {
		return traffic.Load{}, err
	}
	active := map[string]bool{}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return store.List(ctx, after, limit) }) {
		if err != nil {
			return traffic.Load{}, err
		}
		if e.State == directory.Active && slices.Contains(r.Names(), e.Cell) {
			active[e.Tenant] = true
		}
	}
	c := traffic.Load{URL: r.Router, Keyed: l.Cells[0].Router.IdempotencyKeys}
	for i, id := range ids {
		if !active[id] {
			return traffic.Load{}, fmt.Errorf("%w: %q is not an active tenant here", ErrTenants, id)
		}
		c.Tenants = append(c.Tenants, traffic.Loaded{ID: id, Load: loads[i]})
	}
	tokens, err := r.Tokens(ctx, ids...)
	if err != nil {
		return traffic.Load{}, err
	}
	for i := range c.Tenants {
		c.Tenants[i].Token = tokens[i]
	}
	return c, nil
}

// AwaitShard waits until the shard's process answers again.
func (r *Running) AwaitShard(ctx context.Context, shard string) error {
	for {
		all, err := r.Status(ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			if p.Name == shard && p.State == string(childReady) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeEvery):
		}
	}
}
