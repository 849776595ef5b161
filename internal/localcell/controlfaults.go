package localcell

import (
	"context"
	"net/http"
)

// What travels between the operator's commands and the supervisor about faults.
type (
	processRequest struct {
		Process string `json:"process"`
	}
	failRequest struct {
		Process string `json:"process"`
		Fault
	}
	poisonRequest struct {
		Tenant string `json:"tenant"`
		Cell   string `json:"cell,omitempty"` // where the directory has it
		Heal   bool   `json:"heal,omitempty"`
	}
	changeAnswer struct {
		Changed bool `json:"changed"`
	}
	// Healed is what a heal has made whole.
	Healed struct {
		Processes []string `json:"processes"`
		Tenants   []string `json:"tenants"` // that are poisonous no more
	}
)

func (s *supervisor) controlFaults(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/fail", answer(func(ctx context.Context, in failRequest) (changeAnswer, error) {
		changed, err := s.fail(ctx, in.Process, in.Fault)
		return changeAnswer{changed}, err
	}))
	mux.HandleFunc("POST /v1/heal", answer(func(ctx context.Context, in processRequest) (Healed, error) {
		names, tenants, err := s.heal(ctx, in.Process)
		return Healed{append([]string{}, names...), append([]string{}, tenants...)}, err
	}))
	mux.HandleFunc("POST /v1/poison", answer(func(ctx context.Context, in poisonRequest) (changeAnswer, error) {
		changed, err := s.poison(ctx, in.Cell, in.Tenant, in.Heal)
		return changeAnswer{changed}, err
	}))
	mux.HandleFunc("POST /v1/strike", answer(func(_ context.Context, in processRequest) (changeAnswer, error) {
		c, err := s.shard(in.Process)
		if err != nil {
			return changeAnswer{}, err
		}
		return changeAnswer{true}, c.strike()
	}))
}

// Fail breaks a process, and returns once it is broken. changed is false when it is broken so already.
func (r *Running) Fail(ctx context.Context, process string, f Fault) (changed bool, err error) {
	var out changeAnswer
	err = r.control().Do(ctx, http.MethodPost, "/v1/fail", failRequest{process, f}, &out)
	return out.Changed, err
}

// Heal makes a process whole, or with "" all of them and all tenants, and returns once they are.
func (r *Running) Heal(ctx context.Context, process string) (h Healed, err error) {
	err = r.control().Do(ctx, http.MethodPost, "/v1/heal", processRequest{process}, &h)
	return h, err
}

// Poison has each request of a tenant, which the directory has in the cell, kill the worker that is to serve
// it. changed is false when it does so already.
func (r *Running) Poison(ctx context.Context, cell, tenant string) (changed bool, err error) {
	var out changeAnswer
	err = r.control().Do(ctx, http.MethodPost, "/v1/poison", poisonRequest{tenant, cell, false}, &out)
	return out.Changed, err
}

// Antidote undoes Poison.
func (r *Running) Antidote(ctx context.Context, tenant string) (changed bool, err error) {
	var out changeAnswer
	err = r.control().Do(ctx, http.MethodPost, "/v1/poison", poisonRequest{tenant, "", true}, &out)
	return out.Changed, err
}
