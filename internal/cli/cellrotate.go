package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell"
)

// vault is where the placement keys of cells lie.
type vault interface {
	// addKeys adds the versions that missing returns, who is told which are there, and returns those that it added.
	// It takes none away.
	addKeys(ctx context.Context, c fleet.Cell, missing func(have []string) (map[string][]byte, error)) ([]string, error)
	// keysOf are all versions that the cell has in a generation.
	keysOf(ctx context.Context, c fleet.Cell, generation int) (map[string][]byte, error)
}

// localVault is the files of local cells.
type localVault struct{ localcell.Dir }

func (v localVault) addKeys(_ context.Context, c fleet.Cell, missing func([]string) (map[string][]byte, error)) ([]string, error) {
	return v.AddKey(c.Name, missing)
}

func (localVault) keysOf(context.Context, fleet.Cell, int) (map[string][]byte, error) {
	return nil, usagef("--adopt: a local cell keeps its key, whatever its generation")
}

// keyReport is the answer of cell rotate-key.
type keyReport struct {
	Cell    string   `json:"cell"`
	Version string   `json:"version,omitempty"` // to place by from now on; none with --adopt
	Added   []string `json:"added"`             // versions; none when what was asked for was there
	Next    []string `json:"next"`              // commands that follow
}

// keyBytes is the length of a cell's placement key.
const keyBytes = 32

func cellRotateKey(f *directoryFlags) *cobra.Command {
	var asJSON bool
	adopt := -1
	cmd := &cobra.Command{
		Use:   "rotate-key CELL",
		Short: "Add a version to a cell's placement key, and print the topology commands that follow",
		Long: `Add a version to a cell's placement key, in the cell's secret, or in a local cell in its file: 32 random bytes, which
are not shown. No version is taken away. Tenants go on being placed by the version that their topology names, until they
are migrated to a topology that names the new one; the commands for that are printed.

The command may be given again, and by several at once: a version that no topology has named yet is the one to place by,
and no other is added. Exit status 3 when the cell has no topology, so that nobody is placed by its key yet.

With --adopt no version is made: those of the secret that the cell had in another generation are added to the secret
of this one, for tenants who are to stay where they are when a destroyed cell was stamped again.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			fl, err := f.loadFleet()
			if err != nil {
				return err
			}
			cell, err := fleetCell(fl, args[0])
			if err != nil {
				return err
			}
			if f.keyFile != "" {
				return hint(usagef("--key-file %s: the key is rotated where the cell has it", f.keyFile), "leave --key-file out")
			}
			adopting := cmd.Flags().Changed("adopt")
			if adopting && (adopt < 0 || adopt > 999 || adopt == cell.Generation) {
				return usagef("--adopt %d: want another generation of cell %q than its %d, 0 to 999", adopt, cell.Name, cell.Generation)
			}
			return f.with(ctx, func(d *desk) error {
				if d.vault == nil {
					return hint(usagef("the cells of %s have their key from --key-file", d.where), "add a version to that file, as {version: key}, and publish with --key-version")
				}
				if err := d.admits(ctx, fl.Service, cell.Name); err != nil {
					return err
				}
				var r keyReport
				if adopting {
					r, err = d.adoptKeys(ctx, cell, adopt)
				} else {
					r, err = d.rotateKey(ctx, fl, cell, given(cmd))
				}
				if err != nil {
					explained := directoryError(err)
					if _, ok := errors.AsType[*exitError](explained); ok {
						return explained
					}
					return hint(err, "the same command adds what is missing, or finds it there")
				}
				return f.printKey(r, asJSON)
			})
		},
	}
	cmd.Flags().IntVar(&adopt, "adopt", -1, "add the versions that the cell had in this generation, instead of a new one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// rotateKey sees that the cell has a version of its key that no topology has named yet.
func (d *desk) rotateKey(ctx context.Context, f *fleet.Fleet, c fleet.Cell, flags string) (keyReport, error) {
	named, live := map[string]bool{}, []directory.Topology{}
	for t, err := range d.topologies(ctx, c.Name) {
		if err != nil {
			return keyReport{}, err
		}
		named[t.KeyVersion] = true // retired ones, too: a version that went is not to come back as another key
		if !t.Retired {
			live = append(live, t)
		}
	}
	if len(live) == 0 {
		return keyReport{}, foundf("cell %q has no topology, so that nobody is placed by its key: there is nothing to rotate", c.Name)
	}
	r := keyReport{Cell: c.Name}
	var err error
	r.Added, err = d.vault.addKeys(ctx, c, func(have []string) (map[string][]byte, error) {
		version, there := nextKey(f.NamesOf(c), c.Generation, named, have)
		if r.Version = version; there {
			return nil, nil
		}
		key := make([]byte, keyBytes)
		rand.Read(key) // never fails (crypto/rand)
		return map[string][]byte{version: key}, nil
	})
	if err != nil {
		return keyReport{}, err
	}
	cell, draft := quote(c.Name), " --key-version "+r.Version+likeNewest(c, live[len(live)-1])
	r.Next = []string{
		"cellwall topology diff " + cell + draft + " --sum" + flags,
		"cellwall topology publish " + cell + draft + " --accept-remap" + flags,
	}
	if statefulShards(f) { // topology migrate refuses: their tenants need moves
		return r, nil
	}
	r.Next = append(r.Next, "cellwall topology migrate "+cell+" --accept-remap"+flags)
	for _, t := range live {
		r.Next = append(r.Next, fmt.Sprintf("cellwall topology retire %s %d%s", cell, t.Version, flags))
	}
	return r, nil
}

// likeNewest is the flags of a draft that places on the shards on which the newest topology does.
func likeNewest(c fleet.Cell, newest directory.Topology) string {
	var drain, without []string
	for _, s := range c.Shards {
		i := slices.IndexFunc(newest.Shards, func(t directory.Shard) bool { return t.ID == s.ID })
		replaced := slices.ContainsFunc(newest.Shards, func(t directory.Shard) bool { return t.Position == s.ID })
		switch {
		case i < 0:
			without = append(without, s.ID)
		case newest.Shards[i].State == directory.Drained && !replaced && !slices.Contains(c.Quarantine, s.ID):
			drain = append(drain, s.ID)
		}
	}
	var flags string
	if len(drain) > 0 {
		flags += " --drain " + strings.Join(drain, ",")
	}
	if len(without) > 0 {
		flags += " --without " + strings.Join(without, ",")
	}
	return flags
}

// nextKey is the version to place by after those that topologies have named: the newest that is there and that
// none has, or one more than all.
func nextKey(of names.Cell, generation int, named map[string]bool, have []string) (version string, there bool) {
	newest := func(versions []string) (most int) {
		for _, v := range versions {
			if g, n, ok := names.ParseKeyVersion(v); ok && g == generation {
				most = max(most, n)
			}
		}
		return most
	}
	last, most := newest(slices.Collect(maps.Keys(named))), newest(have)
	if most > last {
		return of.KeyVersion(most), true
	}
	return of.KeyVersion(last + 1), false
}

// adoptKeys adds the versions of another generation of the cell to those of this one.
func (d *desk) adoptKeys(ctx context.Context, c fleet.Cell, generation int) (keyReport, error) {
	theirs, err := d.vault.keysOf(ctx, c, generation)
	if err != nil {
		return keyReport{}, err
	}
	added, err := d.vault.addKeys(ctx, c, func(have []string) (map[string][]byte, error) {
		more := maps.Clone(theirs)
		for _, version := range have {
			delete(more, version)
		}
		return more, nil
	})
	return keyReport{Cell: c.Name, Added: added}, err
}

// given is the flags that say which directory, fleet and accounts, as they were given, for commands that follow.
func given(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{"directory", "state-dir", "role-name", "fleet"}, flag.Name) {
			b.WriteString(" --" + flag.Name + " " + quote(flag.Value.String()))
		}
	})
	return b.String()
}

func (f *directoryFlags) printKey(r keyReport, asJSON bool) error {
	if asJSON {
		r.Added, r.Next = append([]string{}, r.Added...), append([]string{}, r.Next...) // [], not null
		return f.json(r)
	}
	text := ""
	switch {
	case r.Version == "" && len(r.Added) == 0:
		text = "cell " + r.Cell + " has these versions of its placement key already"
	case r.Version == "":
		text = "cell " + r.Cell + " has got these versions of its placement key: " + strings.Join(quoted(r.Added), ", ")
	case len(r.Added) == 0:
		text = "cell " + r.Cell + " has version " + r.Version + " of its placement key, which no topology has named yet: no other was added"
	default:
		text = "cell " + r.Cell + " has got version " + r.Version + " of its placement key"
	}
	if len(r.Next) > 0 {
		text += ". What follows:\n\n    " + strings.Join(r.Next, "\n    ")
	}
	_, err := fmt.Fprintln(f.out, text)
	return err
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}
