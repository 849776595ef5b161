package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"cellwall.dev/cellwall/internal/adapter/cdkdeploy"
	"cellwall.dev/cellwall/internal/adapter/cfnstack"
	"cellwall.dev/cellwall/internal/adapter/cwgate"
	"cellwall.dev/cellwall/internal/adapter/probehttp"
	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/probe"
	"cellwall.dev/cellwall/internal/rollout/release"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// planAWS plans a rollout of an assembly over the fleet's cells, when nothing speaks against it.
func (f *rolloutFlags) planAWS(ctx context.Context, d *rolloutDesk, s *rolloutStartFlags) (rollout.Spec, error) {
	fl, err := f.loadFleet()
	if err != nil {
		return rollout.Spec{}, err
	}
	kept, err := f.keep(ctx, s.app, "--app")
	if err != nil {
		return rollout.Spec{}, err
	}
	var before *release.Assembly
	if s.before != "" {
		if before, err = f.keep(ctx, s.before, "--before"); err != nil {
			return rollout.Spec{}, err
		}
	}
	if err := f.auditKept(kept, before, s.app); err != nil {
		return rollout.Spec{}, err
	}
	if err := f.fits(fl, kept, s.app); err != nil {
		return rollout.Spec{}, err
	}
	aws, err := f.awsFleet(ctx, fl, d.by)
	if err != nil {
		return rollout.Spec{}, err
	}
	if err := aws.reachAll(fl.Cells); err != nil {
		return rollout.Spec{}, err
	}
	tenants, err := f.fleetTenants(ctx, fl)
	if err != nil {
		return rollout.Spec{}, err
	}
	sizes := tenants.sizes()
	if tenants == nil { // counted they can be without a key, too
		if sizes, err = f.tenantsByCell(ctx, fl); err != nil {
			return rollout.Spec{}, err
		}
	}
	spec, err := release.Plan(fl, kept, release.Options{Sizes: sizes})
	if err != nil {
		return spec, refusedAssembly(err)
	}
	f.countTenants(fl, tenants, spec.Waves)
	if s.phase == string(rollout.Contract) {
		folder, err := release.NewFolder(f.assemblies)
		if err != nil {
			return spec, err
		}
		stacks, err := release.NewStacks(fl, kept.Digest, folder, nil, aws.stacks())
		if err != nil {
			return spec, refusedAssembly(err)
		}
		spec.Running = running(ctx, stacks, spec, func(err error) { fmt.Fprintln(f.err, "warning:", printed(err.Error())) })
		return spec, stacks.Close()
	}
	return spec, nil
}

// keep copies an assembly into the folder that keeps them, and returns the copy.
func (f *rolloutFlags) keep(ctx context.Context, dir, flag string) (*release.Assembly, error) {
	folder, err := release.NewFolder(f.assemblies)
	if err != nil {
		return nil, err
	}
	a, err := release.Open(dir)
	if err != nil {
		return nil, refusedAssembly(fmt.Errorf("%s %s: %w", flag, dir, err))
	}
	kept, err := folder.Keep(ctx, a)
	return kept, refusedAssembly(err)
}

// refusedAssembly gives an error of package release its exit status.
func refusedAssembly(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, release.ErrNotAssembly):
		return hint(usagef("%w", err), "cdk synth '**' writes one to cdk.out")
	case errors.Is(err, release.ErrNoDigest):
		return hint(foundf("%w", err), "whoever drives needs the folder of --assemblies: copy it from where the rollout was begun")
	case errors.Is(err, release.ErrRefused), errors.Is(err, release.ErrDamaged):
		return foundf("%w", err)
	}
	return err
}

// fits refuses an assembly that is not of this fleet, with every reason.
func (f *rolloutFlags) fits(fl *fleet.Fleet, a *release.Assembly, dir string) error {
	err := release.Check(fl, a)
	var refusal *release.Refusal
	if !errors.As(err, &refusal) || len(refusal.Reasons) == 1 {
		return refusedAssembly(err)
	}
	for _, reason := range refusal.Reasons {
		fmt.Fprintln(f.err, printed(reason))
	}
	return foundf("%s cannot be rolled out over %s, for %s", dir, f.fleetFile, count(len(refusal.Reasons), "reason"))
}

// auditKept audits the very assembly that is deployed, as cellwall audit does, with the fleet's waivers. What is found
// goes to standard error.
func (f *rolloutFlags) auditKept(a, before *release.Assembly, dir string) error {
	variants, err := loadVariants([]string{a.Dir})
	if err != nil {
		return err
	}
	variants[0].Name = filepath.ToSlash(filepath.Clean(dir))
	opt, err := f.auditOptions(true)
	if err != nil {
		return err
	}
	opt.Today = f.rollouts.clock.Now()
	if before != nil {
		in, err := loadAssembly(before.Dir)
		if err != nil {
			return err
		}
		opt.Before = in.Stacks
	}
	report := audit.RunVariants(variants, opt)
	if why := report.Unjudged(); why != "" {
		fmt.Fprintln(f.err, "warning:", printed(why))
	}
	n := report.AtLeast(audit.Error)
	if n == 0 {
		return nil
	}
	if err := (&auditOutput{format: "text"}).write(f.err, &report, []string{a.Dir}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return hint(foundf("the audit has %s at or above error", count(n, "finding")), "repair them, or accept them with a reason in the fleet's audit.waivers; cellwall audit %s tells more", quote(dir))
}

// reachAll sees that the credentials, or the role, are of the account of each cell: STS says so.
func (a *awsFleet) reachAll(cells []fleet.Cell) error {
	for _, c := range cells {
		if _, err := a.in(c.Account, c.Region); err != nil {
			return fmt.Errorf("cell %q: %w", c.Name, err)
		}
	}
	return nil
}

// stacks are the fleet's stacks as CloudFormation has them.
func (a *awsFleet) stacks() *cfnstack.Stacks {
	return cfnstack.New(func(_ context.Context, at release.Place) (cfnstack.Client, error) {
		c, err := a.in(at.Account, at.Region)
		if err != nil {
			return nil, err
		}
		return cloudformation.NewFromConfig(c), nil
	})
}

// tenantsByCell counts the directory's tenants, by which percents go; nil when there are none.
func (f *rolloutFlags) tenantsByCell(ctx context.Context, fl *fleet.Fleet) (sizes map[string]int, err error) {
	d := &desk{by: f.by, close: func() error { return nil }}
	home, _, err := f.home(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	dir, err := directory.Open(ctx, home)
	if err != nil {
		return nil, directoryError(err)
	}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return dir.List(ctx, after, limit) }) {
		if err != nil {
			return nil, directoryError(err)
		}
		if _, known := fl.Cell(e.Cell); known {
			if sizes == nil {
				sizes = map[string]int{}
			}
			sizes[e.Cell]++
		}
	}
	return sizes, nil
}

// running is what each stage of each cell runs; what cannot be read is unknown, and told.
func running(ctx context.Context, stacks run.Stacks, spec rollout.Spec, tell func(error)) []rollout.Running {
	var all []rollout.Running
	for _, w := range spec.Waves {
		for _, cell := range slices.Concat(w.Batches...) {
			for _, stage := range cell.Stages {
				read, err := stacks.Read(ctx, cell.Name, stage.Name, "")
				switch {
				case err != nil:
					read.Digest = ""
					tell(fmt.Errorf("what cell %s runs in stage %s is not known: %w", cell.Name, stage.Name, err))
				case read.Digest == "":
					tell(fmt.Errorf("what cell %s runs in stage %s is none of the assemblies in --assemblies: its stacks are %s", cell.Name, stage.Name, read.Stack))
				}
				if one := (rollout.Running{Cell: cell.Name, Digest: read.Digest}); !slices.Contains(all, one) {
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// awsHands deploy to the fleet's cells. The fleet must still have the cells of the rollout, as they were.
func (f *rolloutFlags) awsHands(ctx context.Context, d *rolloutDesk, s rollout.State, kind rollout.EventKind) (*rolloutHands, error) {
	fl, err := f.loadFleet()
	if err != nil {
		return nil, err
	}
	cells, changed := plannedCells(fl, s.Spec)
	if changed != "" {
		return nil, hint(foundf("the fleet changed since rollout %s was planned: it has no cell %s, or that has other zones or shards, or lies elsewhere", s.Spec.ID, changed),
			"name the fleet's file as it was with --fleet; or end this rollout with %s and begin another", f.command("abort", s.Spec.ID))
	}
	aws, err := f.awsFleet(ctx, fl, d.by)
	if err != nil {
		return nil, err
	}
	if err := aws.reachAll(cells); err != nil {
		return nil, err
	}
	folder, err := release.NewFolder(f.assemblies)
	if err != nil {
		return nil, err
	}
	if err := f.allKept(folder, s, kind); err != nil {
		return nil, err
	}
	program := f.cdk
	if program == "" {
		program = filepath.Join(filepath.Dir(f.fleetFile), filepath.FromSlash(cdkdeploy.DefaultProgram))
	}
	cdk, err := cdkdeploy.New(cdkdeploy.Config{Program: program, Logs: filepath.Join(filepath.Dir(filepath.Clean(f.assemblies)), "cdk-logs")})
	if err != nil {
		return nil, usagef("%w", err)
	}
	gate, err := f.awsGate(fl, aws, kind)
	if err != nil {
		return nil, err
	}
	stacks, err := release.NewStacks(fl, s.Spec.Digest, folder, cdk, aws.stacks())
	if err != nil {
		return nil, refusedAssembly(err)
	}
	for _, c := range s.Cells {
		for _, stage := range c.Stages {
			if stage.Previous != "" {
				stacks.Former(c.Name, stage.Name, stage.Previous)
			}
		}
	}
	if kind == "" {
		f.warnOthers(ctx, stacks, folder)
	}
	return &rolloutHands{stacks: stacks, gate: gate, interval: awsInterval, close: stacks.Close}, nil
}

// plannedCells are the cells of a rollout as the fleet has them, and the name of the first that it has otherwise, if any. A
// shard that left the fleet since, or changed its zone, would be in none of the stages that are still to come, and nobody
// would miss it.
func plannedCells(fl *fleet.Fleet, s rollout.Spec) (cells []fleet.Cell, changed string) {
	for _, w := range s.Waves {
		for _, planned := range slices.Concat(w.Batches...) {
			c, is := fl.Cell(planned.Name)
			if !is || !sameStages(rollout.PlannedCell{Name: c.Name, Stages: release.Stages(c, 0)}, planned) || planned.Layout != "" && planned.Layout != release.Layout(c) {
				return nil, planned.Name
			}
			cells = append(cells, c)
		}
	}
	return cells, ""
}

// awsInterval is how often cells on AWS are looked at.
const awsInterval = 5 * time.Second

// allKept sees that the assemblies that the rollout may need are in the folder: its own, and for the way back those that
// ran before.
func (f *rolloutFlags) allKept(folder *release.Folder, s rollout.State, kind rollout.EventKind) error {
	back := kind == rollout.Rollback || s.Status == rollout.IsRollingBack
	need := map[string]bool{s.Spec.Digest: true}
	for _, c := range s.Cells {
		for _, stage := range c.Stages {
			if stage.Touched && !stage.Back && stage.Previous != "" {
				need[stage.Previous] = true
			}
		}
	}
	for digest := range need {
		_, err := folder.Get(digest)
		switch {
		case err == nil:
		case digest != s.Spec.Digest && !back && !s.Spec.Revert:
			fmt.Fprintf(f.err, "warning: a rollback would not find what ran before: %s\n", printed(err.Error()))
		default:
			return refusedAssembly(err)
		}
	}
	return nil
}

// warnOthers tells of what a rollout does not deploy, and of what a rollback would miss.
func (f *rolloutFlags) warnOthers(ctx context.Context, stacks *release.Stacks, folder *release.Folder) {
	lines, err := stacks.Others(ctx)
	if err != nil {
		lines = append(lines, "the stacks of the whole service are not known: "+err.Error())
	}
	if kept, err := folder.List(); err == nil && len(kept) < 2 {
		lines = append(lines, f.assemblies+" has no other assembly: a rollback would bring nothing back. Name what is deployed now with --before DIR")
	}
	for _, line := range lines {
		fmt.Fprintln(f.err, "warning:", printed(line))
	}
}

// awsGate is CloudWatch, with a probe where the fleet asks for one.
func (f *rolloutFlags) awsGate(fl *fleet.Fleet, aws *awsFleet, kind rollout.EventKind) (run.Gate, error) {
	gate, err := cwgate.New(fl, func(_ context.Context, account, region string) (cwgate.Client, error) {
		c, err := aws.in(account, region)
		if err != nil {
			return nil, err
		}
		return cloudwatch.NewFromConfig(c), nil
	}, cwgate.Options{Every: awsInterval})
	if err != nil {
		return nil, err
	}
	switch {
	case fl.Rollout.Probe == nil && f.probe != "":
		return nil, usagef("--probe %s: the fleet has no rollout.probe, which says what is asked for", f.probe)
	case fl.Rollout.Probe == nil, kind == rollout.Rollback && f.probe == "": // a way back waits for no gate
		return gate, nil
	case f.probe == "":
		return nil, hint(usagef("the fleet has rollout.probe, and no test tenants are named"), "name the file of ingresses and tokens with --probe FILE; docs/operating.md says what it has")
	}
	var names []string
	for _, c := range fl.Cells {
		names = append(names, c.Name)
	}
	sender, err := probehttp.New(f.probe, fl.Rollout.Probe.Path, names)
	if err != nil {
		return nil, usagef("--probe: %w", err)
	}
	return probe.New(gate, sender, probe.Options{Every: fl.Rollout.Probe.Every})
}
