package dircache

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// settle reads, remembers what was said, and tells what is known then.
func (a asking) settle(ctx context.Context, read func(context.Context) (routing.Known, error)) (routing.Known, error) {
	began := a.now()
	said, err := read(ctx)
	r := a.hear(began, said, err)
	if r == nil {
		return routing.Known{Stale: said.Stale, ReplicaErr: said.ReplicaErr, HomeErr: said.HomeErr}, fmt.Errorf("look up tenant %q: %w", a.tenant, err)
	}
	k, told := a.tell(r, a.now())
	k.ReplicaErr, k.HomeErr = said.ReplicaErr, said.HomeErr
	return k, told
}

// hear remembers what a reading that began at a time said, and returns what is known of the tenant then; nil
// when nobody knows.
func (a asking) hear(began int64, said routing.Known, err error) *record {
	switch {
	case err == nil:
		return a.learn(said.Entry, began, said.Stale)
	case errors.Is(err, directory.ErrNotFound):
		if r := a.learnUnknown(a.tenant, began, said.Stale); r != nil {
			return r
		}
	}
	now := a.now()
	r := a.under(a.tenant, a.remembered(a.tenant), now)
	if r == nil || r.unknown() {
		return nil // it may have signed up since
	}
	if r.due.Load() <= now+int64(a.config.LookUp) {
		a.postpone(r, now)
	}
	return r
}

// learn remembers an entry that was true at the time read, or later, unless a newer one is known, and returns
// what is known.
func (c *Cache) learn(e directory.Entry, read int64, near bool) *record {
	lock := &c.learning[c.tenants.part(e.Tenant)]
	lock.Lock()
	defer lock.Unlock()
	old := c.remembered(e.Tenant)
	switch {
	case old == nil:
	case old.unknown() && read < old.read.Load():
		return old
	case e.Epoch < old.epoch:
		// Who says so is behind, and would be asked again at once.
		c.postpone(old, c.now())
		return old
	case e.Epoch == old.epoch:
		if read >= old.read.Load() {
			c.confirm(old, read, near)
		}
		return old
	}
	r := c.record(e)
	c.confirm(r, read, near)
	if r.kind.own || c.tenants.certain(e.Tenant) != nil {
		c.tenants.put(r)
		c.strangers.remove(e.Tenant)
	} else {
		c.strangers.put(r)
	}
	return r
}

// learnUnknown remembers that a tenant did not exist at the time read. A replica that does not know a tenant
// proves nothing when there is another word: then it returns nil.
func (c *Cache) learnUnknown(tenant string, read int64, near bool) *record {
	lock := &c.learning[c.tenants.part(tenant)]
	lock.Lock()
	defer lock.Unlock()
	old := c.remembered(tenant)
	if near {
		if old != nil && !old.unknown() {
			return nil
		}
		if c.config.Base != nil {
			if _, _, ok := c.config.Base.Entry(tenant); ok {
				return nil
			}
		}
	}
	if old != nil && old.read.Load() > read {
		return old
	}
	if old != nil && old.unknown() {
		c.confirm(old, read, near)
		return old
	}
	r := &record{tenant: strings.Clone(tenant), kind: c.nobody}
	c.confirm(r, read, near)
	c.strangers.put(r)
	c.tenants.remove(tenant)
	return r
}
