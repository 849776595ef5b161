package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// failLevels are the levels that --fail-on takes.
var failLevels = map[string]audit.Level{"fatal": audit.Fatal, "error": audit.Error, "warning": audit.Warning, "review": audit.Review}

func auditCommand(a *app) *cobra.Command {
	var output auditOutput
	var failOn string
	parts := a.auditParts()
	cmd := &cobra.Command{
		Use:   "audit [--format text|json|sarif|html] [-o FILE] [--fail-on fatal|error|warning|review] DIR...",
		Short: "Find what shards share in a CDK cloud assembly or in CloudFormation templates",
		Long: `Find each resource on which more than one shard depends, with the path that shows it.

DIR is a CDK cloud assembly (cdk.out) or a directory of CloudFormation templates in JSON or YAML. A stack
belongs to a shard by its tags cellwall:cell and cellwall:shard, by its construct path CELL/shard-SID, or
by its name SERVICE-CELL-shard-SID; --shard and --map say it of others. The fleet file, when there is one, gives
the accounts' concurrency and what an assembly of some cells lacks.

Several DIRs are variants of one app, synthesised under different context: each is judged by itself, and what is found
in several is said once; what does not hold in all names those in which it does.

Exit status 3 when something is found at or above --fail-on, or when not one shard can be told (--fail-on
fatal silences that), 2 when DIR is nothing that can be audited.
A waivers file and CDK acknowledgements of cellwall::RULE say which findings are accepted, why, and until when;
a baseline says which were there before. Those stay in the report and do not count.
A directory that is called rules or explain is written ./rules. docs/audit.md describes all of this.`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			level, ok := failLevels[failOn]
			if !ok {
				return usagef("--fail-on %q is no level: write fatal, error, warning or review", failOn)
			}
			if err := noneEmpty(cmd); err != nil {
				return err
			}
			if err := output.decide(); err != nil {
				return err
			}
			variants, err := loadVariants(args)
			if err != nil {
				return err
			}
			if err := output.spares(a.auditReads(cmd, variants, args)...); err != nil {
				return err
			}
			var opt audit.Options
			for _, part := range parts {
				if err := part.apply(cmd, variants, &opt); err != nil {
					return err
				}
			}
			report := audit.RunVariants(variants, opt)
			if err := output.write(a.out, &report, args); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			if why := report.Unjudged(); why != "" {
				fmt.Fprintln(a.err, "warning:", printed(why))
			}
			if n := report.AtLeast(level); n > 0 {
				return foundf("the audit has %s at or above %s", count(n, "finding"), level)
			}
			return nil
		},
	}
	output.register(cmd)
	cmd.Flags().StringVar(&failOn, "fail-on", "error", "lowest level that fails: fatal, error, warning or review")
	for _, part := range parts {
		part.register(cmd)
	}
	cmd.AddCommand(auditRules(a), auditExplain(a))
	return cmd
}

// noneEmpty refuses a flag that is given without a value, as by an unset variable of a script: it is not to pass
// for one that was left out, such as a baseline or waivers that nobody would miss.
func noneEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// auditReads are the files that an audit of the directories dirs reads.
func (a *app) auditReads(cmd *cobra.Command, in []audit.Variant, dirs []string) []string {
	reads := []string{a.fleetFile}
	for _, name := range []string{"waivers", "baseline", "map"} {
		reads = append(reads, cmd.Flag(name).Value.String())
	}
	for i, dir := range dirs {
		for k := range in[i].Input.Stacks {
			file := filepath.Join(dir, filepath.FromSlash(in[i].Input.Stacks[k].File))
			reads = append(reads, file, filepath.Join(filepath.Dir(file), "manifest.json"))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(reads)))
}

// auditPart is a group of flags that decides one part of the audit's options.
type auditPart interface {
	register(cmd *cobra.Command)
	// apply reads what the flags name. in is what was read.
	apply(cmd *cobra.Command, in []audit.Variant, opt *audit.Options) error
}

// auditParts are applied in this order.
func (a *app) auditParts() []auditPart {
	return []auditPart{
		&auditFleet{app: a},
		&auditMap{},
		&auditLive{},
		&auditDecisions{},
		&auditBefore{},
	}
}

// auditFleet takes the accounts' limits and the accepted findings from the fleet file.
type auditFleet struct{ app *app }

func (*auditFleet) register(*cobra.Command) {} // --fleet is every command's

func (p *auditFleet) apply(cmd *cobra.Command, _ []audit.Variant, opt *audit.Options) error {
	o, err := p.app.auditOptions(cmd.Flags().Changed("fleet"))
	if err != nil {
		return err
	}
	opt.Concurrency, opt.Fleet, opt.PerTenant, opt.Waivers = o.Concurrency, o.Fleet, o.PerTenant, o.Waivers
	return nil
}

// auditOptions takes the accounts' limits and the accepted findings from the fleet file. Only a file that was
// asked for must exist: people audit assemblies that are not of this fleet.
func (a *app) auditOptions(asked bool) (audit.Options, error) {
	if !asked {
		if _, err := os.Stat(a.fleetFile); errors.Is(err, fs.ErrNotExist) {
			return audit.Options{}, nil
		}
	}
	f, err := a.loadFleet()
	if err != nil {
		return audit.Options{}, err
	}
	opt := audit.Options{Concurrency: concurrencyOf(f), Fleet: audit.FleetOf(f), PerTenant: map[string]int{"": f.Placement.PerTenant}}
	if f.Audit.Waivers == "" {
		return opt, nil
	}
	file := f.Path(f.Audit.Waivers)
	data, err := readSmall(file)
	if err != nil {
		return opt, hint(usagef("the fleet's audit.waivers: %w", err), "docs/audit.md shows such a file")
	}
	if opt.Waivers, err = audit.ParseWaivers(file, data); err != nil {
		return opt, hint(usagef("the fleet's audit.waivers: %w", err), "docs/audit.md shows such a file")
	}
	return opt, nil
}

// loadVariants reads the directories that are audited, each a variant of its name.
func loadVariants(dirs []string) ([]audit.Variant, error) {
	var out []audit.Variant
	for _, dir := range dirs {
		v := audit.Variant{Name: filepath.ToSlash(filepath.Clean(dir))}
		if slices.ContainsFunc(out, func(o audit.Variant) bool { return o.Name == v.Name }) {
			return nil, usagef("%s is named twice", dir)
		}
		var err error
		if v.Input, err = loadAssembly(dir); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// loadAssembly reads DIR and nothing outside of it, wherever its links and manifests point.
func loadAssembly(dir string) (audit.Input, error) {
	const wanted = "name a cloud assembly (cdk synth '**' writes cdk.out) or a directory of CloudFormation templates"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return audit.Input{}, hint(usagef("there is no directory %q", dir), wanted)
	case err != nil:
		return audit.Input{}, err
	case !info.IsDir():
		return audit.Input{}, hint(usagef("%q is a file, not a directory", dir), wanted)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return audit.Input{}, err
	}
	defer root.Close()
	in, err := assembly.Load(root.FS())
	if errors.Is(err, assembly.ErrMalformed) {
		return audit.Input{}, hint(usagef("%s cannot be audited: %s", dir, strings.TrimPrefix(err.Error(), ": ")), wanted)
	}
	if err != nil {
		return audit.Input{}, fmt.Errorf("read %s: %w", dir, err)
	}
	return in, nil
}
