package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/change"
	"cellwall.dev/cellwall/internal/fleet"
)

func fleetDiff(a *app) *cobra.Command {
	var asJSON bool
	var accepted string
	var how synthesis
	in := &directoryFlags{app: a}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what a change of the fleet does to its stacks, before anyone deploys it",
		Long: `Say what deploying NEW over OLD does: what of each cell and shard is added, changed in place, replaced,
removed or stays behind, and which key of the fleet that comes from, as far as it can be told; what of it is
billed for as long as it is there; and the order in which stacks must be deployed so that no account's
functions reserve more concurrency than it allows.

OLD and NEW are each a fleet file or a directory with a cloud assembly, such as the cdk.out of the last
deployment. A fleet file is synthesised by this project's CDK CLI, in the directory that has cdk.json, with
this version of the CDK app, and with what dist/ has now: two fleet files show what the fleets differ in, and
only an assembly shows what another version of the app or of a function differs in. Paths in a fleet file
begin in its own directory: put an older version of it beside the present one.

Exit status 3 when something had better not be deployed: what keeps data is replaced or removed for good, a
name is taken still, CloudFormation would refuse, an export goes that deployed stacks import and no order of
deployments ends that, reserved concurrency fits in no order, or data would leave
the KMS key under which it can be read, unless --accept-key-change says why that may be. With --directory,
also when NEW lacks a shard that a live topology of that directory names.`,
		Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			accepts := cmd.Flags().Changed("accept-key-change")
			if accepts && strings.TrimSpace(accepted) == "" {
				return hint(usagef("--accept-key-change has no reason"), "write what becomes of the data under the old keys")
			}
			r, next, err := a.compareFleets(cmd, args, how)
			if err != nil {
				return err
			}
			if accepts {
				r.AcceptKeyChanges(accepted)
			}
			switch {
			case cmd.Flags().Changed("directory"):
				lost, err := in.losses(cmd.Context(), args[1], next)
				if err != nil {
					return err
				}
				r.Refused = append(r.Refused, lost...)
			case losesShards(r):
				r.Notes = append(r.Notes, "shards go; whether a topology still names them was not asked: --directory does")
			}
			if asJSON {
				enc := json.NewEncoder(a.out)
				enc.SetEscapeHTML(false)
				err = enc.Encode(r)
			} else {
				err = r.WriteText(a.out)
			}
			if err != nil {
				return fmt.Errorf("write what changes: %w", err)
			}
			for _, n := range r.Notes {
				fmt.Fprintln(a.err, "note:", printed(n))
			}
			if n := len(r.Refused); n > 0 {
				return foundf("%s not to deploy this", count(n, "reason"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&accepted, "accept-key-change", "", "`REASON` for which data may leave the KMS key that it is encrypted by")
	cmd.Flags().StringArrayVarP(&how.settings, "context", "c", nil, "KEY=VALUE for the CDK app that synthesises fleet files, such as arch=x86_64")
	cmd.Flags().BoolVar(&how.verbose, "verbose", false, "print what the CDK says, also when it succeeds")
	in.register(cmd)
	return cmd
}

// losesShards says whether the stack of a shard goes.
func losesShards(r change.Report) bool {
	return slices.ContainsFunc(r.Stacks, func(s change.Stack) bool { return s.Shard != "" && s.Kind == change.Removed })
}

// losses refuses the loss of shards that live topologies name: what they name must stand in the assembly of
// file, which is a fleet's or the assembly itself.
func (f *directoryFlags) losses(ctx context.Context, file string, next audit.Input) ([]change.Refusal, error) {
	if info, err := os.Stat(file); err == nil && !info.IsDir() {
		f.fleetFile = file // also for the fleet's own table
	}
	shards, service := map[string][]string{}, ""
	for _, p := range audit.Places(next.Stacks) {
		service = cmp.Or(service, p.Service)
		if p.ID != "" {
			shards[p.Cell] = append(shards[p.Cell], p.ID)
		}
	}
	var out []change.Refusal
	err := f.read(ctx, func(d *desk) error {
		if err := d.OfService(ctx, service); err != nil {
			return err
		}
		cells, err := d.Cells(ctx)
		if err != nil {
			return err
		}
		for _, cell := range cells {
			lost, err := d.lostShards(ctx, cell.Name, shards[cell.Name])
			if err != nil {
				return err
			}
			for _, l := range lost {
				out = append(out, change.Refusal{What: fmt.Sprintf("loses shard %s of cell %s", l.id, cell.Name),
					Why: "topology " + versionsText(l.versions) + " of the directory names it", Next: l.back()})
			}
		}
		return nil
	})
	return out, err
}

// stampedSide is one of the two that are compared.
type stampedSide struct {
	path  string
	fleet *fleet.Fleet // nil for an assembly
}

// compareFleets loads or synthesises OLD and NEW and compares them. It returns NEW's assembly, too.
func (a *app) compareFleets(cmd *cobra.Command, paths []string, how synthesis) (r change.Report, next audit.Input, err error) {
	var sides [2]stampedSide
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return r, next, hint(usagef("%w", err), "name a fleet file, or a directory with a cloud assembly")
		}
		sides[i].path = path
		if !info.IsDir() {
			if !info.Mode().IsRegular() { // it is read here, and once more by the CDK app
				return r, next, hint(usagef("%s is neither a regular file nor a directory", path), "name a fleet file, or a directory with a cloud assembly")
			}
			if sides[i].fleet, err = a.loadFleetFrom(path); err != nil {
				return r, next, err
			}
		}
	}
	if err := how.fits(sides); err != nil {
		return r, next, err
	}
	opt := change.Options{}
	if f := sides[1].fleet; f != nil {
		opt.Concurrency = concurrencyOf(f)
	} else {
		o, err := a.auditOptions(cmd.Flags().Changed("fleet"))
		if err != nil {
			return r, next, err
		}
		opt.Concurrency = o.Concurrency
	}
	if sides[0].fleet != nil && sides[1].fleet != nil {
		if opt.Fleet, err = change.Edits(sides[0].fleet, sides[1].fleet); err != nil {
			return r, next, err
		}
	}
	was, err := a.stampedAssembly(cmd.Context(), sides[0], how)
	if err != nil {
		return r, next, err
	}
	if next, err = a.stampedAssembly(cmd.Context(), sides[1], how); err != nil {
		return r, next, err
	}
	return change.Compare(was, next, opt), next, nil
}

func concurrencyOf(f *fleet.Fleet) map[string]int {
	limits := map[string]int{}
	for id, account := range f.Accounts {
		limits[id] = account.LambdaConcurrency
	}
	return limits
}

// stampedAssembly is a side's cloud assembly, synthesised into a temporary directory when it is a fleet file.
func (a *app) stampedAssembly(ctx context.Context, s stampedSide, how synthesis) (in audit.Input, err error) {
	if s.fleet == nil {
		return loadAssembly(s.path)
	}
	a.watches() // the directory is to be removed
	dir, err := os.MkdirTemp("", "cellwall-diff-")
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := a.synthesise(ctx, s.path, dir, how); err != nil {
		return in, err
	}
	return loadAssembly(dir)
}

// synthesis is how fleet files are made into cloud assemblies.
type synthesis struct {
	settings []string // KEY=VALUE of the CDK app's context
	verbose  bool
}

// fits sees that the settings reach what they are meant for.
func (how synthesis) fits(sides [2]stampedSide) error {
	for _, s := range how.settings {
		switch key, _, ok := strings.Cut(s, "="); {
		case !ok || key == "":
			return hint(usagef("--context is %q, which sets nothing", s), "write it as KEY=VALUE")
		case sides[0].fleet == nil && sides[1].fleet == nil:
			return hint(usagef("--context %s is for the synthesis of fleet files, and both are cloud assemblies", s), "leave it out")
		case key == "fleet":
			return hint(usagef("--context %s names a fleet file beside OLD and NEW", s), "leave it out")
		case key == "cell" && (sides[0].fleet == nil || sides[1].fleet == nil):
			return hint(usagef("--context %s would take the other cells out of one of the two alone, as if they came or went", s), "leave it out")
		}
	}
	return nil
}

// cdkCLI is the pinned CDK CLI, below the project's directory.
const cdkCLI = "node_modules/.bin/cdk"

// synthesise has the CDK write a fleet's cloud assembly. What the CDK says goes to standard error when it fails, or
// when it is asked for; else it is about node versions and the names of stacks.
func (a *app) synthesise(ctx context.Context, file, out string, how synthesis) error {
	for _, needed := range []struct{ file, next string }{
		{"cdk.json", "give the command in cellwall's own directory, which has cdk.json, or name directories with cloud assemblies"},
		{cdkCLI, "npm ci installs it"},
	} {
		if _, err := os.Stat(needed.file); errors.Is(err, fs.ErrNotExist) {
			return hint(usagef("%s cannot be synthesised: there is no %s here", file, needed.file), "%s", needed.next)
		} else if err != nil {
			return err
		}
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	args := []string{"synth", "**", "--quiet", "--output", out, "--context", "fleet=" + path,
		// What a fleet would become is compared also where the audit refuses it.
		"--context", "audit=off"}
	for _, s := range how.settings {
		args = append(args, "--context", s)
	}
	cdk := exec.CommandContext(ctx, cdkCLI, args...)
	var said bytes.Buffer
	cdk.Stdout, cdk.Stderr = &said, &said
	if how.verbose {
		cdk.Stdout, cdk.Stderr = a.err, a.err
	}
	cdk.Cancel = func() error { return cdk.Process.Signal(os.Interrupt) } // it ends the app that it has started
	fmt.Fprintf(a.err, "synthesising %s\n", file)
	err = cdk.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		a.err.Write(said.Bytes()) // the failure itself is told either way
		return hint(fmt.Errorf("cdk synth of %s: %w", file, err), "what is wrong stands above; make dist builds what the stacks are made from")
	}
	return nil
}
