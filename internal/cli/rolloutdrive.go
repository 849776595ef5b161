package cli

import (
	"context"
	"errors"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// driver is a driver of the desk's rollouts. Without hands it can do what is wished, and drive nothing.
func (f *rolloutFlags) driver(d *rolloutDesk, h *rolloutHands, o run.Observer) (*run.Driver, error) {
	c := run.Config{Service: d.service, Holder: d.holder, Leases: d.store, Journal: d.store, Wishes: d.store,
		Clock: f.rollouts.clock, Patience: f.rollouts.patience, Observer: o}
	c.Stacks, c.Gate = noHands{}, noHands{}
	if h != nil {
		c.Stacks, c.Gate, c.Interval = h.stacks, h.gate, h.interval
	}
	return run.New(c)
}

// drive has a driver do something until the rollout comes to rest, and shows it.
func (f *rolloutFlags) drive(ctx context.Context, d *rolloutDesk, h *rolloutHands, do func(context.Context, *run.Driver) (rollout.State, error)) error {
	p := f.newProgress(f.asJSON, f.rollouts.clock.Now)
	p.hint = f.next
	driver, err := f.driver(d, h, p)
	if err != nil {
		return err
	}
	f.watches() // what is under way is ended in order, and the lease given back
	outlivesReaders()
	end := p.draw()
	s, err := do(ctx, driver)
	lost := end()
	err = f.outcome(s, err)
	if p.replay == nil {
		return err // nothing was driven; s may be another rollout
	}
	return errors.Join(err, lost, f.summarise(s))
}

// outcome is what a rollout that nobody drives any more means to a caller: status 0 only when it is done.
func (f *rolloutFlags) outcome(s rollout.State, err error) error {
	if _, ended := errors.AsType[Interrupted](err); ended || errors.Is(err, context.Canceled) {
		if s.Spec.ID == "" || s.Status.Over() {
			return err
		}
		return hint(err, "rollout %s stays as it is, and nobody drives it; go on with %s, stop it with %s", s.Spec.ID,
			f.command("resume", s.Spec.ID), f.command("abort", s.Spec.ID))
	}
	if err != nil {
		err = f.explain(s.Spec.ID, s, err)
		if statusOf(err) == ExitFailed && s.Spec.ID != "" {
			err = hint(err, "nobody drives rollout %s now; go on with %s", s.Spec.ID, f.command("resume", s.Spec.ID))
		}
		return err
	}
	if s.Status == rollout.IsDone {
		return nil
	}
	why := ""
	if s.Why != "" {
		why = ": " + s.Why
	}
	return hint(foundf("rollout %s is %s%s", s.Spec.ID, s.Status, why), "%s", f.next(s))
}

// noHands are the hands of a driver that only takes a wish.
type noHands struct{}

var errNoHands = errors.New("this command drives no rollout")

func (noHands) Read(context.Context, string, string, string) (run.Reading, error) {
	return run.Reading{Stack: rollout.Unknown}, errNoHands
}
func (noHands) Prepare(context.Context, string, string, string, uint64) error { return errNoHands }
func (noHands) Execute(context.Context, string, string, string, uint64, func(context.Context) error) error {
	return errNoHands
}
func (noHands) Restore(context.Context, string, string, string, uint64, func(context.Context) error) error {
	return errNoHands
}
func (noHands) Look(context.Context, string, time.Time, time.Time, []string) (rollout.Observation, error) {
	return rollout.Observation{}, errNoHands
}
