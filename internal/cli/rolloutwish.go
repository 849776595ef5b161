package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/show"
)

func rolloutPause(a *app) *cobra.Command {
	return wishCommand(a, rollout.Pause, &cobra.Command{
		Use:   "pause [ID]",
		Short: "Begin nothing new; what is under way is watched",
		Long: `Have a rollout begin nothing new. What is being deployed comes to its end, and what bakes is watched: an alarm
still halts. rollout resume goes on.`,
		Example: "  cellwall rollout pause --directory aws --because 'the incident of eu-1 comes first'",
	})
}

func rolloutAbort(a *app) *cobra.Command {
	return wishCommand(a, rollout.Abort, &cobra.Command{
		Use:   "abort [ID]",
		Short: "The emergency brake: ask for nothing any more, and leave every cell as it is",
		Long: `End a rollout where it is: nothing is deployed, watched or brought back any more. What CloudFormation has begun
comes to its end by itself. rollout rollback leads back from there.`,
		Example: "  cellwall rollout abort --directory aws --because 'wrong commit'",
	})
}

// wishCommand is a command that somebody who drives does, or, when nobody does, this process at once.
func wishCommand(a *app, kind rollout.EventKind, cmd *cobra.Command) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	cmd.Long += `

Whoever drives the rollout does it within a second or two, and before the next change. When nobody drives, it is done
at once, and nobody drives afterwards. ID is the latest rollout unless it is given. Exit status 3 when the rollout
is not in a state for it.`
	cmd.Args = atMostOne
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := optionalID(args)
		return f.with(cmd.Context(), func(d *rolloutDesk) error {
			w := run.Wish{Kind: kind, By: d.by, Why: f.because}
			f.watches()
			s, err := f.wish(cmd.Context(), d, id, w)
			if err != nil {
				return f.explain(id, s, err)
			}
			return f.granted(cmd.Context(), d, s)
		})
	}
	f.where(cmd)
	f.who(cmd, "why, for the record")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// wishTries is how often it is tried to find out who drives: holders come and go.
const wishTries = 5

// wish has whoever drives the rollout do what is wished, or does it when nobody does.
func (f *rolloutFlags) wish(ctx context.Context, d *rolloutDesk, id string, w run.Wish) (s rollout.State, err error) {
	driver, err := f.driver(d, nil, f.troubles())
	if err != nil {
		return rollout.State{}, err
	}
	for range wishTries {
		s, err = f.ask(ctx, driver, id, w)
		if !errors.Is(err, errNobody) {
			return s, err
		}
		if s, err = driver.Apply(ctx, id, w); !errors.Is(err, run.ErrTaken) {
			return s, err
		}
	}
	return s, err
}

// errNobody means that nobody drives.
var errNobody = errors.New("nobody drives the rollout")

// ask leaves a wish for whoever drives. errNobody when nobody does.
func (f *rolloutFlags) ask(ctx context.Context, driver *run.Driver, id string, w run.Wish) (rollout.State, error) {
	_, lives, err := driver.Living(ctx)
	if err != nil {
		return rollout.State{}, fmt.Errorf("who drives the rollout: %w", err)
	}
	if !lives {
		return rollout.State{}, errNobody
	}
	s, err := driver.Ask(ctx, id, w)
	if !errors.Is(err, run.ErrNotNow) {
		return s, err
	}
	if _, lives, again := driver.Living(ctx); errors.Is(err, run.ErrSilent) || again == nil && !lives {
		return s, errNobody
	}
	return s, err
}

// granted prints what a wish has led to.
func (f *rolloutFlags) granted(ctx context.Context, d *rolloutDesk, s rollout.State) error {
	lease, err := d.lease(ctx)
	if err != nil {
		return err
	}
	now := f.rollouts.clock.Now()
	if f.asJSON {
		return f.json(show.NewReport(s, now, lease))
	}
	by := "nobody drives it"
	if lease != nil && lease.Until.After(now) {
		by = "driven by " + lease.Holder
	}
	fmt.Fprintf(f.out, "rollout %s is %s; %s\n", show.Clean(s.Spec.ID), show.Clean(string(s.Status)), show.Clean(by))
	if next := f.next(s); next != "" {
		fmt.Fprintln(f.err, "hint:", printed(next))
	}
	return nil
}

// lease is the latest lease, or nil when there never was one.
func (d *rolloutDesk) lease(ctx context.Context) (*run.Lease, error) {
	l, is, err := d.store.Holder(ctx, d.service)
	if err != nil || !is {
		return nil, err
	}
	return &l, nil
}

// troubles prints what a driver tries again, and nothing else of what it does.
func (f *rolloutFlags) troubles() run.Observer {
	return quiet{f.newProgress(true, f.rollouts.clock.Now)}
}

type quiet struct{ *progress }

func (quiet) Recorded(run.Record) {}
func (quiet) Seen(rollout.Event)  {}

func rolloutResume(a *app) *cobra.Command {
	var despite []string
	cmd := &cobra.Command{
		Use:   "resume [ID]",
		Short: "Go on with a rollout that is paused, or that nobody drives any more",
		Long: `Go on with a rollout. When somebody drives it and it is paused, he goes on. When nobody does, this process takes
it over and drives it, whatever became of the one before: each stage is read first, so that nothing is skipped and
nothing is done twice. A rollout that rolls back goes on with that.

With --directory aws this needs the assembly, and for a way back the ones before, in --assemblies.
With --despite the named alarms, which fired before the wave or fire in other cells too, do not count any more; --because says why.

Exit status as of rollout start.`,
		Example: `  cellwall rollout resume --directory aws
  cellwall rollout resume --directory aws --despite s03/load --because 'known since Monday, ticket 123'`,
	}
	return driveCommand(a, rollout.Resume, cmd, "why, for the record, and why the alarms of --despite do not count", &despite)
}

func rolloutRollback(a *app) *cobra.Command {
	return driveCommand(a, rollout.Rollback, &cobra.Command{
		Use:   "rollback [ID]",
		Short: "Bring every cell that was deployed back to what it ran before",
		Long: `Bring every cell that a rollout has deployed back to what each of its stages ran before, all at once and
without waiting for a green gate. Cells that it has not touched stay as they are. A stage that did not exist before,
or of which it is not known what it ran, stays too, and is named.

Somebody who drives the rollout does it; when nobody does, this process takes it over. With --directory aws this needs
the assemblies of the former digests in --assemblies.

Exit status 3 in any case but that somebody else does it: what was to be deployed is not.`,
		Example: "  cellwall rollout rollback --directory aws --because 'wrong prices, ticket 124'",
	}, "why, for the record", nil)
}

// driveCommand is a command that whoever drives does, or that makes this process the one who drives.
func driveCommand(a *app, kind rollout.EventKind, cmd *cobra.Command, because string, despite *[]string) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	cmd.Args = atMostOne
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := optionalID(args)
		ctx := cmd.Context()
		if despite != nil && len(*despite) > 0 && f.because == "" {
			return hint(usagef("--despite without --because"), "say why the alarm does not count: --because \"…\"")
		}
		return f.with(ctx, func(d *rolloutDesk) error {
			w := run.Wish{Kind: kind, By: d.by, Why: f.because}
			if despite != nil {
				w.Despite = despites(*despite, f.because, d.by)
			}
			return f.takeOver(ctx, d, id, w)
		})
	}
	f.where(cmd)
	f.who(cmd, because)
	f.drives(cmd)
	if despite != nil {
		wordsVar(cmd.Flags(), despite, "despite", "alarms that do not count, as the rollout names them, separated by commas")
	}
	return cmd
}

func despites(alarms []string, because, by string) []rollout.Despite {
	var out []rollout.Despite
	for _, alarm := range alarms {
		out = append(out, rollout.Despite{Alarm: alarm, Because: because, By: by})
	}
	return out
}

// takeOver has whoever drives do what is wished, or drives.
func (f *rolloutFlags) takeOver(ctx context.Context, d *rolloutDesk, id string, w run.Wish) error {
	f.watches()
	asker, err := f.driver(d, nil, f.troubles())
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		s, err := f.ask(ctx, asker, id, w)
		if err == nil {
			return errors.Join(f.granted(ctx, d, s), f.summarise(s))
		}
		if !errors.Is(err, errNobody) {
			return f.explain(id, s, err)
		}
		last, err := d.last(ctx, id)
		if err != nil {
			return f.explain(id, rollout.State{}, err)
		}
		hands, err := f.rollouts.hands(ctx, f, d, last.State, w.Kind)
		if err != nil {
			return err
		}
		err = f.drive(ctx, d, hands, func(ctx context.Context, driver *run.Driver) (rollout.State, error) {
			return driver.Resume(ctx, last.State.Spec.ID, w)
		})
		err = errors.Join(err, hands.close())
		if !errors.Is(err, run.ErrTaken) || try == wishTries {
			return err
		}
	}
}
