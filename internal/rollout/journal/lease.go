package journal

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Take implements run.Leases. A lease that stands is refused to its own holder, too: names may be given twice. The call
// knows its own success when the answer to it was lost, and the next call does not.
func (s *Store) Take(ctx context.Context, service, holder string, now time.Time, ttl time.Duration) (run.Lease, error) {
	fail := func(err error) (run.Lease, error) {
		return run.Lease{}, fmt.Errorf("take the lease on the rollouts of service %.200q: %w", service, err)
	}
	until, err := end(now, ttl)
	if err != nil {
		return fail(err)
	}
	if err := checkService(service); err != nil {
		return fail(err)
	}
	if err := checkName("the holder's name", holder, maxHolder); err != nil {
		return fail(err)
	}
	operation := "rollout lease " + rand.Text() // which nobody else has
	var taken run.Lease
	err = s.change(ctx, leaseKey(service), operation, func(r directory.Record) ([]byte, error) {
		l, err := leaseOf(r, service)
		switch {
		case err != nil:
			return nil, err
		case r.Version > 0 && r.Operation == operation:
			return nil, nil
		case !l.Freed && now.Before(l.Until):
			return nil, &run.TakenError{Holder: l.Holder, Until: l.Until}
		case l.Fencing == math.MaxUint64:
			return nil, fmt.Errorf("%w: no number is left", rollout.ErrInvalid)
		}
		l.Schema, l.Service, l.Holder, l.Until, l.Freed = schema, service, holder, until, false
		l.Fencing++
		taken = l.given()
		return encode(l)
	})
	if err != nil {
		return fail(err)
	}
	return taken, nil
}

// Keep implements run.Leases.
func (s *Store) Keep(ctx context.Context, given run.Lease, now time.Time, ttl time.Duration) (run.Lease, error) {
	fail := func(err error) (run.Lease, error) {
		return run.Lease{}, fmt.Errorf("keep the lease on the rollouts of service %q: %w", given.Service, err)
	}
	until, err := end(now, ttl)
	if err != nil {
		return fail(err)
	}
	if err := checkService(given.Service); err != nil {
		return fail(err)
	}
	var kept run.Lease
	operation := "rollout lease " + rand.Text()
	err = s.change(ctx, leaseKey(given.Service), operation, func(r directory.Record) ([]byte, error) {
		l, err := leaseOf(r, given.Service)
		switch {
		case err != nil:
			return nil, err
		case !l.is(given):
			return nil, lost(l)
		case r.Operation == operation:
			return nil, nil
		case !now.Before(l.Until):
			return nil, fmt.Errorf("%w: it ran out at %s", run.ErrLost, l.Until.Format(time.RFC3339))
		}
		l.Until = until
		kept = l.given()
		return encode(l)
	})
	if err != nil {
		return fail(err)
	}
	return kept, nil
}

// Free implements run.Leases.
func (s *Store) Free(ctx context.Context, given run.Lease) error {
	err := checkService(given.Service)
	if err == nil {
		err = s.change(ctx, leaseKey(given.Service), "rollout lease "+rand.Text(), func(r directory.Record) ([]byte, error) {
			l, err := leaseOf(r, given.Service)
			if err != nil || !l.is(given) {
				return nil, err
			}
			l.Freed = true
			return encode(l)
		})
	}
	if err != nil {
		return fmt.Errorf("give back the lease on the rollouts of service %q: %w", given.Service, err)
	}
	return nil
}

// Holder implements run.Leases. A lease that was given back has the zero time.
func (s *Store) Holder(ctx context.Context, service string) (run.Lease, bool, error) {
	l, r, err := s.latest(ctx, service)
	if err != nil {
		return run.Lease{}, false, fmt.Errorf("who drives the rollouts of service %q: %w", service, err)
	}
	return l.given(), r.Version > 0, nil
}

// latest is what is known of a service.
func (s *Store) latest(ctx context.Context, service string) (lease, directory.Record, error) {
	if err := checkService(service); err != nil {
		return lease{}, directory.Record{}, err
	}
	records, err := s.read(ctx, leaseKey(service))
	if err != nil {
		return lease{}, directory.Record{}, err
	}
	l, err := leaseOf(records[0], service)
	return l, records[0], err
}

// lost says who has the lease instead.
func lost(l lease) error {
	switch {
	case l.Fencing == 0:
		return fmt.Errorf("%w: there never was one", run.ErrLost)
	case l.Freed:
		return fmt.Errorf("%w: the latest is number %d, which %s gave back", run.ErrLost, l.Fencing, l.Holder)
	}
	return fmt.Errorf("%w: the latest is number %d of %s", run.ErrLost, l.Fencing, l.Holder)
}

// end is when a lease runs out, in a form that JSON carries.
func end(now time.Time, ttl time.Duration) (time.Time, error) {
	until := now.Add(ttl).UTC().Round(0)
	if ttl <= 0 || until.Year() < 1 || until.Year() > 9999 || !until.After(now) {
		return until, fmt.Errorf("%w: a lease from %s for %s: want more than 0s, before the year 10000", rollout.ErrInvalid, now, ttl)
	}
	return until, nil
}
