package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// Config is what a Driver works with. All fields up to Gate are needed.
type Config struct {
	Service string
	Holder  string // who takes the lease, as people read it
	Leases  Leases
	Journal Journal
	Wishes  Wishes
	Stacks  Stacks
	Gate    Gate

	Clock    Clock         // nil: Wall
	Interval time.Duration // between two looks at a cell, and two reads of a stage; 0: 5 s
	TTL      time.Duration // of the lease, which is kept three times in it; 0: 30 s, at least 3 s
	// Patience is how long a lease is waited for whose holder gives no sign of life. One who lives is not waited for.
	Patience time.Duration
	// Changes are the commands that change something, and Looks those that do not, that are performed at once; 0: 64 and 16.
	Changes, Looks int
	// Tries is how often a look or read may fail in a row before its error is the answer; 0: 3. What fires meanwhile is not
	// missed: an observation covers all that was since the cell was changed.
	Tries    int
	Observer Observer // nil: none
}

// Observer is told what a driver does, by one goroutine at a time. Its methods return at once.
type Observer interface {
	// Recorded is told of each transition after it was journalled, and first of the one with which the driver began.
	Recorded(r Record)
	// Seen is told of each look and read that changed nothing.
	Seen(e rollout.Event)
	// Trouble is told of what the driver tries again: a store that does not answer, a look that failed. And of a wish
	// that was refused.
	Trouble(err error)
}

// told is an observer, or none, that is told by one goroutine at a time.
type told struct {
	mu sync.Mutex
	to Observer
}

func (o *told) tell(f func(Observer)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to != nil {
		f(o.to)
	}
}

func (o *told) Recorded(r Record)    { o.tell(func(to Observer) { to.Recorded(r) }) }
func (o *told) Seen(e rollout.Event) { o.tell(func(to Observer) { to.Seen(e) }) }
func (o *told) Trouble(err error)    { o.tell(func(to Observer) { to.Trouble(err) }) }

// Driver drives the rollouts of one service, one at a time.
type Driver struct{ Config }

// New checks the configuration and fills in what may be left out.
func New(c Config) (*Driver, error) {
	if c.Service == "" || c.Holder == "" {
		return nil, errors.New("a driver of rollouts needs the service's name and its own")
	}
	if c.Leases == nil || c.Journal == nil || c.Wishes == nil || c.Stacks == nil || c.Gate == nil {
		return nil, errors.New("a driver of rollouts needs leases, journal, wishes, stacks and gate")
	}
	if c.Clock == nil {
		c.Clock = Wall{}
	}
	c.Observer = &told{to: c.Observer}
	c.Interval = cmp.Or(c.Interval, 5*time.Second)
	c.TTL = cmp.Or(c.TTL, 30*time.Second)
	c.Changes, c.Looks, c.Tries = cmp.Or(c.Changes, 64), cmp.Or(c.Looks, 16), cmp.Or(c.Tries, 3)
	if c.Interval < 0 || c.TTL < 3*time.Second || c.Patience < 0 || c.Changes < 0 || c.Looks < 0 || c.Tries < 0 {
		return nil, fmt.Errorf("a driver of rollouts has a lease of at least 3s and nothing below 0; interval %v, lease %v, patience %v, changes %d, looks %d, tries %d",
			c.Interval, c.TTL, c.Patience, c.Changes, c.Looks, c.Tries)
	}
	return &Driver{c}, nil
}

// Start begins a rollout and drives it until it comes to rest. Nothing is changed when the error is of package rollout,
// ErrNotNow (the latest rollout is not over) or ErrTaken. ErrLost when another took over, and ctx's error when that ended:
// Resume goes on then. The state is the last that was journalled.
func (d *Driver) Start(ctx context.Context, spec rollout.Spec) (rollout.State, error) {
	if spec.Service != d.Service {
		return rollout.State{}, fmt.Errorf("%w: rollout %s is of service %q, and this is the driver of %q", rollout.ErrInvalid, spec.ID, spec.Service, d.Service)
	}
	s, err := rollout.New(spec, d.Clock.Now())
	if err != nil {
		return rollout.State{}, err
	}
	return d.hold(ctx, func(h *hold) (rollout.State, error) {
		switch latest, err := d.Journal.Latest(h.ctx, d.Service); {
		case errors.Is(err, ErrNone):
		case err != nil:
			return rollout.State{}, fmt.Errorf("reading the journal: %w", err)
		case !latest.State.Status.Over():
			return latest.State, fmt.Errorf("%w: rollout %s is %s; bring it to its end first: resume, roll back or abort it", ErrNotNow, latest.State.Spec.ID, latest.State.Status)
		}
		l := newLoop(d, h)
		if err := l.append(Record{Seq: 1, State: s}); err != nil {
			return rollout.State{}, err
		}
		return l.drive(Wish{})
	})
}

// Resume takes over the service's latest rollout, does what is wished, and drives it until it comes to rest; its errors are
// those of Start. id may be empty for whichever is the latest, and w for nothing but to go on. A Resume of one that is not
// paused and a Rollback of one that rolls back already only go on, too.
func (d *Driver) Resume(ctx context.Context, id string, w Wish) (rollout.State, error) {
	return d.takeOver(ctx, id, w, true)
}

// Apply takes over the service's latest rollout for one wish, and leaves it to itself then. rollout.ErrUnexpected when the
// wish makes no sense.
func (d *Driver) Apply(ctx context.Context, id string, w Wish) (rollout.State, error) {
	return d.takeOver(ctx, id, w, false)
}

func (d *Driver) takeOver(ctx context.Context, id string, w Wish, goOn bool) (rollout.State, error) {
	// What is refused is refused without the lease, too: nobody needs to be waited for.
	if r, err := d.latest(ctx, id); err != nil {
		return r.State, err
	} else if _, err = d.fitting(r.State, w); err != nil {
		return r.State, err
	}
	return d.hold(ctx, func(h *hold) (rollout.State, error) {
		r, err := d.latest(h.ctx, id)
		if err != nil {
			return r.State, err
		}
		if _, err := d.fitting(r.State, w); err != nil {
			return r.State, err
		}
		l := newLoop(d, h)
		l.record = r
		d.Observer.Recorded(r)
		if goOn {
			return l.drive(w)
		}
		err = l.takeOver(w)
		return l.record.State, err
	})
}

// latest is the last record of the service's latest rollout, which must be that one.
func (d *Driver) latest(ctx context.Context, id string) (Record, error) {
	r, err := d.Journal.Latest(ctx, d.Service)
	if errors.Is(err, ErrNone) && id != "" {
		return Record{}, fmt.Errorf("service %s, rollout %s: %w", d.Service, id, err)
	} else if err != nil {
		return Record{}, fmt.Errorf("service %s: %w", d.Service, err)
	}
	if id != "" && r.State.Spec.ID != id {
		return Record{}, fmt.Errorf("%w: the latest rollout of %s is %s; %s is none, or another came after it", ErrNotNow, d.Service, r.State.Spec.ID, id)
	}
	return r, nil
}

// fitting is the wish without what is so already, or why it is refused.
func (d *Driver) fitting(s rollout.State, w Wish) (Wish, error) {
	active := s.Status == rollout.IsRunning || s.Status == rollout.IsRollingBack
	switch {
	case w.Kind == rollout.Resume && active && len(w.Despite) == 0, w.Kind == rollout.Rollback && s.Status == rollout.IsRollingBack:
		w.Kind = ""
	case w.Kind == "" && s.Status.Over():
		return w, fmt.Errorf("%w: rollout %s is %s", rollout.ErrUnexpected, s.Spec.ID, s.Status)
	case w.Kind == "":
	default:
		if err := checkWish(w); err != nil {
			return w, err
		}
		taken, _, err := rollout.Next(s, rollout.Event{Kind: rollout.Taken, At: d.Clock.Now(), Fencing: s.Fencing + 1})
		if err != nil {
			return w, err
		}
		if _, _, err := rollout.Next(taken, d.event(w, taken.Fencing)); err != nil {
			return w, err
		}
	}
	return w, nil
}

func checkWish(w Wish) error {
	if !slices.Contains([]rollout.EventKind{rollout.Pause, rollout.Resume, rollout.Abort, rollout.Rollback}, w.Kind) {
		return fmt.Errorf("%w: nobody can wish for %q", rollout.ErrInvalid, w.Kind)
	}
	return nil
}

func (d *Driver) event(w Wish, fencing uint64) rollout.Event {
	return rollout.Event{Kind: w.Kind, At: d.Clock.Now(), Fencing: fencing, By: w.By, Why: w.Why, Despite: w.Despite, Wish: w.ID}
}

// Living is the lease of whoever drives, and false when nobody does: the lease was given back, or has run out.
func (d *Driver) Living(ctx context.Context) (Lease, bool, error) {
	l, is, err := d.Leases.Holder(ctx, d.Service)
	return l, is && err == nil && d.Clock.Now().Before(l.Until), err
}

// Ask leaves a wish for whoever drives the rollout and waits until it was taken. ErrNotNow, and the wish is withdrawn, when
// nobody drives any more: Apply or Resume then; with ErrSilent, too, when the holder's lease goes on and he does not. rollout.ErrUnexpected when it was taken and makes no sense to the rollout.
func (d *Driver) Ask(ctx context.Context, id string, w Wish) (rollout.State, error) {
	if err := checkWish(w); err != nil {
		return rollout.State{}, err
	}
	r, err := d.latest(ctx, id)
	if err != nil {
		return rollout.State{}, err
	}
	w.Rollout, w.At = r.State.Spec.ID, d.Clock.Now()
	if w.ID == "" {
		w.ID = rand.Text()
	}
	if err := d.Wishes.Wish(ctx, d.Service, w); err != nil {
		return r.State, fmt.Errorf("leaving the wish: %w", err)
	}
	withdraw := func() error {
		ctx, stop := d.within(context.WithoutCancel(ctx), storeTime)
		defer stop()
		return d.Wishes.Answer(ctx, d.Service, w)
	}
	var seen Lease // the holder's, as it was prolonged last
	begun, since := d.Clock.Now(), time.Time{}
	for told := false; ; {
		waiting, err := d.Wishes.Wished(ctx, d.Service, w.Rollout)
		if err == nil && !slices.ContainsFunc(waiting, func(o Wish) bool { return o.ID == w.ID }) {
			break
		}
		if err != nil {
			d.Observer.Trouble(fmt.Errorf("reading the wishes: %w", err))
		} else if l, lives, err := d.Living(ctx); err == nil {
			now := d.Clock.Now()
			if since.IsZero() || l.Fencing != seen.Fencing || !l.Until.Equal(seen.Until) {
				seen, since = l, now
			}
			silent := now.Sub(since) > d.TTL // dead, with a clock that was ahead
			if !lives || silent {
				if err := withdraw(); err != nil {
					return r.State, fmt.Errorf("nobody drives rollout %s, and the wish could not be withdrawn: %w", w.Rollout, err)
				}
				if silent {
					return r.State, fmt.Errorf("%w: %w: %s has given none for %v", ErrNotNow, ErrSilent, l.Holder, d.TTL)
				}
				return r.State, fmt.Errorf("%w: nobody drives rollout %s any more", ErrNotNow, w.Rollout)
			}
			if !told && now.Sub(begun) >= askPatience {
				told = true
				d.Observer.Trouble(fmt.Errorf("waiting for %s to take the wish: whoever gives no sign of life is waited for until his lease has run out, at %s", l.Holder, l.Until.UTC().Format(time.RFC3339)))
			}
		}
		if !d.sleep(ctx, askInterval) {
			return r.State, errors.Join(context.Cause(ctx), withdraw())
		}
	}
	if r, err = d.Journal.Last(ctx, d.Service, w.Rollout); err != nil {
		return r.State, fmt.Errorf("reading the journal: %w", err)
	}
	if r.State.Wish != w.ID && !becomes(w.Kind, r.State.Status) {
		return r.State, &rollout.RefusedError{Kind: w.Kind, Status: r.State.Status}
	}
	return r.State, nil
}

// becomes says that a status is one that the wish leads to, by whomever it came.
func becomes(kind rollout.EventKind, s rollout.Status) bool {
	switch kind {
	case rollout.Pause:
		return s == rollout.IsPaused
	case rollout.Resume:
		return s == rollout.IsRunning
	case rollout.Abort:
		return s == rollout.IsAborted
	}
	return s == rollout.IsRollingBack || s == rollout.IsRolledBack
}

// sleep waits, and says false when ctx ends before.
func (d *Driver) sleep(ctx context.Context, t time.Duration) bool {
	select {
	case <-d.Clock.After(t):
		return true
	case <-ctx.Done():
		return false
	}
}

// within ends a context after some time of the driver's own clock.
func (d *Driver) within(ctx context.Context, t time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-d.Clock.After(t):
			cancel(fmt.Errorf("no answer within %v: %w", t, context.DeadlineExceeded))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
