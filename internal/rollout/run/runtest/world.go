package runtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Change is what a deployment does.
type Change int

const (
	Works  Change = iota
	Fails         // the stack is rolled back, and the command says so
	Hides         // the stack is rolled back, and the command says that all went well
	Skips         // nothing happens, and the command says that all went well
	Sticks        // the stack is in UPDATE_ROLLBACK_FAILED
	Panics        // before the first change
)

// World is the stages of cells, with their gate. Lasts and what follows it may be set until a driver uses it.
type World struct {
	Clock clock
	Lasts time.Duration // a change
	Delay time.Duration // before a change asks for its permit
	Deaf  bool          // a change is waited for also when ctx has ended
	// Does says what a change of the stage to a digest does; nil: it works.
	Does func(cell, stage, digest string) Change
	// Sees is what the gate shows; nil: a green gate with 1,000 requests.
	Sees func(cell string, since, from time.Time, unreached []string) (rollout.Observation, error)

	mu       sync.Mutex
	stages   map[string]*stage
	executed []Executed
	looks    int
}

// clock is a run.Clock.
type clock interface{ Now() time.Time }

// Executed is a change that was begun.
type Executed struct {
	Cell, Stage, Digest string
	Fencing             uint64
	At                  time.Time
	Restored            bool
}

type stage struct {
	status   rollout.StackStatus
	digest   string
	version  int // rises with each change: a change set made before it is refused
	prepared map[string]int
	until    time.Time // of the change that is under way
	then     rollout.StackStatus
	to       string
}

// NewWorld has every stage of every cell at the digest, and none when that is "".
func NewWorld(c clock, spec rollout.Spec, digest string) *World {
	w := &World{Clock: c, stages: make(map[string]*stage)}
	for _, wave := range spec.Waves {
		for _, batch := range wave.Batches {
			for _, p := range batch {
				for _, s := range p.Stages {
					status := rollout.Complete
					if digest == "" {
						status = rollout.Absent
					}
					w.stages[p.Name+"/"+s.Name] = &stage{status: status, digest: digest, prepared: make(map[string]int)}
				}
			}
		}
	}
	return w
}

// at is the stage as it stands now. The caller has the lock.
func (w *World) at(cell, name string) (*stage, error) {
	s := w.stages[cell+"/"+name]
	if s == nil {
		return nil, fmt.Errorf("there is no stage %s of cell %s", name, cell)
	}
	if !s.until.IsZero() && !w.Clock.Now().Before(s.until) {
		s.status, s.digest, s.until = s.then, s.to, time.Time{}
	}
	return s, nil
}

// Read implements run.Stacks.
func (w *World) Read(ctx context.Context, cell, name, wentBack string) (run.Reading, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.at(cell, name)
	if err != nil || ctx.Err() != nil {
		return run.Reading{Stack: rollout.Unknown}, errors.Join(err, ctx.Err())
	}
	r := run.Reading{Stack: s.status, Digest: s.digest}
	if s.status == rollout.RolledBack {
		if r.WentBack = fmt.Sprint("change ", s.version); r.WentBack == wentBack {
			r.Stack = rollout.Complete
		}
	}
	return r, nil
}

// Prepare implements run.Stacks.
func (w *World) Prepare(ctx context.Context, cell, name, digest string, fencing uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.at(cell, name)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	s.prepared[fmt.Sprint(digest, "-", fencing)] = s.version
	return nil
}

// Execute implements run.Stacks.
func (w *World) Execute(ctx context.Context, cell, name, digest string, fencing uint64, permit func(context.Context) error) error {
	w.mu.Lock()
	s, err := w.at(cell, name)
	does := w.does(cell, name, digest)
	version, prepared := 0, false
	if err == nil {
		version, prepared = s.prepared[fmt.Sprint(digest, "-", fencing)]
	}
	w.mu.Unlock()
	switch {
	case err != nil:
		return err
	case does == Panics:
		panic("the adapter is broken")
	case !prepared:
		return fmt.Errorf("nothing was prepared for %s by %d", digest, fencing)
	}
	return w.change(ctx, cell, name, digest, fencing, &version, does, permit)
}

// Restore implements run.Stacks.
func (w *World) Restore(ctx context.Context, cell, name, digest string, fencing uint64, permit func(context.Context) error) error {
	return w.change(ctx, cell, name, digest, fencing, nil, w.does(cell, name, digest), permit)
}

func (w *World) does(cell, name, digest string) Change {
	if w.Does == nil {
		return Works
	}
	return w.Does(cell, name, digest)
}

// change begins a change, which comes to its end whatever becomes of ctx, and waits for it.
func (w *World) change(ctx context.Context, cell, name, digest string, fencing uint64, version *int, does Change, permit func(context.Context) error) error {
	time.Sleep(w.Delay)
	if err := permit(ctx); err != nil {
		return fmt.Errorf("changing %s of %s: %w", name, cell, err)
	}
	w.mu.Lock()
	s, err := w.at(cell, name)
	switch {
	case err != nil:
	case s.status == rollout.InProgress:
		err = fmt.Errorf("stack %s/%s is in progress", cell, name)
	case s.status == rollout.Stuck:
		err = fmt.Errorf("stack %s/%s is in UPDATE_ROLLBACK_FAILED", cell, name)
	case version != nil && *version != s.version:
		err = fmt.Errorf("the change set of %s/%s is obsolete", cell, name)
	}
	if err != nil || does == Skips {
		w.mu.Unlock()
		return err
	}
	w.executed = append(w.executed, Executed{cell, name, digest, fencing, w.Clock.Now(), version == nil})
	s.version++
	s.to, s.then = digest, rollout.Complete
	switch does {
	case Fails, Hides:
		s.to, s.then = s.digest, rollout.RolledBack
	case Sticks:
		s.to, s.then = s.digest, rollout.Stuck
	}
	s.status, s.until = rollout.InProgress, w.Clock.Now().Add(w.Lasts)
	w.mu.Unlock()
	if w.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.Lasts):
	}
	if does == Fails || does == Sticks {
		return fmt.Errorf("stack %s/%s: the update failed", cell, name)
	}
	return nil
}

// Look implements run.Gate.
func (w *World) Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (rollout.Observation, error) {
	w.mu.Lock()
	w.looks++
	w.mu.Unlock()
	if w.Sees == nil {
		return rollout.Observation{Requests: 1000}, ctx.Err()
	}
	return w.Sees(cell, since, from, unreached)
}

// Set is somebody else who changes a stage.
func (w *World) Set(cell, name string, status rollout.StackStatus, digest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.at(cell, name)
	if err != nil {
		panic(err)
	}
	s.status, s.digest, s.until = status, digest, time.Time{}
	s.version++
}

// Executed is every change that was begun, in order.
func (w *World) Executed() []Executed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.executed)
}

// Looks is how often the gate was looked at.
func (w *World) Looks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// Digests is what each stage runs, as cell/stage.
func (w *World) Digests() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	digests := make(map[string]string)
	for key, s := range w.stages {
		digests[key] = s.digest
		if !s.until.IsZero() && !w.Clock.Now().Before(s.until) {
			digests[key] = s.to
		}
	}
	return digests
}
