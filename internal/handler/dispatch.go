package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"cellwall.dev/cellwall/internal/routing"
)

// Placer chooses the shard for a job. *routing.Engine is one.
type Placer interface {
	Place(ctx context.Context, job routing.Job) (routing.Job, error)
}

// Dispatching is a Gateway that consumes its cell's dispatch queue as well: it moves each job into the queue of a
// shard that holds its tenant now.
type Dispatching struct {
	*Gateway
	Placer Placer
	// Put puts a job into the queue of its Shard. The job may be there twice after an error, as after a second
	// delivery of its message: it has one id, by which a shard does it once.
	Put func(ctx context.Context, job routing.Job) error
	Log *slog.Logger
	// Text is an error that concerns a tenant as the log may have it; nil for as it is.
	Text func(err error, tenant string) string
}

// Answer answers an event of either kind.
func (d *Dispatching) Answer(ctx context.Context, payload []byte) (io.ReadCloser, error) {
	batch, ok := jobs(payload)
	if !ok {
		return d.Gateway.Answer(ctx, payload)
	}
	answer, err := consume(ctx, batch, d.dispatch, d.Log)
	return newWhole(answer), err
}

// dispatch moves one job. One that no shard may have stays in the queue, and is among the dead letters in the end.
func (d *Dispatching) dispatch(ctx context.Context, message []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error("panic while placing a job", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("placing the job panicked: %v", p)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	job, err := routing.ParseJob(message)
	if err != nil {
		return err
	}
	placed, err := d.Placer.Place(ctx, job)
	if err == nil {
		err = d.Put(ctx, placed)
	}
	if err == nil || d.Text == nil {
		return err
	}
	tenant, decodeErr := routing.DecodeTenant(job.Tenant) // as ParseJob did already
	return errors.New(d.Text(errors.Join(err, decodeErr), tenant))
}
