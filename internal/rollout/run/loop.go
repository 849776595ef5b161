package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// loop is one rollout while it is driven. Its own goroutine alone has the state; commands have theirs, and tell it.
type loop struct {
	*Driver
	h       *hold
	record  Record
	work    context.Context // of commands
	workers sync.WaitGroup
	answers chan answer
	permits chan permit
	changes chan struct{} // a place for each command that changes something
	looks   chan struct{} // a place for each look and read
	asked   map[question]*asked
	told    int       // Prepare, Execute and Restore without an answer
	wishes  time.Time // when they are read next
}

// question is what is repeated for as long as it is due.
type question struct {
	kind        rollout.CommandKind
	cell, stage string
}

type asked struct {
	running bool
	begun   time.Time
	next    time.Time
	failed  int // in a row
}

// soon makes it be asked again before the interval is over, but not at once: whatever is answered, no answer leads to
// questions without an end.
func (a *asked) soon(interval time.Duration) {
	a.next = a.begun.Add(min(interval, soonest))
}

type answer struct {
	command rollout.Command
	event   rollout.Event
}

type permit struct {
	command rollout.Command
	again   bool // a change of this command has begun
	reply   chan error
}

func newLoop(d *Driver, h *hold) *loop {
	return &loop{Driver: d, h: h, answers: make(chan answer), permits: make(chan permit),
		changes: make(chan struct{}, d.Changes), looks: make(chan struct{}, d.Looks), asked: make(map[question]*asked)}
}

// drive takes the rollout over and performs what is due until it comes to rest. When it returns, no command is under way.
func (l *loop) drive(w Wish) (rollout.State, error) {
	if err := l.takeOver(w); err != nil {
		return l.record.State, err
	}
	work, stop := context.WithCancel(l.h.ctx)
	l.work = work
	defer l.workers.Wait()
	defer stop()
	l.beginAll(rollout.Due(l.record.State))
	err := l.turn()
	return l.record.State, err
}

// takeOver journals that this driver holds the rollout now, and what is wished, if anything.
func (l *loop) takeOver(w Wish) error {
	lease := l.h.is()
	if err := l.next(rollout.Event{Kind: rollout.Taken, At: l.Clock.Now(), Fencing: lease.Fencing, By: lease.Holder}); err != nil {
		return err
	}
	if err := l.leftBehind(); err != nil {
		return err
	}
	if w.Kind == "" {
		return nil
	}
	w, err := l.fitting(l.record.State, w)
	if err != nil || w.Kind == "" {
		return err
	}
	return l.next(l.event(w, lease.Fencing))
}

// leftBehind takes away what was wished of a holder who is gone, and obeys it unless it would let the rollout go on: who
// takes over says that himself, and what he says is newer.
func (l *loop) leftBehind() error {
	wishes, err := l.wished()
	if err != nil {
		return fmt.Errorf("reading the wishes: %w", err)
	}
	for _, w := range wishes {
		if err := l.grant(w, w.Kind != rollout.Resume); err != nil {
			return err
		}
	}
	return nil
}

// turn is the loop.
func (l *loop) turn() error {
	for {
		if l.h.ctx.Err() != nil {
			return context.Cause(l.h.ctx)
		}
		// Before it ends, and every second, it is asked what somebody wants.
		if l.rests() || !l.Clock.Now().Before(l.wishes) {
			if err := l.obey(); err != nil {
				return err
			}
			if l.rests() {
				return nil
			}
		}
		wake := l.ask()
		if l.wishes.Before(wake) {
			wake = l.wishes
		}
		select {
		case <-l.h.ctx.Done():
		case <-l.Clock.After(wake.Sub(l.Clock.Now())):
		case a := <-l.answers:
			if err := l.take(a); err != nil {
				return err
			}
		case p := <-l.permits:
			refusal, err := l.permit(p)
			p.reply <- cmp.Or(err, refusal)
			if err != nil {
				return err
			}
		}
	}
}

// rests says that there is nothing left to drive.
func (l *loop) rests() bool {
	s := l.record.State
	return s.Status.Over() || s.Status == rollout.IsHalted && l.told == 0 && len(rollout.Due(s)) == 0
}

// ask begins the looks and reads whose time has come, and says when the next is.
func (l *loop) ask() time.Time {
	now := l.Clock.Now()
	wake := now.Add(l.Interval)
	for _, c := range rollout.Due(l.record.State) {
		if c.Kind != rollout.Look && c.Kind != rollout.AskRead {
			continue
		}
		q := question{c.Kind, c.Cell, c.Stage}
		a := l.asked[q]
		if a == nil {
			a = &asked{}
			l.asked[q] = a
		}
		switch {
		case a.running:
		case a.next.After(now):
			if a.next.Before(wake) {
				wake = a.next
			}
		default:
			a.running, a.begun, a.next = true, now, now.Add(l.Interval)
			l.begin(c)
		}
	}
	return wake
}

// take does what an answer leads to.
func (l *loop) take(a answer) error {
	c := a.command
	if c.Kind != rollout.Look && c.Kind != rollout.AskRead {
		l.told--
	} else {
		q := l.asked[question{c.Kind, c.Cell, c.Stage}]
		q.running = false
		if !slices.Contains(rollout.Due(l.record.State), c) { // of a state before: it is asked again
			q.soon(l.Interval)
			return nil
		}
		if a.event.Error == "" {
			q.failed = 0
		} else if q.failed++; q.failed < l.Tries {
			l.Observer.Trouble(fmt.Errorf("%s of cell %s: %s", c.Kind, c.Cell, a.event.Error))
			return nil
		}
	}
	err := l.next(a.event)
	if errors.Is(err, rollout.ErrUnexpected) { // the rollout went another way meanwhile
		return nil
	}
	return err
}

// next journals what an event leads to, and begins what it asks for. What changes nothing is not journalled.
func (l *loop) next(e rollout.Event) error {
	s, fresh, err := rollout.Next(l.record.State, e)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(s, l.record.State) {
		l.Observer.Seen(e)
		return nil
	}
	if err := l.append(Record{Seq: l.record.Seq + 1, Event: &e, State: s}); err != nil {
		return err
	}
	if l.work != nil {
		l.beginAll(fresh)
	}
	return nil
}

// beginAll begins what is told once. What is asked again and again is asked soon, whenever that was last.
func (l *loop) beginAll(fresh []rollout.Command) {
	for _, c := range fresh {
		if c.Kind != rollout.Look && c.Kind != rollout.AskRead {
			l.told++
			l.begin(c)
		} else if a := l.asked[question{c.Kind, c.Cell, c.Stage}]; a != nil {
			a.soon(l.Interval)
		}
	}
}

// append writes a record, again and again while the store does not answer and the lease lasts, but not for ever.
func (l *loop) append(r Record) error {
	until := l.Clock.Now().Add(appendTime)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ctx, stop := l.within(l.h.ctx, storeTime)
		err := l.Journal.Append(ctx, l.h.is(), r)
		if errors.Is(err, ErrStale) && l.written(ctx, r) { // by a try whose answer was lost
			err = nil
		}
		stop()
		switch {
		case err == nil:
			l.record = r
			l.Observer.Recorded(r)
			return nil
		case errors.Is(err, ErrLost):
			l.h.lost(err)
			return err
		case errors.Is(err, ErrStale):
			return fmt.Errorf("journalling: %w", err)
		case !l.Clock.Now().Before(until):
			return fmt.Errorf("journalling, for %v: %w", appendTime, err)
		case l.h.ctx.Err() != nil:
			return context.Cause(l.h.ctx)
		}
		l.Observer.Trouble(fmt.Errorf("journalling: %w", err))
		if !l.sleep(l.h.ctx, wait) {
			return context.Cause(l.h.ctx)
		}
	}
}

// written says that the journal ends with just this record.
func (l *loop) written(ctx context.Context, r Record) bool {
	last, err := l.Journal.Last(ctx, l.Service, r.State.Spec.ID)
	if err != nil || last.Seq != r.Seq {
		return false
	}
	a, errA := json.Marshal(last)
	b, errB := json.Marshal(r)
	return errA == nil && errB == nil && string(a) == string(b)
}

func (l *loop) wished() ([]Wish, error) {
	ctx, stop := l.within(l.h.ctx, storeTime)
	defer stop()
	return l.Wishes.Wished(ctx, l.Service, l.record.State.Spec.ID)
}

// obey does what was left for the driver. A store that does not answer is asked again.
func (l *loop) obey() error {
	l.wishes = l.Clock.Now().Add(wishInterval)
	wishes, err := l.wished()
	if err != nil {
		l.Observer.Trouble(fmt.Errorf("reading the wishes: %w", err))
		return nil
	}
	for _, w := range wishes {
		if err := l.grant(w, true); err != nil {
			return err
		}
	}
	return nil
}

// grant does what is wished, if it is to be done, and takes the wish away.
func (l *loop) grant(w Wish, do bool) error {
	if do && w.ID != l.record.State.Wish {
		err := checkWish(w)
		if err == nil {
			err = l.next(l.event(w, l.h.is().Fencing))
		}
		switch {
		case errors.Is(err, rollout.ErrUnexpected), errors.Is(err, rollout.ErrInvalid):
			l.Observer.Trouble(fmt.Errorf("a wish is refused: %w", err))
		case err != nil:
			return err
		}
	}
	ctx, stop := l.within(l.h.ctx, storeTime)
	defer stop()
	if err := l.Wishes.Answer(ctx, l.Service, w); err != nil {
		l.Observer.Trouble(fmt.Errorf("taking a wish away: %w", err))
	}
	return nil
}

// permit says whether a command may begin, now: the refusal, or an error that ends the driver. All that is known already
// is taken first. What has begun goes on while it is awaited, since half a stage is worse than a pause that comes late.
func (l *loop) permit(p permit) (refusal, err error) {
	for more := true; more; {
		select {
		case a := <-l.answers:
			if err := l.take(a); err != nil {
				return nil, err
			}
		default:
			more = false
		}
	}
	wishes, err := l.wished()
	if err != nil {
		return fmt.Errorf("reading the wishes: %w", err), nil
	}
	for _, w := range wishes {
		if err := l.grant(w, true); err != nil {
			return nil, err
		}
	}
	if err := l.h.keep(l.h.ctx); errors.Is(err, ErrLost) {
		return nil, err
	} else if err != nil {
		return err, nil
	}
	c, s := p.command, l.record.State
	if rollout.May(s, c) || p.again && slices.Contains(rollout.Due(s), c) {
		return nil, nil
	}
	return fmt.Errorf("the rollout is %s: %s of cell %s, stage %s, is not due any more", s.Status, c.Kind, c.Cell, c.Stage), nil
}
