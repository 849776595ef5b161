package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

const (
	storeTime    = 5 * time.Second  // that one call of the store may last
	appendTime   = 10 * time.Minute // that one record is tried for while the lease can be kept
	wishInterval = time.Second
	askInterval  = 500 * time.Millisecond
	soonest      = time.Second     // between two looks at a cell, or reads of a stage, whatever happens
	askPatience  = 3 * time.Second // after which it is told that a wish waits
)

// hold is a lease that is kept. ctx ends when it is lost, with ErrLost as its cause, or when the driver is cancelled.
type hold struct {
	d      *Driver
	ctx    context.Context
	cancel context.CancelCauseFunc
	one    chan struct{} // has a place for one Keep at a time
	mu     sync.Mutex    // of what follows
	lease  Lease
	gone   bool
}

// hold takes the lease, has f do its work, and gives the lease back when f has returned.
func (d *Driver) hold(ctx context.Context, f func(*hold) (rollout.State, error)) (rollout.State, error) {
	lease, err := d.take(ctx)
	if err != nil {
		return rollout.State{}, err
	}
	h := &hold{d: d, one: make(chan struct{}, 1), lease: lease}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { h.keeper(kept) })
	defer h.free(ctx)
	defer keeper.Wait()
	defer stop()
	defer h.cancel(context.Canceled)
	return f(h)
}

// take waits, for as long as the configuration's patience, for a holder who gives no sign of life. One who has given none
// for a whole lease, by this driver's clock, has none any more, whatever his clock made of its end: he was to prolong it
// three times meanwhile, and without that it has run out for him, too.
func (d *Driver) take(ctx context.Context) (Lease, error) {
	var first TakenError
	begun, seen := d.Clock.Now(), time.Time{}
	for {
		now := d.Clock.Now()
		if !seen.IsZero() && now.Sub(seen) > d.TTL && first.Until.After(now) { // refused if it was prolonged meanwhile
			now = first.Until
		}
		l, err := d.Leases.Take(ctx, d.Service, d.Holder, now, d.TTL)
		var taken *TakenError
		switch {
		case err == nil:
			return l, nil
		case !errors.As(err, &taken):
			return Lease{}, fmt.Errorf("taking the lease: %w", err)
		case first.Until.IsZero():
			first, seen = *taken, d.Clock.Now()
			if d.Patience > 0 {
				d.Observer.Trouble(fmt.Errorf("waiting for %s, whose lease lasts until %s: it is taken over when he gives no sign of life", taken.Holder, taken.Until.UTC().Format(time.RFC3339)))
			}
		case taken.Holder != first.Holder || !taken.Until.Equal(first.Until): // alive
			return Lease{}, err
		}
		if d.Clock.Now().Sub(begun) >= d.Patience {
			return Lease{}, err
		}
		if !d.sleep(ctx, wishInterval) {
			return Lease{}, context.Cause(ctx)
		}
	}
}

// keeper prolongs the lease until ctx ends, also while the driver's commands come to their end after it was cancelled.
func (h *hold) keeper(ctx context.Context) {
	wait := h.d.TTL / 3
	for h.d.sleep(ctx, wait) {
		err := h.keep(ctx)
		switch {
		case err == nil:
			wait = h.d.TTL / 3
		case errors.Is(err, ErrLost):
			return
		case ctx.Err() == nil:
			wait = h.d.TTL / 12
			h.d.Observer.Trouble(err)
		}
	}
}

// keep proves that the lease is the latest, and prolongs it. When nobody can say, it is lost as soon as it has run out.
func (h *hold) keep(ctx context.Context) error {
	select {
	case h.one <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.one }()
	was, gone := h.latest()
	if gone {
		return ErrLost
	}
	ctx, stop := h.d.within(ctx, min(storeTime, h.d.TTL/3))
	defer stop()
	l, err := h.d.Leases.Keep(ctx, was, h.d.Clock.Now(), h.d.TTL)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.lease = l
		return nil
	case errors.Is(err, ErrLost):
	case !h.d.Clock.Now().Before(was.Until):
		err = fmt.Errorf("%w: it could not be kept: %w", ErrLost, err)
	default:
		return fmt.Errorf("keeping the lease: %w", err)
	}
	h.gone = true
	h.cancel(err)
	return err
}

// lost takes from a call of the journal that the lease is lost.
func (h *hold) lost(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	h.cancel(err)
}

// latest is the lease as it was kept last, and whether it is lost.
func (h *hold) latest() (l Lease, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease, h.gone
}

// is is the lease, lost or not.
func (h *hold) is() Lease {
	l, _ := h.latest()
	return l
}

// free gives the lease back, so that nobody has to wait until it runs out.
func (h *hold) free(ctx context.Context) {
	lease, gone := h.latest()
	if gone {
		return
	}
	ctx, stop := h.d.within(context.WithoutCancel(ctx), storeTime)
	defer stop()
	if err := h.d.Leases.Free(ctx, lease); err != nil {
		h.d.Observer.Trouble(fmt.Errorf("giving the lease back: %w", err))
	}
}
