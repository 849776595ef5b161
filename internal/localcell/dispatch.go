package localcell

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"cellwall.dev/cellwall/internal/directory"
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

// place moves a job into the queue of a shard that holds its tenant by what the directory says now.
func (f *front) place(ctx context.Context, d jobqueue.Delivery) error {
	job, err := routing.ParseJob(d.Body)
	if err != nil {
		return err
	}
	tenant, err := routing.DecodeTenant(job.Tenant)
	if err != nil {
		return err
	}
	known, err := f.entries.Fresh(ctx, tenant, job.Epoch)
	switch {
	case err != nil:
		return err
	case known.Cell != f.cell:
		return errors.New("the tenant lives in another cell")
	case known.State == directory.Placing || known.State == directory.Moving:
		return fmt.Errorf("the tenant is %s", known.State)
	}
	members, err := f.subset(ctx, known.Entry)
	if err != nil {
		return err
	}
	job.Epoch, job.Shard = known.Epoch, pick(members, job.ID, job.Dispatches)
	message, err := job.Encode()
	if err != nil {
		return err
	}
	return f.queues.Move(ctx, dispatchQueue(f.cell), d.Receipt, shardQueue(f.cell, job.Shard),
		jobqueue.Message{ID: job.ID, Group: names.Tenant(tenant), Body: message})
}

func (f *front) subset(ctx context.Context, e directory.Entry) ([]string, error) {
	if len(e.Pins) > 0 {
		return e.Pins, nil
	}
	t, err := f.topologies.Topology(ctx, e.Cell, e.Topology)
	if err != nil {
		return nil, err
	}
	key, err := f.keys(ctx, e.Cell, t.KeyVersion)
	if err != nil {
		return nil, err
	}
	p, err := t.Placer(key)
	if err != nil {
		return nil, err
	}
	return p.Subset(e)
}

// pick is a member by the job's id, and the next one after each shard that gave the job back.
func pick(members []string, id string, gaveBack int) string {
	h := fnv.New32a()
	h.Write([]byte(id)) // never fails
	return members[(int(h.Sum32()%uint32(len(members)))+gaveBack)%len(members)]
}
