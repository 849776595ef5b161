package localcell

import (
	"context"
	"errors"
	"slices"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/routing"
)

// dispatch places the jobs of the cell's dispatch queue until ctx ends: those of tenants that a shard did not
// hold, and those that shards send to other tenants.
func (f *front) dispatch(ctx context.Context) {
	for ctx.Err() == nil {
		jobs, err := f.queues.Receive(ctx, jobqueue.Receive{
			Queue: dispatchQueue(f.cell), Max: jobqueue.MaxReceive, Hidden: jobHidden, MaxReceive: max(1, f.plan.MaxReceive), Wait: jobWait,
		})
		if err != nil {
			pause(ctx, storePause)
		}
		for _, job := range jobs {
			if err := f.place(ctx, job); err != nil && ctx.Err() == nil {
				f.log.Error("job is not placed; it comes again", "job", job.ID, "delivery", job.Receives, "why", err)
				// What is not noted here comes again as well, later.
				_ = f.queues.Delay(ctx, dispatchQueue(f.cell), job.Receipt, again(job.Receives))
			}
		}
	}
}

// place moves a job into the queue of a shard that holds its tenant by what the directory says now, or into the
// dispatch queue of the cell that does, whose router knows that cell's shards.
func (f *front) place(ctx context.Context, d jobqueue.Delivery) error {
	job, err := routing.ParseJob(d.Body)
	if err != nil {
		return err
	}
	to := ""
	placed, err := f.engine.Place(ctx, job)
	var elsewhere *routing.ElsewhereError
	switch {
	case errors.As(err, &elsewhere) && slices.Contains(f.cells, elsewhere.Cell):
		placed, to = job, dispatchQueue(elsewhere.Cell)
	case err != nil:
		return err
	default:
		to = shardQueue(f.cell, placed.Shard)
	}
	tenant, err := routing.DecodeTenant(placed.Tenant)
	if err != nil {
		return err
	}
	message, err := placed.Encode()
	if err != nil {
		return err
	}
	return f.queues.Move(ctx, dispatchQueue(f.cell), d.Receipt, to, jobqueue.Message{ID: job.ID, Group: names.Tenant(tenant), Body: message})
}
