package cli

import (
	"context"
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// fleetTenants places the directory's tenants, so that each stage of a rollout can say how many have all of their shards
// on the new version. A rollout needs none of it: what stands in the way is told and leaves them uncounted, and nil.
func (f *rolloutFlags) fleetTenants(ctx context.Context, fl *fleet.Fleet) (*planInput, error) {
	p := planFlags{directoryFlags: f.directoryFlags}
	p.because = "" // which speaks of alarms
	in, err := p.readDirectory(ctx, fl, "rollout start", false)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		f.uncounted(err)
		return nil, nil
	case in.key != "cell":
		f.uncounted(errNoKey)
		return nil, nil
	}
	return in, nil
}

func (f *rolloutFlags) uncounted(err error) {
	fmt.Fprintln(f.err, "warning: how many tenants have all of their shards on the new version will not be known:", printed(err.Error()))
}

// countTenants adds to the stages of the plan what they mean for the tenants of their cells.
func (f *rolloutFlags) countTenants(fl *fleet.Fleet, in *planInput, waves []rollout.Wave) {
	if in == nil {
		return
	}
	for _, w := range waves {
		for _, cell := range slices.Concat(w.Batches...) {
			i := slices.IndexFunc(fl.Cells, func(c fleet.Cell) bool { return c.Name == cell.Name })
			if i < 0 || len(in.cells[i].members) == 0 {
				continue
			}
			counted, err := countedStages(fl.Cells[i], in, i)
			if err != nil {
				f.uncounted(err)
				continue
			}
			for _, s := range counted {
				at := slices.IndexFunc(cell.Stages, func(p rollout.PlannedStage) bool { return p.Name == release.ZoneStage(s.Zone) })
				if at >= 0 {
					cell.Stages[at].Tenants = &rollout.Tenants{Of: len(in.cells[i].members), Whole: s.Whole, Twice: s.Twice}
				}
			}
		}
	}
}

// sizes are the tenants by cell, by which percents go; nil when there are none, or nobody counted them.
func (in *planInput) sizes() map[string]int {
	if in == nil || len(in.tenants.tenants) == 0 {
		return nil
	}
	sizes := map[string]int{}
	for _, c := range in.cells {
		sizes[c.Name] = len(c.members)
	}
	return sizes
}
