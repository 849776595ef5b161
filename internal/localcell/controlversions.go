package localcell

import (
	"context"
	"net/http"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/rollout"
)

// What travels between a rollout and the supervisor about what it has seen.
type (
	lookRequest struct {
		Cell      string    `json:"cell"`
		Since     time.Time `json:"since,omitzero"`
		From      time.Time `json:"from,omitzero"`
		Unreached []string  `json:"unreached"`
	}
	// Sight is what the supervisor has seen of a cell.
	Sight struct {
		rollout.Observation
		// Begun is when the supervisor began to watch. What was before, while there was none, it does not know.
		Begun time.Time `json:"begun"`
	}
)

func (s *supervisor) controlVersions(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/versions", func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, http.StatusOK, s.workerVersions(s.doors))
	})
	mux.HandleFunc("POST /v1/deploy", answer(s.deploy))
	mux.HandleFunc("POST /v1/look", answer(func(_ context.Context, in lookRequest) (Sight, error) {
		return s.signs.look(time.Now(), in)
	}))
}

// Versions are what each shard's worker runs, in the order of the cells and their shards.
func (r *Running) Versions(ctx context.Context) ([]WorkerVersion, error) {
	var all []WorkerVersion
	err := r.control().Do(ctx, http.MethodGet, "/v1/versions", nil, &all)
	return all, err
}

// Deploy brings shards to a version, one after the other, and returns when all are healthy, or with the first that is
// not; the others are as they were then. It goes on when ctx ends. Repeated for what runs already it does nothing.
func (r *Running) Deploy(ctx context.Context, d Deployment) ([]WorkerVersion, error) {
	var all []WorkerVersion
	err := r.control().Do(ctx, http.MethodPost, "/v1/deploy", d, &all)
	return all, err
}

// Look is what the supervisor has seen of a cell: requests since a time, and alarms from another on.
func (r *Running) Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (Sight, error) {
	var s Sight
	err := r.control().Do(ctx, http.MethodPost, "/v1/look", lookRequest{cell, since, from, unreached}, &s)
	return s, err
}
