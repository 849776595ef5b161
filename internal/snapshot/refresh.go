package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// Reader is where the sealed snapshot lies.
type Reader interface {
	// Get returns the object and its tag, which changes with each write. ErrSame when it still has the tag
	// unless, "" being none; ErrNone when there is no object. An object above MaxBytes is an error.
	Get(ctx context.Context, unless string) (object []byte, tag string, err error)
}

// Errors of readers and writers. They come wrapped.
var (
	ErrSame    = errors.New("the snapshot did not change")
	ErrNone    = errors.New("there is no snapshot")
	ErrChanged = errors.New("another keeper wrote the snapshot meanwhile")
)

const (
	// Interval is how often a router looks for a new snapshot, when the configuration does not say.
	Interval = time.Minute
	// perInterval is for how many bytes of a snapshot one interval is waited: a large one is read less often.
	perInterval = 8 << 20
	// again is when a look that failed is repeated.
	again = 10 * time.Second
	// getTimeout is for one look, with all that it takes to open the snapshot.
	getTimeout = 10 * time.Second

	// overdue is how many intervals may pass without a look that came through before an invocation waits for
	// one, and patience how long it waits, once in an interval.
	overdue  = 5
	patience = 200 * time.Millisecond
)

// RefreshConfig configures a Refresher. Reader, Opener and Holder are needed.
type RefreshConfig struct {
	Reader Reader
	Opener Opener
	Holder *Holder
	Every  time.Duration    // Interval when 0
	Now    func() time.Time // time.Now when nil
	// Observe is told of each look, of one at a time: a new snapshot, an error, or nil and nil when nothing changed.
	Observe func(s *Snapshot, err error)
}

// Refresher brings new snapshots to a Holder. It is safe for concurrent use; one look is under way at a time.
type Refresher struct {
	c RefreshConfig

	mu      sync.Mutex
	running chan struct{} // closed when the look under way ends; nil when none is
	err     error         // of the last look
	tag     string        // of the object that need not be read again
	refusal error         // why that is of no use; nil when it is held
	next    time.Time     // when the next look is due
	through time.Time     // when a look came through last, or the first was due
	waited  time.Time     // when an invocation waited last
}

// NewRefresher returns a Refresher, which does nothing until it is told.
func NewRefresher(c RefreshConfig) (*Refresher, error) {
	if c.Reader == nil || c.Opener == nil || c.Holder == nil {
		return nil, fmt.Errorf("%w: a refresher needs a reader, an opener and a holder", ErrInvalid)
	}
	if c.Every == 0 {
		c.Every = Interval
	}
	if c.Every < 0 {
		return nil, fmt.Errorf("%w: refresh every %v", ErrInvalid, c.Every)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Observe == nil {
		c.Observe = func(*Snapshot, error) {}
	}
	return &Refresher{c: c}, nil
}

// Start looks for the snapshot when a process starts, and waits for at most limit. An error says why there is
// none yet, and is no reason not to serve: the look goes on, and others follow.
func (r *Refresher) Start(ctx context.Context, limit time.Duration) error {
	r.mu.Lock()
	done := r.look()
	r.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.err
	case <-timer.C:
		return fmt.Errorf("the snapshot of cell %q did not come within %v; it is waited for no longer, but still read", r.c.Holder.cell, limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run looks for new snapshots until ctx is done: the form of a process that is never frozen. Looks of many
// processes spread over the interval.
func (r *Refresher) Run(ctx context.Context) {
	for {
		r.mu.Lock()
		pause := max(0, r.next.Sub(r.c.Now()))
		r.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		r.mu.Lock()
		done := r.look()
		r.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// Beside is the form of a Lambda environment, which runs only during its invocations: call it when one
// begins. When a look is due it begins one, which runs beside the invocation, and when that ends first, goes
// on in the next. Nobody waits for it, but where invocations are so short and rare that none came through for
// 5 intervals: then one invocation in each interval waits, for 200 ms at most.
func (r *Refresher) Beside(ctx context.Context) {
	now := r.c.Now().Round(0) // a frozen environment's monotonic clock may stand still
	r.mu.Lock()
	if r.through.IsZero() {
		r.through = now
	}
	// No look is due later than an interval from now, but for a clock that was set back.
	due, wait := !now.Before(r.next) || r.next.Sub(now) > max(r.interval(), again), false
	if now.Sub(r.through) > overdue*r.interval() && now.Sub(r.waited) >= r.interval() {
		wait, r.waited = true, now
	}
	var done <-chan struct{}
	if due || wait {
		done = r.look()
	}
	r.mu.Unlock()
	if !wait {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// interval is the pause between two looks. r.mu is held, or nobody else is there.
func (r *Refresher) interval() time.Duration {
	s := r.c.Holder.Snapshot()
	if s == nil {
		return r.c.Every
	}
	return r.c.Every * time.Duration(1+s.Entries.Bytes()/perInterval)
}

// look begins a look, unless one is under way, and returns what is closed when it ends. r.mu is held.
func (r *Refresher) look() <-chan struct{} {
	if r.running != nil {
		return r.running
	}
	done := make(chan struct{})
	r.running = done
	tag, refusal := r.tag, r.refusal
	go func() {
		defer close(done)
		// Not a request's context: the look outlives the request that began it.
		ctx, cancel := context.WithTimeout(context.Background(), getTimeout)
		defer cancel()
		s, tag, err := r.fetch(ctx, tag)
		switch {
		case s != nil:
			refusal = nil
		case Refused(err):
			refusal = err
		case err == nil:
			err = refusal // the same object is no better than it was
		}
		r.c.Observe(s, err) // before another look may begin
		r.mu.Lock()
		now := r.c.Now()
		r.running, r.err, r.tag, r.refusal = nil, err, tag, refusal
		if err == nil {
			r.through = now
			every := r.interval()
			r.next = now.Add(every - rand.N(every/5+1))
		} else {
			r.next = now.Add(min(again, r.c.Every))
		}
		r.mu.Unlock()
	}()
	return done
}

// fetch reads, opens and takes the object. The tag that it returns is of an object that need not be read
// again: one that was taken, or that no second look would find better.
func (r *Refresher) fetch(ctx context.Context, tag string) (_ *Snapshot, next string, err error) {
	next = tag
	defer func() { // in a goroutine of its own, nobody above this recovers
		if p := recover(); p != nil {
			err = fmt.Errorf("reading the snapshot panicked: %v\n%s", p, debug.Stack())
		}
	}()
	sealed, newTag, err := r.c.Reader.Get(ctx, tag)
	if errors.Is(err, ErrSame) {
		return nil, tag, nil
	}
	if err != nil {
		return nil, tag, fmt.Errorf("read the snapshot of cell %q: %w", r.c.Holder.cell, err)
	}
	want := Want{Cell: r.c.Holder.cell, Above: r.c.Holder.Generation(), Now: r.c.Now()}
	if want.Above == 0 {
		want.Age = MaxAge
	}
	s, err := Open(ctx, r.c.Opener, sealed, want)
	if err == nil {
		err = r.c.Holder.Take(s)
	}
	switch {
	case err == nil:
		return s, newTag, nil
	case Refused(err) && !errors.Is(err, ErrFuture):
		return nil, newTag, err
	}
	return nil, tag, err
}

// Refused says whether an error judges the snapshot itself, so that the same object will not do later either,
// save one from the future.
func Refused(err error) bool {
	for _, refusal := range []error{ErrMalformed, ErrForged, ErrCell, ErrOlder, ErrFuture, ErrTooOld} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
