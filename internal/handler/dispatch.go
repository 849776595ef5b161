package handler

import (
	"context"
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
	if job, err = d.Placer.Place(ctx, job); err != nil {
		return err
	}
	return d.Put(ctx, job)
}
