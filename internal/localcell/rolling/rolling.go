// Package rolling brings new versions of the worker to the cells that run on this machine, as package run brings
// assemblies to cells on AWS: its Stacks are the workers of a zone, and its Gate is what the supervisor has seen.
//
//	r, err := rolling.New(dir)
//	digest, err := r.Add(file)                       // a copy in the state directory
//	waves, err := r.Waves(fleet, 10*time.Second)     // of a rollout.Spec
//	run.Config{Stacks: r, Gate: r, …}
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. TruthIsWhatRuns: Read is the version of the processes that answer, whatever a deployment said.
//  2. OneAfterTheOther: no two shards of a stage are without a worker at once, and each is asked for by a permit of its own.
//  3. Idempotent: a stage that runs the version is left alone, however often it is deployed.
//  4. Fenced: the supervisor itself refuses a number below one that it was shown.
package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/wave"
)

// Errors of Rolling. They come wrapped.
var (
	// ErrNoStage means that no running cell has the stage.
	ErrNoStage = errors.New("no such stage here")
	// ErrNoCell means that none of the fleet's waves has a cell that runs here.
	ErrNoCell = errors.New("no cell of the fleet's waves runs here")
)

// Rolling deploys to the cells of one state directory. It is safe for concurrent use, and may be used while they go
// down and up again.
type Rolling struct {
	dir   localcell.Dir
	cells []localcell.Plan

	mu  sync.Mutex
	gap map[string]time.Time // by cell, the begin of a watch of which Look has said that nothing is known before it
}

var (
	_ run.Stacks = (*Rolling)(nil)
	_ run.Gate   = (*Rolling)(nil)
)

// New is over the cells that run in a state directory now. localcell.ErrNotRunning when none do.
func New(d localcell.Dir) (*Rolling, error) {
	if _, err := d.Find(); err != nil {
		return nil, err
	}
	l, err := d.Layout()
	if err != nil {
		return nil, err
	}
	return &Rolling{dir: d, cells: l.Cells, gap: map[string]time.Time{}}, nil
}

// Service is the service of the cells, by which a lease is taken.
func (r *Rolling) Service() string { return r.cells[0].Service }

// Add copies a worker's file into the state directory, and returns its digest. localcell.ErrWorker when it is none.
func (r *Rolling) Add(file string) (digest string, err error) { return r.dir.AddWorker(file) }

// Has says whether the state directory has a digest. localcell.ErrNoVersion when not.
func (r *Rolling) Has(digest string) error { return r.dir.HasWorker(digest) }

// Running is what the cells run: each of their digests once per cell, and "" for a shard that does not answer.
func (r *Rolling) Running(ctx context.Context) ([]rollout.Running, error) {
	all, err := r.versions(ctx)
	if err != nil {
		return nil, err
	}
	var out []rollout.Running
	for _, v := range all {
		if one := (rollout.Running{Cell: v.Cell, Digest: v.Runs}); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out, nil
}

// Cells are the running cells with their stages, a zone each, in the order of the fleet. Each stage bakes as long, but
// for the last: after it comes the bake of the wave. So each zone bakes once, as rollout plan says.
func (r *Rolling) Cells(bake time.Duration) []rollout.PlannedCell {
	var all []rollout.PlannedCell
	for _, p := range r.cells {
		c := rollout.PlannedCell{Name: p.Cell}
		zones := stagesOf(p)
		for i, s := range zones {
			stage := rollout.PlannedStage{Name: stageName(s.Zone)}
			if i+1 < len(zones) {
				stage.Bake = rollout.Duration(bake)
			}
			c.Stages = append(c.Stages, stage)
		}
		all = append(all, c)
	}
	return all
}

// Waves are the fleet's waves, as far as their cells run here. With a bake of 0 or more it is that of every wave, and
// with one below 0 the fleet's own are taken. ErrNoCell when no wave has a cell.
func (r *Rolling) Waves(f *fleet.Fleet, bake time.Duration) ([]rollout.Wave, error) {
	var sizes []wave.Cell
	for _, p := range r.cells {
		sizes = append(sizes, wave.Cell{Name: p.Cell, Size: len(p.Topology.Shards)})
	}
	here := func(name string) bool {
		return slices.ContainsFunc(sizes, func(c wave.Cell) bool { return c.Name == name })
	}
	entries := f.WaveEntries()
	for i := range entries {
		entries[i].Cells = slices.DeleteFunc(slices.Clone(entries[i].Cells), func(name string) bool { return !here(name) })
	}
	resolved, left := wave.Resolve(sizes, entries)
	var waves []rollout.Wave
	for i, w := range resolved {
		if len(w.Cells) == 0 {
			continue
		}
		long := bake
		if long < 0 {
			long = f.Rollout.Waves[i].Bake
		}
		planned := r.Cells(long)
		out := rollout.Wave{Bake: rollout.Duration(long)}
		for _, names := range w.Batches {
			var batch []rollout.PlannedCell
			for _, name := range names {
				at := slices.IndexFunc(planned, func(c rollout.PlannedCell) bool { return c.Name == name })
				batch = append(batch, planned[at])
			}
			out.Batches = append(out.Batches, batch)
		}
		waves = append(waves, out)
	}
	switch {
	case len(left) > 0:
		return nil, fmt.Errorf("cell %q runs here and is in no wave: %w", left, wave.ErrLeftOut)
	case len(waves) == 0:
		return nil, ErrNoCell
	}
	return waves, nil
}

func stagesOf(p localcell.Plan) []wave.Stage {
	var shards []wave.Shard
	for _, s := range p.Topology.Shards {
		shards = append(shards, wave.Shard{ID: s.ID, Zone: s.Zone})
	}
	return wave.Stages(shards, func(func([]int) bool) {})
}

func stageName(zone string) string {
	if zone == "" {
		return "shards" // of a plan without zones
	}
	return "zone-" + zone
}

// shards are the ids of a stage's shards.
func (r *Rolling) shards(cell, stage string) ([]string, error) {
	for _, p := range r.cells {
		if p.Cell != cell {
			continue
		}
		for _, s := range stagesOf(p) {
			if stageName(s.Zone) == stage {
				return s.Shards, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: cell %q, stage %q", ErrNoStage, cell, stage)
}

func (r *Rolling) versions(ctx context.Context) ([]localcell.WorkerVersion, error) {
	running, err := r.dir.Find()
	if err != nil {
		return nil, err
	}
	return running.Versions(ctx)
}

// Read is what the stage's workers run in truth: Complete when each answers, Failed when one does not, InProgress while
// a deployment is at one, whoever began it. None is ever rolled back by itself.
func (r *Rolling) Read(ctx context.Context, cell, stage, _ string) (run.Reading, error) {
	unknown := run.Reading{Stack: rollout.Unknown}
	shards, err := r.shards(cell, stage)
	if err != nil {
		return unknown, err
	}
	all, err := r.versions(ctx)
	if err != nil {
		return unknown, err
	}
	status, digest, seen := rollout.Complete, "", 0
	for _, v := range all {
		if v.Cell != cell || !slices.Contains(shards, v.Shard) {
			continue
		}
		switch {
		case v.Deploying:
			status = rollout.InProgress
		case v.Runs == "" && status != rollout.InProgress:
			status = rollout.Failed
		}
		if seen++; seen == 1 {
			digest = v.Runs
		} else if digest != v.Runs {
			digest = ""
		}
	}
	if seen != len(shards) {
		return unknown, fmt.Errorf("cell %s, stage %s: %d of its %d shards run", cell, stage, seen, len(shards))
	}
	if status == rollout.InProgress {
		digest = ""
	}
	return run.Reading{Stack: status, Digest: digest}, nil
}

// Prepare sees that the digest's file is in the state directory and whole. Nothing else needs to be made.
func (r *Rolling) Prepare(_ context.Context, cell, stage, digest string, _ uint64) error {
	if _, err := r.shards(cell, stage); err != nil {
		return err
	}
	return r.dir.HasWorker(digest)
}

// Execute brings the stage's shards to the digest, one after the other, each with a permit of its own.
func (r *Rolling) Execute(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	shards, err := r.shards(cell, stage)
	if err != nil {
		return err
	}
	all, err := r.versions(ctx)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		// What runs it already needs no permit.
		if slices.ContainsFunc(all, func(v localcell.WorkerVersion) bool {
			return v.Cell == cell && v.Shard == shard && v.Wants == digest && v.Runs == digest && !v.Deploying
		}) {
			continue
		}
		if err := permit(ctx); err != nil {
			return fmt.Errorf("shard %s: %w", shard, err)
		}
		running, err := r.dir.Find()
		if err != nil {
			return err
		}
		if _, err := running.Deploy(ctx, localcell.Deployment{Cell: cell, Shards: []string{shard}, Version: digest, Fencing: fencing}); err != nil {
			return err
		}
	}
	return nil
}

// Restore is Prepare and Execute. A file that was damaged is found before the first change.
func (r *Rolling) Restore(ctx context.Context, cell, stage, digest string, fencing uint64, permit func(context.Context) error) error {
	if err := r.Prepare(ctx, cell, stage, digest, fencing); err != nil {
		return err
	}
	return r.Execute(ctx, cell, stage, digest, fencing, permit)
}

// Look is what the supervisor has seen. Of what was before it began to watch it knows the alarms, and not what nobody
// saw: that is missing, once, so that a bake with such a gap begins again.
func (r *Rolling) Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (rollout.Observation, error) {
	running, err := r.dir.Find()
	if err != nil {
		return rollout.Observation{}, err
	}
	s, err := running.Look(ctx, cell, since, from, unreached)
	if err != nil {
		return rollout.Observation{}, err
	}
	o := s.Observation
	if !since.IsZero() && since.Before(s.Begun) {
		r.mu.Lock()
		told := r.gap[cell].Equal(s.Begun)
		r.gap[cell] = s.Begun
		r.mu.Unlock()
		if !told {
			o.Missing = append(o.Missing, "what was before the cells were started anew, at "+s.Begun.Format(time.TimeOnly)+" UTC")
		}
	}
	return o, nil
}
