package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

const (
	askTime   = time.Minute     // that one look may last
	readTime  = 5 * time.Minute // that one read may last: of a large stage, where others are read beside it
	errorSize = 1000            // bytes of an error that are journalled
)

// errNotBegun is what a command meets that may not begin.
var errNotBegun = errors.New("not begun")

// begin performs a command on a goroutine of its own, as soon as there is a place for it.
func (l *loop) begin(c rollout.Command) {
	places := l.changes
	if c.Kind == rollout.Look || c.Kind == rollout.AskRead {
		places = l.looks
	}
	unreached := l.unreached()
	l.workers.Go(func() {
		select {
		case places <- struct{}{}:
		case <-l.work.Done():
			return
		}
		e := l.perform(c, unreached)
		<-places
		select {
		case l.answers <- answer{c, e}:
		case <-l.work.Done():
		}
	})
}

// unreached is the cells that the rollout has not changed yet.
func (l *loop) unreached() []string {
	var names []string
	for _, c := range l.record.State.Cells {
		switch c.Step {
		case rollout.Proving, rollout.Baking, rollout.Done: // it may have been so before
			continue
		}
		if !slices.ContainsFunc(c.Stages, func(s rollout.Stage) bool { return s.Touched }) {
			names = append(names, c.Name)
		}
	}
	return names
}

// perform does what a command says, and is its answer. A port that panics has failed.
func (l *loop) perform(c rollout.Command, unreached []string) (e rollout.Event) {
	e = rollout.Event{At: l.Clock.Now(), Fencing: c.Fencing, Cell: c.Cell, Stage: c.Stage}
	var err error
	var mu sync.Mutex
	granted, refused := false, false
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if c.Kind != rollout.Look { // a look says nothing of what came while it lasted
			e.At = l.Clock.Now()
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			e.Error, e.Untouched = cmp.Or(short(err.Error()), "an error without a text"), refused && !granted
		}
	}()
	may := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if err := l.mayBegin(ctx, permit{c, granted, make(chan error, 1)}); err != nil {
			refused = true
			return fmt.Errorf("%w: %w", errNotBegun, err)
		}
		granted = true
		return nil
	}
	switch c.Kind {
	case rollout.Look:
		e.Kind = rollout.Looked
		ctx, stop := l.within(l.work, askTime)
		defer stop()
		var o rollout.Observation
		if o, err = l.Gate.Look(ctx, c.Cell, c.Since, c.From, unreached); err == nil {
			e.Observation = &o
		}
	case rollout.AskRead:
		e.Kind = rollout.Read
		ctx, stop := l.within(l.work, readTime)
		defer stop()
		var r Reading
		r, err = l.Stacks.Read(ctx, c.Cell, c.Stage, c.WentBack)
		e.Stack, e.Digest, e.Why, e.WentBack = r.Stack, r.Digest, short(r.Why), r.WentBack
	case rollout.Prepare:
		e.Kind = rollout.Prepared
		err = l.Stacks.Prepare(l.work, c.Cell, c.Stage, c.Digest, c.Fencing)
	case rollout.Execute:
		e.Kind = rollout.Executed
		err = l.Stacks.Execute(l.work, c.Cell, c.Stage, c.Digest, c.Fencing, may)
	case rollout.Restore:
		e.Kind = rollout.Restored
		err = l.Stacks.Restore(l.work, c.Cell, c.Stage, c.Digest, c.Fencing, may)
	}
	return e
}

// mayBegin asks the loop, which alone knows the state.
func (l *loop) mayBegin(ctx context.Context, p permit) error {
	select {
	case l.permits <- p:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.work.Done():
		return context.Cause(l.work)
	}
	select {
	case err := <-p.reply:
		return err
	case <-l.work.Done():
		return context.Cause(l.work)
	}
}

// short is a text as far as a journal has room for it, in one line.
func short(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > errorSize {
		text = strings.ToValidUTF8(text[:errorSize], "") + " …"
	}
	return text
}
