package shardkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
)

// ErrNoDispatch means that a Guard has no Dispatch.
var ErrNoDispatch = errors.New("there is no dispatch queue to send to")

// ErrHops means that a job would be the next of more than MaxHops, of which each sent the next: that is a loop, or work
// without an end, and nothing is sent. A chain that is to go on without an end goes on at a tick, or at a client's request.
var ErrHops = fmt.Errorf("jobs have led to jobs %d times, and no more", MaxHops)

// Send has another request made, later and wherever its tenant is by then: the cell's router places it. Shards
// never call each other, so that a shard that is slow or poisoned keeps no other one waiting. to is a
// tenant of this cell, the request's own included. It returns the job's id when the queue has the job.
//
// A job is done at least once, and takes effect once where the service commits. Sending is no part of a
// Commit: send before it, when an effect without its job would be worse than a job without its effect. In
// a request with an idempotency key the ids of the jobs are derived from the key and the order of the
// Sends, so that what a repeat of the request sends again takes effect once.
//
// ErrJob when the message is not valid, ErrNoDispatch, ErrHops; after another error the job may have been sent.
func (t *Tenant) Send(ctx context.Context, to string, m Message) (id string, err error) {
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	if t.hops >= MaxHops {
		return "", fmt.Errorf("send: %w", ErrHops)
	}
	j := Job{
		ID: t.nextID(), Hops: t.hops + 1, Tenant: to, From: t.tenant, Message: m, RequestID: only(t.header, headerRequestID),
		TraceParent: only(t.header, headerTraceParent), TraceState: only(t.header, headerTraceState),
	}
	if _, err := j.Encode(); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	if t.g.c.Dispatch == nil {
		return "", fmt.Errorf("send: %w", ErrNoDispatch)
	}
	if err := t.g.c.Dispatch(ctx, j); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	return j.ID, nil
}

// nextID is the id of the request's next job.
func (t *Tenant) nextID() string {
	n := t.sent.Add(1)
	if t.once == nil {
		return rand.Text()
	}
	return hashed(fmt.Sprintf("%s\n%s\n%s\n%d", encodeTenant(t.tenant), t.once.key, t.once.request, n))
}

// only is the header's value when it has one that goes into a job, and "" otherwise: the way of a request is worth
// following, but no reason to fail.
func only(h http.Header, name string) string {
	all := h.Values(name)
	if len(all) != 1 || len(all[0]) > maxJobText || !printableASCII(all[0]) {
		return ""
	}
	return all[0]
}
