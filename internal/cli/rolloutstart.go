package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/show"
)

// localBake is how long workers on this machine bake: long enough to see what fails at once.
const localBake = 10 * time.Second

// rolloutStartFlags are what start alone has.
type rolloutStartFlags struct {
	app, worker string
	before      string // of app
	phase       string
	needsOld    []string
	despite     []string
	revert      bool
	bake        time.Duration // of --worker, unless asFleet
	asFleet     bool
	minRequests int // of --worker; -1: as the fleet has it
}

func rolloutStart(a *app) *cobra.Command {
	f := &rolloutFlags{directoryFlags: directoryFlags{app: a}}
	s := &rolloutStartFlags{}
	cmd := &cobra.Command{
		Use:   "start (--app DIR --directory aws | --worker FILE --directory local)",
		Short: "Bring one assembly, or one worker, to all cells in the fleet's waves",
		Long: `Bring one version to all cells, in the waves of rollout plan, and watch it. The version is a cloud assembly (--app), synthesised
once and known by its digest, or, for the cells of this machine, a worker's program (--worker).

Before the first change everything is checked: the assembly is audited as cellwall audit does it, with the
fleet's waivers, and must be of this service and of this very fleet; the waves must reach every cell; the credentials must
reach the account of each cell; nobody else may drive the service's rollouts, and the last one must be over.

Then each cell is deployed in its stages. A stage counts when its stacks are complete with this digest, its gate
was green all along its bake, and enough requests were seen. An alarm, a failed or a skipped deployment halts;
missing data, and an alarm that is not the rollout's alone, pause it, and this command goes on watching until somebody
gives rollout resume, abort or rollback. Interrupt once to stop driving in order: the rollout stays as it is, and rollout
resume goes on, here or elsewhere. Interrupt twice to end at once, which is as safe.

Exit status 0 when every cell is done. 3 when something was found or refused, before any change, or when the rollout was
halted, rolled back or aborted. 1 when it failed: nobody drives the rollout then. 130 when it was interrupted.`,
		Example: `  cellwall rollout start --app cdk.out --directory aws
  cellwall rollout start --app cdk.out --directory aws --json --summary "$GITHUB_STEP_SUMMARY"
  cellwall rollout start --worker dist/worker --directory local`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noneEmpty(cmd); err != nil {
				return err
			}
			if err := s.check(f, cmd.Flags().Changed); err != nil {
				return err
			}
			return f.with(cmd.Context(), func(d *rolloutDesk) error { return f.start(cmd.Context(), d, s) })
		},
	}
	wordVar(cmd.Flags(), &s.app, "app", "", "cloud assembly `DIR`, such as cdk.out")
	wordVar(cmd.Flags(), &s.before, "before", "", "with --app: cloud assembly `DIR` that is deployed now, so that a rollback finds it; the audit compares with it")
	wordVar(cmd.Flags(), &s.worker, "worker", "", "with --directory local: the worker's program `FILE`")
	wordVar(cmd.Flags(), &s.phase, "phase", string(rollout.Release), "release, or the part of a change of schema or messages: expand, migrate or contract")
	wordsVar(cmd.Flags(), &s.needsOld, "needs-old", "with --phase contract: digests that need the old form, separated by commas; none may run in any cell")
	wordsVar(cmd.Flags(), &s.despite, "despite", "alarms that fire already and do not count, as the rollout names them (health, s03/load), separated by commas; with --because")
	cmd.Flags().BoolVar(&s.revert, "revert", false, "roll back by itself after a halt")
	cmd.Flags().DurationVar(&s.bake, "bake", localBake, "with --worker: how long each zone of a cell bakes, instead of as the fleet says")
	cmd.Flags().BoolVar(&s.asFleet, "fleet-bakes", false, "with --worker: bake as long as the fleet says")
	intVar(cmd.Flags(), &s.minRequests, "min-requests", -1, "with --worker: requests before a bake may end, 0 for none (default: as the fleet says)")
	f.where(cmd)
	f.who(cmd, "why the alarms of --despite do not count")
	f.drives(cmd)
	return cmd
}

// check is what can be said of the flags alone.
func (s *rolloutStartFlags) check(f *rolloutFlags, given func(string) bool) error {
	for _, name := range []string{"bake", "fleet-bakes", "min-requests"} {
		if s.worker == "" && given(name) {
			return hint(usagef("--%s is for --worker", name), "on AWS the fleet's rollout says it")
		}
	}
	switch {
	case (s.app == "") == (s.worker == ""):
		return hint(usagef("what is to be rolled out? name one of --app and --worker"), "--app cdk.out --directory aws, or --worker FILE --directory local")
	case s.worker != "" && s.before != "":
		return usagef("--before is for --app")
	case s.worker != "" && f.directory != "" && f.directory != directoryLocal:
		return usagef("--worker is for the cells of this machine: --directory local")
	case s.app != "" && f.directory != directoryAWS:
		return hint(usagef("--app is for cells on AWS: --directory aws"), "without --directory the local cell would be meant")
	case s.bake < 0 || given("min-requests") && s.minRequests < 0:
		return usagef("--bake and --min-requests are at least 0")
	case s.asFleet && given("bake"):
		return usagef("--bake and --fleet-bakes: one of them says how long")
	case len(s.despite) > 0 && f.because == "":
		return hint(usagef("--despite without --because"), "say why the alarm does not count: --because \"…\"")
	case len(s.despite) == 0 && f.because != "":
		return usagef("--because says why the alarms of --despite do not count, and none is named")
	}
	switch phase := rollout.Phase(s.phase); phase {
	case rollout.Release, rollout.Expand, rollout.Migrate:
		if len(s.needsOld) > 0 {
			return usagef("--needs-old is asked of --phase contract only, and this is %s", phase)
		}
	case rollout.Contract:
		if len(s.needsOld) == 0 {
			return hint(usagef("--phase contract without --needs-old"), "name the digests that read or write the old form; %s lists the rollouts with theirs", f.command("history"))
		}
	default:
		return usagef("--phase %q: it is release, expand, migrate or contract", s.phase)
	}
	return nil
}

func (f *rolloutFlags) start(ctx context.Context, d *rolloutDesk, s *rolloutStartFlags) (err error) {
	spec, err := f.rollouts.plan(ctx, f, d, s)
	if err != nil {
		return err
	}
	spec.Service, spec.Phase, spec.NeedOld, spec.Revert = d.service, rollout.Phase(s.phase), s.needsOld, s.revert
	spec.Despite = despites(s.despite, f.because, d.by)
	now := f.rollouts.clock.Now()
	if spec.ID, err = newRolloutID(now); err != nil {
		return err
	}
	fresh, err := rollout.New(spec, now)
	if err != nil {
		return f.explain("", fresh, err)
	}
	if err := f.free(ctx, d); err != nil {
		return err
	}
	hands, err := f.rollouts.hands(ctx, f, d, fresh, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hands.close()) }()
	f.announce(fresh)
	return f.drive(ctx, d, hands, func(ctx context.Context, driver *run.Driver) (rollout.State, error) {
		driver.Patience = 0 // whoever holds the lease is not to be overtaken by another rollout
		s, err := driver.Start(ctx, spec)
		if errors.Is(err, run.ErrNotNow) {
			err = f.under(s)
		}
		return s, err
	})
}

// free refuses, before anything is prepared, a rollout while another is under way. The driver refuses it again, with the
// lease in its hand.
func (f *rolloutFlags) free(ctx context.Context, d *rolloutDesk) error {
	latest, err := d.store.Latest(ctx, d.service)
	switch {
	case errors.Is(err, run.ErrNone):
	case err != nil:
		return err
	case !latest.State.Status.Over():
		return f.under(latest.State)
	}
	lease, err := d.lease(ctx)
	if err != nil {
		return err
	}
	if lease != nil && lease.Until.After(f.rollouts.clock.Now()) {
		return f.explain("", rollout.State{}, &run.TakenError{Holder: lease.Holder, Until: lease.Until})
	}
	return nil
}

// under refuses a rollout because another is not over, and says how to go on with that one.
func (f *rolloutFlags) under(s rollout.State) error {
	how := "go on with " + f.command("resume", s.Spec.ID) + ", back with " + f.command("rollback", s.Spec.ID) + ", or leave it as it is with " + f.command("abort", s.Spec.ID)
	if s.Status == rollout.IsHalted {
		how = f.next(s)
	}
	return hint(foundf("rollout %s of %s is %s: another can begin when it is over", s.Spec.ID, s.Spec.Service, s.Status), "%s", how)
}

// announce says what is about to happen.
func (f *rolloutFlags) announce(s rollout.State) {
	fmt.Fprintf(f.err, "rollout %s of %s: %s, %s in %s; the bakes take %s at least\n", s.Spec.ID, show.Clean(s.Spec.Service), show.Clean(s.Spec.Digest),
		count(len(s.Cells), "cell"), count(len(s.Spec.Waves), "wave"), show.Left(s, s.Started).Round(time.Second))
	for i, w := range s.Spec.Waves {
		var batches []string
		for _, b := range w.Batches {
			var names []string
			for _, c := range b {
				names = append(names, show.Clean(c.Name))
			}
			batches = append(batches, several(names, 12))
		}
		fmt.Fprintf(f.err, "wave %d: %s\n", i+1, several(batches, 6))
	}
}

// newRolloutID is an id that sorts by time, to the second.
func newRolloutID(now time.Time) (string, error) {
	var b [3]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return strings.Join([]string{now.UTC().Format("20060102-150405"), hex.EncodeToString(b[:])}, "-"), nil
}
