package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// planFlags are what plan is asked.
type planFlags struct {
	directoryFlags
	tenantsFile, cell string
	loadPer           string
	sets              []string
	asJSON            bool
}

func planCommand(a *app) *cobra.Command {
	f := &planFlags{directoryFlags: directoryFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "plan (--tenants-file F | --directory D) [--cell NAME]",
		Short: "Say whether a fleet keeps its budget with its tenants, and which n and k would",
		Long: `Say for each cell of the fleet, or for one, whether its budget is kept with the tenants that it has: which
line is broken, by how much, and what would fix it. Below that stands why: the worst failures of one, two
and three shards, of each zone and of declared sets; whether the shards that are left can carry the load,
step by step where they cannot; what clients experience; how even the load is and which tenants are too big;
and the smallest n and k that keep the budget, with their neighbours.

Exit status 3 when a budget is broken, or a failure within it leaves a shard with more than it can carry.

A tenants file is CSV with the header tenant,load, and after these any of size, pins (shards, separated by
spaces) and cell; - is standard input. A directory has all of that, and the topologies and slots by which
its tenants are placed. Loads are requests per second, unless --load-per says otherwise.

Without a column cell, and for several cells, tenants are dealt as sign-up deals them: in the order of the
file, each to the cell with least load per shard, cells for internal tenants left out. With --cell the
whole file is that cell's. bounded/v1 gives slots in the order of the file.`,
		Example: `  cellwall plan --tenants-file tenants.csv
  cellwall plan --directory aws --cell eu-1 --set rack7=s01,s07 --json`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := f.report(cmd)
			if err != nil {
				return err
			}
			if f.asJSON {
				e := json.NewEncoder(a.out)
				e.SetEscapeHTML(false)
				err = e.Encode(report)
			} else {
				err = report.print(a.out)
			}
			if err != nil {
				return fmt.Errorf("write the plan: %w", err)
			}
			return report.verdict()
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.tenantsFile, "tenants-file", "", "file of tenants, - for standard input")
	cmd.Flags().StringVar(&f.cell, "cell", "", "plan this cell alone")
	cmd.Flags().StringVar(&f.loadPer, "load-per", "second", "the loads of the file are requests per second, minute, hour, day or month (30 days)")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "shards that fail together, as rack7=s01,s07; may be repeated")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// loadPeriods are seconds by the name of a period.
var loadPeriods = map[string]float64{"second": 1, "minute": 60, "hour": 3600, "day": 86400, "month": 30 * 86400}

// report reads everything and measures every cell, before anything is printed.
func (f *planFlags) report(cmd *cobra.Command) (*planReport, error) {
	fromFile, fromDirectory := cmd.Flags().Changed("tenants-file"), cmd.Flags().Changed("directory")
	if fromFile == fromDirectory {
		return nil, hint(usagef("plan needs the tenants: give one of --tenants-file and --directory"), "see %s --help", cmd.CommandPath())
	}
	seconds, ok := loadPeriods[f.loadPer]
	switch {
	case !ok:
		return nil, usagef("--load-per %s: want second, minute, hour, day or month", printable(f.loadPer))
	case fromDirectory && cmd.Flags().Changed("load-per"):
		return nil, usagef("--load-per is for files: a directory has requests per second")
	}
	fleet, err := f.loadFleet()
	if err != nil {
		return nil, err
	}
	if f.cell != "" {
		if _, err := fleetCell(fleet, f.cell); err != nil {
			return nil, err
		}
	}
	sets, err := parseSets(f.sets)
	if err != nil {
		return nil, err
	}
	var in *planInput
	if fromFile {
		in, err = f.fromFile(fleet, seconds)
	} else {
		in, err = f.fromDirectory(cmd.Context(), fleet, "plan")
	}
	if err != nil {
		return nil, err
	}
	return in.measure(fleet, sets)
}

// namedSet is a declared set of shards, by id.
type namedSet struct {
	name string
	ids  []string
}

func parseSets(flags []string) ([]namedSet, error) {
	var sets []namedSet
	seen := map[string]bool{}
	for _, text := range flags {
		name, list, ok := strings.Cut(text, "=")
		ids := strings.Split(list, ",")
		for i := range ids {
			ids[i] = strings.TrimSpace(ids[i])
			ok = ok && ids[i] != ""
		}
		if !ok || name == "" {
			return nil, usagef("--set %q: want a name and the shards that fail together, as rack7=s01,s07", text)
		}
		if seen[name] {
			return nil, usagef("--set %s is given twice: give each set a name of its own", name)
		}
		seen[name] = true
		sets = append(sets, namedSet{name, ids})
	}
	return sets, nil
}

// verdict is the exit status of the plan.
func (r *planReport) verdict() error {
	var broken []string
	for _, c := range r.Cells {
		if !c.holds() {
			broken = append(broken, c.Cell)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	if len(r.Cells) == 1 {
		return foundf("the budget of cell %q is broken", broken[0])
	}
	return foundf("the budget is broken in %d of %s: %s", len(broken), count(len(r.Cells), "cell"), strings.Join(broken, ", "))
}
