package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/show"
)

func rolloutWatch(a *app) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Follow a rollout that another process drives, until it ends",
		Long: `Follow the journal of a rollout: as a picture of its cells in a terminal, otherwise a line for each event. It
ends when the rollout is over, or halted and driven by nobody. It changes nothing, and may be ended and given again.
ID is the latest rollout unless it is given.

Exit status 0 when the rollout is done, 3 when it ended in any other way.`,
		Example: "  cellwall rollout watch --directory aws",
		Args:    atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := optionalID(args)
			return f.with(cmd.Context(), func(d *rolloutDesk) error { return f.watch(cmd.Context(), d, id) })
		},
	}
	f.where(cmd)
	f.summarises(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object for each event, a line each")
	return cmd
}

func (f *rolloutFlags) watch(ctx context.Context, d *rolloutDesk, id string) error {
	last, err := d.last(ctx, id)
	if err != nil {
		return f.explain(id, rollout.State{}, err)
	}
	p := f.newProgress(f.asJSON, f.rollouts.clock.Now)
	p.hint = func(s rollout.State) string { return f.nextUnder(s, p.lease) }
	f.watches()
	end := p.draw()
	s, err := f.follow(ctx, d, last, p)
	lost := end()
	if _, ended := errors.AsType[Interrupted](err); ended {
		return errors.Join(err, lost, f.summarise(s)) // the rollout goes on, whoever drives it
	}
	return errors.Join(f.outcome(s, err), lost, f.summarise(s))
}

// eventsAtOnce is how many records are read at once.
const eventsAtOnce = 200

// follow shows a journal as it grows, from a record on.
func (f *rolloutFlags) follow(ctx context.Context, d *rolloutDesk, last run.Record, p *progress) (rollout.State, error) {
	id := last.State.Spec.ID
	p.Recorded(last)
	replay := show.NewReplay(last.State)
	replay.Jump(last)
	alone := false
	for failed := 0; ; {
		s := replay.State()
		if s.Status.Over() {
			return s, nil
		}
		lease, err := d.lease(ctx)
		if err == nil {
			p.holds(lease)
			drives := lease != nil && lease.Until.After(f.rollouts.clock.Now())
			if drives {
				alone = false
			} else if !alone { // lines do not say it otherwise, and nothing comes any more
				alone = true
				p.alone(f.nextUnder(s, lease))
			}
			if s.Status == rollout.IsHalted && !drives {
				// What was journalled before the lease was given back is read.
				if last, err = d.store.Last(ctx, d.service, id); err == nil && last.Seq == replay.Seq() {
					return s, nil
				}
			}
		}
		var records []run.Record
		if err == nil {
			records, err = d.store.Events(ctx, d.service, id, replay.Seq(), eventsAtOnce)
		}
		for _, r := range records {
			if _, err := replay.Take(r); err != nil { // another version of the engine wrote it
				if r, err = d.store.Last(ctx, d.service, id); err != nil {
					return replay.State(), err
				}
				replay.Jump(r)
				p.Recorded(r)
				break
			}
			r.State = replay.State()
			p.Recorded(r)
		}
		switch {
		case ctx.Err() != nil:
			return replay.State(), context.Cause(ctx)
		case err == nil:
			failed = 0
		default:
			if failed++; failed == watchTries {
				return replay.State(), err
			}
			p.Trouble(err)
		}
		if len(records) < eventsAtOnce {
			select {
			case <-ctx.Done():
			case <-time.After(f.rollouts.poll):
			}
		}
	}
}

// watchTries is how often in a row a journal may not be read.
const watchTries = 30
