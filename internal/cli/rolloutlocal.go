package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/rolling"
	"cellwall.dev/cellwall/internal/rollout"
)

// localInterval is how often local cells are looked at: nobody is billed for it.
const localInterval = 200 * time.Millisecond

// rolling is the cells that run in the state directory.
func (f *rolloutFlags) rolling() (*rolling.Rolling, error) {
	if f.stateDir == "" {
		return nil, usagef("--state-dir is empty; name a directory")
	}
	dir, err := localcell.NewDir(f.stateDir)
	if err != nil {
		return nil, stateError(err)
	}
	r, err := rolling.New(dir)
	switch {
	case errors.Is(err, localcell.ErrNotRunning) && f.directory == "":
		return nil, hint(usagef("which directory? none is named, and %w", err), "name one with --directory aws or --directory FILE, or start a local cell with cellwall local up")
	case errors.Is(err, localcell.ErrNotRunning):
		return nil, hint(foundf("%w", err), "start one with cellwall local up")
	}
	return r, stateError(err)
}

// planLocal plans a rollout of a worker over the cells that run here.
func (f *rolloutFlags) planLocal(ctx context.Context, d *rolloutDesk, s *rolloutStartFlags) (rollout.Spec, error) {
	fleet, err := f.loadFleet()
	if err != nil {
		return rollout.Spec{}, err
	}
	if fleet.Service != d.service {
		return rollout.Spec{}, hint(usagef("the fleet is of service %s, and the cells that run here of %s", fleet.Service, d.service), "name that service's fleet with --fleet, or another --state-dir")
	}
	r, err := f.rolling()
	if err != nil {
		return rollout.Spec{}, err
	}
	spec := rollout.Spec{MinRequests: int64(fleet.Rollout.HaltOn.MinRequests)}
	bake := s.bake
	if s.asFleet {
		bake = -1
	}
	if s.minRequests >= 0 {
		spec.MinRequests = int64(s.minRequests)
	}
	if spec.Waves, err = r.Waves(fleet, bake); err != nil {
		return rollout.Spec{}, foundf("%w", err)
	}
	tenants, err := f.fleetTenants(ctx, fleet)
	if err != nil {
		return rollout.Spec{}, err
	}
	f.countTenants(fleet, tenants, spec.Waves)
	if s.phase == string(rollout.Contract) {
		if spec.Running, err = r.Running(ctx); err != nil {
			return rollout.Spec{}, err
		}
	}
	if spec.Digest, err = r.Add(s.worker); err != nil {
		if errors.Is(err, localcell.ErrWorker) {
			err = usagef("--worker %s: %w", s.worker, err)
		}
		return rollout.Spec{}, stateError(err)
	}
	return spec, nil
}

// localHands deploy to the cells that run here, which must be those of the rollout.
func (f *rolloutFlags) localHands(s rollout.Spec) (*rolloutHands, error) {
	if f.probe != "" || f.cdk != "" {
		return nil, usagef("--probe and --cdk are for cells on AWS")
	}
	r, err := f.rolling()
	if err != nil {
		return nil, err
	}
	if r.Service() != s.Service {
		return nil, foundf("the rollout is of service %s, and the cells that run here of %s", s.Service, r.Service())
	}
	if err := r.Has(s.Digest); err != nil {
		return nil, hint(foundf("%w", err), "give the worker again: cellwall rollout start --worker FILE adds it, and finds what is done")
	}
	here := r.Cells(0)
	for _, w := range s.Waves {
		for _, cell := range slices.Concat(w.Batches...) {
			if !slices.ContainsFunc(here, func(c rollout.PlannedCell) bool { return sameStages(c, cell) }) {
				return nil, hint(foundf("cell %s of the rollout does not run here, or has other zones now", cell.Name), "start the cells as they were, with cellwall local up")
			}
		}
	}
	return &rolloutHands{stacks: r, gate: r, interval: localInterval, close: func() error { return nil }}, nil
}

// sameStages says that a cell has the same name and stages.
func sameStages(a, b rollout.PlannedCell) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Stages, b.Stages, func(x, y rollout.PlannedStage) bool { return x.Name == y.Name })
}
