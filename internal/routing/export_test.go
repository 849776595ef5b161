package routing

import (
	"context"
	"errors"
)

// Decision makes the decisions of requests, one after the other, for benchmarks over the cache of another package.
type Decision struct{ s serving }

// NewDecision returns one for requests that the engine's first route takes.
func (e *Engine) NewDecision(req *Request) *Decision {
	return &Decision{serving{Engine: e, req: req, route: e.routes[0], repeatable: true}}
}

// Members looks a tenant up, and returns whom to ask, in order; the slice is good until the next call.
func (d *Decision) Members(ctx context.Context, tenant string) ([]string, error) {
	d.s.out, d.s.looks = Outcome{Tenant: tenant}, 0
	entry, refusal := d.s.look(ctx)
	if refusal != nil {
		return nil, errors.Join(errors.New(string(refusal.Body)), d.s.out.Err)
	}
	order, refusal := d.s.order(ctx, entry)
	if refusal != nil {
		return nil, errors.Join(errors.New(string(refusal.Body)), d.s.out.Err)
	}
	return order, nil
}
