package cli

import (
	"context"

	"cellwall.dev/cellwall/internal/rollout"
)

// openRollouts opens the journal of the directory that --directory names.
func openRollouts(ctx context.Context, f *rolloutFlags) (*rolloutDesk, error) {
	by, holder, err := f.operator()
	if err != nil {
		return nil, err
	}
	service, err := f.service()
	if err != nil {
		return nil, err
	}
	j, err := f.openJournal(ctx)
	if err != nil {
		return nil, err
	}
	return &rolloutDesk{service: service, store: j.Store, by: by, holder: holder, close: j.close}, nil
}

// service is whose rollouts the commands are over.
func (f *rolloutFlags) service() (string, error) {
	if f.isLocal() {
		r, err := f.rolling()
		if err != nil {
			return "", err
		}
		return r.Service(), nil
	}
	fleet, err := f.loadFleet()
	if err != nil {
		return "", err
	}
	return fleet.Service, nil
}

func (f *rolloutFlags) isLocal() bool { return f.directory == "" || f.directory == directoryLocal }

// planRollout plans what start names.
func planRollout(ctx context.Context, f *rolloutFlags, d *rolloutDesk, s *rolloutStartFlags) (rollout.Spec, error) {
	if s.worker != "" {
		return f.planLocal(ctx, d, s)
	}
	return f.planAWS(ctx, d, s)
}

// handsOfRollout are what the cells of a rollout are deployed with.
func handsOfRollout(ctx context.Context, f *rolloutFlags, d *rolloutDesk, s rollout.State, kind rollout.EventKind) (*rolloutHands, error) {
	switch {
	case f.isLocal():
		return f.localHands(s.Spec)
	case f.directory == directoryAWS:
		return f.awsHands(ctx, d, s, kind)
	}
	return nil, hint(usagef("--directory %s: a file has no cells that could be deployed", f.directory), "give the rollout's own: --directory aws or local")
}
