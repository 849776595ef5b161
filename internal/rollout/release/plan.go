package release

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/wave"
)

// Names of the stages of a cell, in their order: its core, its shards zone by zone, and what watches them.
const (
	CoreStage  = "core"
	WatchStage = "watch"
)

// ZoneStage is the name of the stage of a zone, by its letter.
func ZoneStage(zone string) string { return "zone-" + zone }

// stageOf is the stage of a cell's stack; "" of a shard that the fleet does not have.
func stageOf(f *fleet.Fleet, c fleet.Cell, x Stack) string {
	n := f.NamesOf(c)
	switch {
	case x.Shard == "" && x.Name == n.Stack():
		return CoreStage
	case x.Shard == "" && x.Name == n.WatchStack():
		return WatchStage
	}
	for _, s := range c.Shards {
		if s.ID == x.Shard && x.Name == n.Shard(s.ID).Stack() {
			return ZoneStage(s.Zone)
		}
	}
	return ""
}

// Options are what the fleet does not say of a rollout.
type Options struct {
	ID      string
	Phase   rollout.Phase  // "" is a release
	Sizes   map[string]int // tenants by cell; nil counts shards
	Revert  bool           // rolls back by itself after a halt
	Despite []rollout.Despite
	NeedOld []string          // of a contract
	Running []rollout.Running // likewise
}

// Plan is the rollout of an assembly over a fleet, which it must fit (Check): every cell of the fleet, in its waves.
// The stages of zones have the wave's bake, but for the last: after it the alarms are brought up to date, and the bake
// of the wave follows. So each zone bakes once, as rollout plan says.
func Plan(f *fleet.Fleet, a *Assembly, o Options) (rollout.Spec, error) {
	waves, err := wave.Plan(Sizes(f, o.Sizes), f.WaveEntries())
	if err != nil {
		return rollout.Spec{}, fmt.Errorf("%w: the waves of the fleet: %w", ErrRefused, err)
	}
	spec := rollout.Spec{
		ID: o.ID, Service: f.Service, Digest: a.Digest, Phase: o.Phase, MinRequests: int64(f.Rollout.HaltOn.MinRequests),
		Revert: o.Revert, NeedOld: o.NeedOld, Running: o.Running, Despite: o.Despite,
	}
	if spec.Phase == "" {
		spec.Phase = rollout.Release
	}
	for i, w := range waves {
		bake := rollout.Duration(f.Rollout.Waves[i].Bake)
		planned := rollout.Wave{Bake: bake}
		for _, batch := range w.Batches {
			var cells []rollout.PlannedCell
			for _, name := range batch {
				c, _ := f.Cell(name)
				cells = append(cells, rollout.PlannedCell{Name: name, Stages: Stages(c, bake), Layout: Layout(c)})
			}
			planned.Batches = append(planned.Batches, cells)
		}
		spec.Waves = append(spec.Waves, planned)
	}
	return spec, nil
}

// Sizes are the cells of a fleet in its order, for wave.Plan: by the tenants that are given, or else by shards.
func Sizes(f *fleet.Fleet, tenants map[string]int) []wave.Cell {
	cells := make([]wave.Cell, len(f.Cells))
	for i, c := range f.Cells {
		cells[i] = wave.Cell{Name: c.Name, Size: len(c.Shards)}
		if tenants != nil {
			cells[i].Size = tenants[c.Name]
		}
	}
	return cells
}

// Layout is a hash of where a cell lies, and of its shards with their zones: of what says which stacks are in which of its
// stages.
func Layout(c fleet.Cell) string {
	var shards []string
	for _, s := range c.Shards {
		shards = append(shards, fmt.Sprintf("%q %q", s.ID, s.Zone))
	}
	slices.Sort(shards)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", c.Account, c.Region, shards))
	return hex.EncodeToString(sum[:6])
}

// Stages are the stages of a cell.
func Stages(c fleet.Cell, bake rollout.Duration) []rollout.PlannedStage {
	shards := make([]wave.Shard, len(c.Shards))
	for i, s := range c.Shards {
		shards[i] = wave.Shard{ID: s.ID, Zone: s.Zone}
	}
	zones := wave.Stages(shards, func(func([]int) bool) {})
	stages := []rollout.PlannedStage{{Name: CoreStage}}
	for i, z := range zones {
		s := rollout.PlannedStage{Name: ZoneStage(z.Zone)}
		if i+1 < len(zones) {
			s.Bake = bake
		}
		stages = append(stages, s)
	}
	return append(stages, rollout.PlannedStage{Name: WatchStage})
}

// list is names in order, at most ten of them.
func list(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	if more := len(names) - 10; more > 0 {
		return strings.Join(names[:10], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
