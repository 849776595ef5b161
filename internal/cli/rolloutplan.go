package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/wave"
)

func rolloutPlan(a *app) *cobra.Command {
	var asJSON bool
	f := &planFlags{directoryFlags: directoryFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print the waves of the fleet, who is in them, and how long they take",
		Long: `Print the waves of the fleet: their cells, the shards and tenants of these, the stages inside each cell, and
how long the bakes take. It changes nothing; rollout start goes by it.

Cells of a wave go at once, but no more than a third of the fleet's cells, or one; the others of the wave
follow when these have baked. Inside a cell the shards go in stages, a zone each, and the bake of the wave follows each stage, so
that a tenant with its shards in different zones never has two that are not baked. How long deployments
take is not known, and comes on top.

With --directory percents count its tenants instead of shards, if it has any, and each stage says how many
tenants have all of their shards on the new version after it, and how many have two or more shards in it.
Exit status 3 when the fleet lacks a shard that a topology of the directory names.`,
		Example: `  cellwall rollout plan
  cellwall rollout plan --directory aws --json`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.rolloutReport(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(a.out).Encode(r)
			} else {
				err = r.print(a.out)
			}
			if err != nil {
				return fmt.Errorf("write the plan: %w", err)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// rolloutReport is the plan of a rollout. Tenants are null where no directory tells them.
type rolloutReport struct {
	Service string        `json:"service"`
	Sizes   string        `json:"percentsCount"`    // tenants or shards
	Key     string        `json:"key,omitempty"`    // whose key placed the tenants: cell, file or example
	AtOnce  int           `json:"mostCellsAtOnce"`  // that are deployed
	Cells   int           `json:"cells"`            //
	Shards  int           `json:"shards"`           //
	Tenants *int          `json:"tenants"`          //
	Bakes   float64       `json:"totalBakeSeconds"` // without the time of deployments, which is not known
	Waves   []rolloutWave `json:"waves"`            //
}

type rolloutWave struct {
	Wave    int            `json:"wave"`             // from 1
	Cells   []string       `json:"cells"`            //
	Batches [][]string     `json:"batches"`          // cells that go at once; the next batch follows when they have baked
	Shards  int            `json:"shards"`           //
	Tenants *int           `json:"tenants"`          //
	Reached float64        `json:"reachedPercent"`   // after the wave
	Bake    float64        `json:"bakeSeconds"`      // after each stage
	Steps   int            `json:"bakes"`            // one after the other
	Total   float64        `json:"totalBakeSeconds"` //
	Stages  []rolloutStage `json:"stages"`           //
}

type rolloutStage struct {
	Cell   string   `json:"cell"`
	Stage  int      `json:"stage"` // from 1
	Zone   string   `json:"zone"`
	Shards []string `json:"shards"`
	Whole  *int     `json:"tenantsAllNew"`
	Twice  *int     `json:"tenantsTwoUnbaked"`
}

// rolloutReport plans the fleet's waves, with the tenants of the directory if one is named.
func (f *planFlags) rolloutReport(cmd *cobra.Command) (*rolloutReport, error) {
	fl, err := f.loadFleet()
	if err != nil {
		return nil, err
	}
	var in *planInput
	if cmd.Flags().Changed("directory") {
		if err := f.noneLost(cmd, f.fleetFile); err != nil {
			return nil, err
		}
		if in, err = f.fromDirectory(cmd.Context(), fl, "rollout plan"); err != nil {
			return nil, err
		}
	}
	return newRolloutReport(fl, in)
}

// newRolloutReport plans the fleet's waves. in has the tenants of every cell, in the order of the fleet, or is nil.
func newRolloutReport(fl *fleet.Fleet, in *planInput) (*rolloutReport, error) {
	r := &rolloutReport{Service: fl.Service, Sizes: "shards", AtOnce: wave.AtOnce(len(fl.Cells)), Cells: len(fl.Cells)}
	if in != nil {
		r.Key, r.Tenants = in.key, new(len(in.tenants.tenants))
		if *r.Tenants > 0 {
			r.Sizes = "tenants"
		}
	}
	at := map[string]int{} // cell by name
	sizes := make([]wave.Cell, len(fl.Cells))
	stages := make([][]rolloutStage, len(fl.Cells))
	for i, c := range fl.Cells {
		at[c.Name] = i
		r.Shards += len(c.Shards)
		sizes[i] = wave.Cell{Name: c.Name, Size: len(c.Shards)}
		if r.Sizes == "tenants" {
			sizes[i].Size = len(in.cells[i].members)
		}
		var err error
		if stages[i], err = stagesOf(c, in, i); err != nil {
			return nil, err
		}
	}
	waves, err := wave.Plan(sizes, fl.WaveEntries())
	if err != nil {
		return nil, usagef("%w", err)
	}
	for i, w := range waves {
		bake := fl.Rollout.Waves[i].Bake.Seconds()
		out := rolloutWave{Wave: i + 1, Cells: w.Cells, Batches: w.Batches, Reached: 100 * float64(w.Reached) / float64(w.Of), Bake: bake}
		tenants := 0
		for _, batch := range w.Batches {
			longest := 0
			for _, name := range batch {
				cell := at[name]
				longest = max(longest, len(stages[cell]))
				out.Stages = append(out.Stages, stages[cell]...)
				out.Shards += len(fl.Cells[cell].Shards)
				if in != nil {
					tenants += len(in.cells[cell].members)
				}
			}
			out.Steps += longest
		}
		if in != nil {
			out.Tenants = &tenants
		}
		out.Total = bake * float64(out.Steps)
		r.Bakes += out.Total
		r.Waves = append(r.Waves, out)
	}
	return r, nil
}

// stagesOf are the stages of the fleet's cell at an index, with its tenants counted where there are any to ask.
func stagesOf(c fleet.Cell, in *planInput, i int) ([]rolloutStage, error) {
	stages, err := countedStages(c, in, i)
	var out []rolloutStage
	for n, s := range stages {
		stage := rolloutStage{Cell: c.Name, Stage: n + 1, Zone: c.ZoneName(s.Zone), Shards: s.Shards}
		if in != nil {
			stage.Whole, stage.Twice = new(s.Whole), new(s.Twice)
		}
		out = append(out, stage)
	}
	return out, err
}

// countedStages are the zones of the fleet's cell at an index in their order, with its tenants counted.
func countedStages(c fleet.Cell, in *planInput, i int) ([]wave.Stage, error) {
	shards := make([]wave.Shard, len(c.Shards))
	at := map[string]int{}
	for j, s := range c.Shards {
		shards[j] = wave.Shard{ID: s.ID, Zone: s.Zone}
		at[s.ID] = j
	}
	var unplaced, missing error
	subsets := func(yield func([]int) bool) {
		if in == nil {
			return
		}
		cell := in.cells[i]
		var own []int // the subset by the fleet's shards: not all of them serve
		for tenant, subset := range in.subsets(cell, &unplaced) {
			own = own[:0]
			for _, s := range subset {
				id := cell.shards[s].id
				j, known := at[id]
				if !known {
					missing = foundf("tenant %s is on shard %q, which the fleet's cell %q does not have", printable(in.tenants.tenants[tenant]), id, c.Name)
					return
				}
				own = append(own, j)
			}
			if !yield(own) {
				return
			}
		}
	}
	stages := wave.Stages(shards, subsets)
	if unplaced != nil {
		return nil, usagef("cell %q: %w", c.Name, unplaced)
	}
	return stages, missing
}

// print writes the plan for people.
func (r *rolloutReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	number := func(n *int) string {
		if n == nil {
			return "unknown"
		}
		return fmt.Sprint(*n)
	}
	fmt.Fprintf(w, "rollout of %s: %s, %s, %s; at most %s at once\n", r.Service,
		count(len(r.Waves), "wave"), count(r.Cells, "cell"), count(r.Shards, "shard"), count(r.AtOnce, "cell"))
	fmt.Fprintf(w, "\nwave\tcells\tshards\ttenants\t%s reached\tbakes\tin all\n", r.Sizes)
	for _, v := range r.Waves {
		batches := make([]string, len(v.Batches))
		for i, b := range v.Batches {
			batches[i] = strings.Join(b, " ")
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%d of %s\t%s\n", v.Wave, strings.Join(batches, ", then "), v.Shards, number(v.Tenants),
			percentage(v.Reached/100), v.Steps, bakeText(v.Bake), bakeText(v.Total))
	}
	fmt.Fprintln(w, "\nwave\tcell\tstage\tzone\tall shards new\ttwo unbaked\tshards")
	for _, v := range r.Waves {
		for _, s := range v.Stages {
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\n", v.Wave, s.Cell, s.Stage, s.Zone, number(s.Whole), number(s.Twice), strings.Join(s.Shards, " "))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nThe bakes take %s. How long the deployments take is not known, and comes on top.\n", bakeText(r.Bakes))
	if err == nil && r.Tenants == nil {
		_, err = fmt.Fprintln(out, "Tenants are unknown without a directory, and percents count shards: name one with --directory.")
	}
	return err
}

// bakeText is a number of seconds for people. Many long bakes are more than a time.Duration can be.
func bakeText(s float64) string {
	if s > math.MaxInt64/1e9 {
		return fmt.Sprintf("%.3gh", s/3600)
	}
	return seconds(s).String()
}
