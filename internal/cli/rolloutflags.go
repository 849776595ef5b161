package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// rolloutStore is where the rollouts of a service are kept.
type rolloutStore interface {
	run.Leases
	run.Journal
	run.Histories
	run.Wishes
}

// rolloutDesk is an open store of rollouts with an operator before it.
type rolloutDesk struct {
	service string
	store   rolloutStore
	by      string // for the record
	holder  string // of leases: by, with this machine and process
	close   func() error
}

// rolloutHands are what deploys the cells of a rollout, and what watches them.
type rolloutHands struct {
	stacks   run.Stacks
	gate     run.Gate
	interval time.Duration // between two looks; 0: the driver's own
	close    func() error
}

// rolloutParts are what the commands work with. Tests give others.
type rolloutParts struct {
	open func(context.Context, *rolloutFlags) (*rolloutDesk, error)
	// plan is a rollout of what start names, with every check that can be made before the first change. Its id is left empty.
	plan func(context.Context, *rolloutFlags, *rolloutDesk, *rolloutStartFlags) (rollout.Spec, error)
	// hands are what a rollout is driven with. Nothing is changed by it, and what a rollout needs is found to be there.
	// kind is what is wished of a rollout that is under way: Resume or Rollback; "" begins one.
	hands    func(ctx context.Context, f *rolloutFlags, d *rolloutDesk, s rollout.State, kind rollout.EventKind) (*rolloutHands, error)
	clock    run.Clock
	poll     time.Duration // between two looks at a journal that another process writes
	patience time.Duration // with the lease of a holder who gives no sign of life
}

// realRollouts are the parts of the command line.
func realRollouts() rolloutParts {
	return rolloutParts{open: openRollouts, plan: planRollout, hands: handsOfRollout, clock: run.Wall{}, poll: time.Second, patience: 45 * time.Second}
}

// rolloutFlags are the flags of the commands over rollouts, as far as each has them.
type rolloutFlags struct {
	directoryFlags
	fleetGiven bool
	assemblies string
	cdk, probe string
	summary    string
	asJSON     bool
}

const defaultAssemblies = defaultStateDir + "/assemblies"

// where adds the flags that say whose rollouts.
func (f *rolloutFlags) where(cmd *cobra.Command) {
	flags := cmd.Flags()
	wordVar(flags, &f.directory, "directory", "", "which directory keeps the rollouts: local, aws, or a bbolt FILE (default: local while a cell runs in the state directory)")
	flags.StringVar(&f.stateDir, "state-dir", defaultStateDir, "of the local cell")
	wordVar(flags, &f.roleName, "role-name", "", "with --directory aws: IAM role to assume in each account of the fleet that the AWS credentials are not of, as NAME or PATH/NAME")
	pre := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		f.fleetGiven = cmd.Flags().Changed("fleet")
		if pre != nil {
			return pre(cmd, args)
		}
		return nil
	}
}

// who adds the flags of what is recorded of a change.
func (f *rolloutFlags) who(cmd *cobra.Command, because string) {
	wordVar(cmd.Flags(), &f.by, "by", "", "who does this, for the record (default: the name of this machine's user)")
	cmd.Flags().StringVar(&f.because, "because", "", because)
}

// drives adds the flags of commands that deploy.
func (f *rolloutFlags) drives(cmd *cobra.Command) {
	wordVar(cmd.Flags(), &f.assemblies, "assemblies", defaultAssemblies, "with --directory aws: `DIR` that keeps assemblies by digest; whoever drives needs it")
	wordVar(cmd.Flags(), &f.cdk, "cdk", "", "with --directory aws: the CDK's command line (default: node_modules/.bin/cdk beside the fleet's file)")
	wordVar(cmd.Flags(), &f.probe, "probe", "", "with --directory aws: `FILE` with ingress and tokens of test tenants by cell, where the fleet has rollout.probe")
	f.summarises(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object for each event, a line each")
}

// summarises adds the flag for a summary.
func (f *rolloutFlags) summarises(cmd *cobra.Command) {
	wordVar(cmd.Flags(), &f.summary, "summary", "", "`FILE` to which a summary in Markdown is added in the end, such as $GITHUB_STEP_SUMMARY")
}

// with opens the store, does something with it and closes it.
func (f *rolloutFlags) with(ctx context.Context, do func(*rolloutDesk) error) (err error) {
	if err := f.writable(); err != nil {
		return err
	}
	d, err := f.rollouts.open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return do(d)
}

// operator is who does this, and as whom a lease is taken.
func (f *rolloutFlags) operator() (by, holder string, err error) {
	if by, err = f.name(); err != nil {
		return "", "", err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return by, fmt.Sprintf("%s@%s, process %d", by, host, os.Getpid()), nil
}

// command is what to type for another command over the same rollouts.
func (f *rolloutFlags) command(words ...string) string {
	all := "cellwall rollout " + strings.Join(words, " ")
	add := func(flag, value, usual string) {
		if value != usual && value != "" {
			all += " --" + flag + " " + quote(value)
		}
	}
	add("directory", f.directory, "")
	add("state-dir", f.stateDir, defaultStateDir)
	add("role-name", f.roleName, "")
	if f.fleetGiven {
		add("fleet", f.fleetFile, "")
	}
	if len(words) > 0 && (words[0] == "resume" || words[0] == "rollback") {
		add("assemblies", f.assemblies, defaultAssemblies)
		add("cdk", f.cdk, "")
		add("probe", f.probe, "")
	}
	return all
}

// next is what can be done about a rollout that is not on its way.
func (f *rolloutFlags) next(s rollout.State) string {
	switch s.Status {
	case rollout.IsPaused:
		return "go on with " + f.command("resume", s.Spec.ID) + ", or back with " + f.command("rollback", s.Spec.ID)
	case rollout.IsHalted:
		return "go back with " + f.command("rollback", s.Spec.ID) + ", or leave it as it is with " + f.command("abort", s.Spec.ID)
	case rollout.IsAborted:
		return "go back with " + f.command("rollback", s.Spec.ID) + ", or begin another rollout"
	case rollout.IsRolledBack:
		return f.command("history", s.Spec.ID) + " tells how it went"
	}
	return ""
}

// nextUnder is next, where the lease is known: what nobody drives does not go on by itself.
func (f *rolloutFlags) nextUnder(s rollout.State, l *run.Lease) string {
	driven := l != nil && l.Until.After(f.rollouts.clock.Now())
	if !driven && (s.Status == rollout.IsRunning || s.Status == rollout.IsRollingBack) {
		return "nobody drives it, and nothing of it is watched: go on with " + f.command("resume", s.Spec.ID) + ", back with " + f.command("rollback", s.Spec.ID) + ", or leave it as it is with " + f.command("abort", s.Spec.ID)
	}
	return f.next(s)
}

// optionalID is the id that was given, or "" for the latest rollout.
func optionalID(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// atMostOne lets a command have the id of a rollout, or none for the latest.
var atMostOne = usageArgs(cobra.MaximumNArgs(1))

// last is the record of a rollout, or of the latest.
func (d *rolloutDesk) last(ctx context.Context, id string) (run.Record, error) {
	if id == "" {
		return d.store.Latest(ctx, d.service)
	}
	return d.store.Last(ctx, d.service, id)
}

// explain gives an error of the rollouts its exit status, and says what to do next.
func (f *rolloutFlags) explain(id string, s rollout.State, err error) error {
	var taken *run.TakenError
	exit := (*exitError)(nil)
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.As(err, &taken):
		return hint(foundf("%w", err), "watch it with %s; what is wished by pause, resume, abort or rollback is done by whoever drives", f.command("watch"))
	case errors.Is(err, run.ErrNone) && id == "":
		return hint(foundf("%w", err), "begin one with %s", f.command("start"))
	case errors.Is(err, run.ErrNone):
		return hint(usagef("%w", err), "%s lists those that there are", f.command("history"))
	case errors.Is(err, run.ErrLost), errors.Is(err, run.ErrStale):
		return hint(foundf("%w", err), "%s says whether somebody else has taken over; when nobody has, go on with %s", f.command("status"), f.command("resume"))
	case errors.Is(err, run.ErrNotNow), errors.Is(err, rollout.ErrUnexpected):
		return hint(foundf("%w", err), "see %s", f.command("status"))
	case errors.Is(err, rollout.ErrNeedsOld):
		return foundf("%w", err)
	case errors.Is(err, rollout.ErrInvalid):
		return usagef("%w", err)
	}
	return directoryError(err)
}
