package localcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/routing"
)

// shardQueue is the queue of one shard, dispatchQueue the one of a cell from which its router places jobs.
func shardQueue(cell, shard string) string { return cell + "/" + shard }
func dispatchQueue(cell string) string     { return cell }

// queueTransport puts requests into their shard's queue, as the adapter for SQS does.
type queueTransport struct {
	queues *jobqueue.Client
	cell   string
}

// Send implements routing.Transport: the answer is 202 with the job's id as soon as the store has it on disk.
func (t *queueTransport) Send(ctx context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	job := routing.NewJob(call, req)
	message, err := job.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: write the job: %w", routing.ErrNotSent, err)
	}
	err = t.queues.Send(ctx, shardQueue(t.cell, call.Shard), jobqueue.Message{ID: job.ID, Group: names.Tenant(call.Tenant), Body: message})
	if err != nil {
		return nil, fmt.Errorf("queue of shard %s: %w", call.Shard, unsent(err))
	}
	// A struct of one string always encodes.
	body, _ := json.Marshal(struct {
		Job string `json:"job"`
	}{job.ID})
	return &routing.Response{
		Status: http.StatusAccepted, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}, nil
}

// dispatchHandler takes jobs into a cell's dispatch queue.
func dispatchHandler(queues *jobqueue.Queues) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, routing.MaxJob))
		var job routing.Job
		if err == nil {
			job, err = routing.ParseJob(message)
		}
		if err != nil {
			loopback.Fail(w, http.StatusBadRequest, err)
			return
		}
		tenant, err := routing.DecodeTenant(job.Tenant)
		if err == nil {
			err = queues.Send(r.Context(), dispatchQueue(r.PathValue("cell")), jobqueue.Message{ID: job.ID, Group: names.Tenant(tenant), Body: message})
		}
		if err != nil {
			loopback.Fail(w, http.StatusServiceUnavailable, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

// unsent says of a failed request whether the store may have acted on it.
func unsent(err error) error {
	if refused, ok := errors.AsType[*loopback.StatusError](err); ok && refused.Status/100 == 4 {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("%w: %w", routing.ErrNotSent, err)
	}
	return err
}
