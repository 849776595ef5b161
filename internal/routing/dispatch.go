package routing

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"cellwall.dev/cellwall/internal/directory"
)

// ErrElsewhere means that a job's tenant lives in another cell, whose dispatch queue it belongs in: that of the
// ElsewhereError.
var ErrElsewhere = errors.New("the tenant lives in another cell")

// ElsewhereError is an ErrElsewhere that says in which.
type ElsewhereError struct{ Cell string }

func (e *ElsewhereError) Error() string { return fmt.Sprintf("%v: %s", ErrElsewhere, e.Cell) }
func (e *ElsewhereError) Unwrap() error { return ErrElsewhere }

// ErrHops means that more than MaxHops jobs have led one to the next: a loop of the service's, which nobody else ends.
var ErrHops = fmt.Errorf("more than %d jobs have led one to the next", MaxHops)

// Place chooses the shard for a job that waits in the cell's dispatch queue, because the shard that had it did not
// hold the tenant, or because a shard sends it to another tenant. The entry is read afresh: it may have changed
// since the job was placed. The job that is returned is for the queue of its Shard.
//
// An error says that the job cannot be placed now, and has to come again, to the dead letters in the end: ErrElsewhere
// (an ElsewhereError), ErrHops, directory.ErrNotFound, a
// tenant that is being set up, moves or is suspended, or a directory that does not answer.
func (e *Engine) Place(ctx context.Context, job Job) (Job, error) {
	tenant, err := DecodeTenant(job.Tenant)
	if err != nil {
		return Job{}, err
	}
	if job.Hops > MaxHops {
		return Job{}, fmt.Errorf("job %s: %w", job.ID, ErrHops)
	}
	known, err := e.config.Entries.Fresh(ctx, tenant, job.Epoch)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("job %s: %w", job.ID, err)
	case known.Cell != e.config.Cell:
		return Job{}, fmt.Errorf("job %s: %w", job.ID, &ElsewhereError{known.Cell})
	case known.State != directory.Active:
		return Job{}, fmt.Errorf("job %s: the tenant is %s", job.ID, known.State)
	}
	members, err := e.places.subset(ctx, known.Entry)
	if err != nil {
		return Job{}, fmt.Errorf("job %s: %w", job.ID, err)
	}
	job.Epoch = known.Epoch
	if job.Shard, err = e.shardFor(job, tenant, members); err != nil {
		return Job{}, fmt.Errorf("job %s: %w", job.ID, err)
	}
	return job, nil
}

// shardFor is the member for a job: with state home the one of its resource, otherwise one by the job's id, and the
// next after each that gave the job back.
func (e *Engine) shardFor(job Job, tenant string, members []string) (string, error) {
	if e.config.State == StateHome {
		route, err := e.routes.match(job.Method, job.Path)
		if err != nil {
			return "", err
		}
		key, err := route.homeKey(job.Path)
		if err != nil {
			return "", err
		}
		return home(tenant, key, members), nil
	}
	h := fnv.New32a()
	h.Write([]byte(job.ID)) // never fails
	return members[(int(h.Sum32()%uint32(len(members)))+job.Dispatches)%len(members)], nil
}
