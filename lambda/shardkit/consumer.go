package shardkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// Dispatch puts a job into the cell's dispatch queue, from which the router places it: it finds out where the
// tenant is now. An error means that it is not there, or may not be.
type Dispatch func(ctx context.Context, j Job) error

// Consumption is what a Consumer is made of. Only Service is needed.
type Consumption struct {
	Service http.Handler // behind a Guard
	Secret  string       // what the Guard wants in Cellwall-Secret, "" for none
	// Dispatch takes the jobs of tenants that this shard does not hold. Without it they fail, and come again
	// until the queue has enough of them.
	Dispatch Dispatch
	// DeadLetter takes the jobs that were dispatched MaxDispatches times, and those of more than MaxHops, with the Reason. Without it they
	// fail, and the queue puts them there after its maximum of deliveries.
	DeadLetter Dispatch
	Log        *slog.Logger // default slog.Default()
	// LogTenant is how the log names a tenant; by default as the router's does where tenants are hashed, with the
	// first 26 characters of the lower-case base32 of its SHA-256.
	LogTenant func(tenant string) string
}

// Consumer does the jobs of a shard's queue.
type Consumer struct{ c Consumption }

const loggedHash = 26 // characters, of 5 bits

// NewConsumer returns the consumer of a shard's queue.
func NewConsumer(c Consumption) (*Consumer, error) {
	if c.Service == nil {
		return nil, errors.New("a consumer needs the service that does its jobs")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.LogTenant == nil {
		c.LogTenant = func(tenant string) string { return hashed(tenant)[:loggedHash] }
	}
	return &Consumer{c}, nil
}

// Do does one job. On nil the message is to be deleted: the job is done, or dispatched, or the service refused
// it for good, which is logged. On an error it is to be delivered again; what is done by then is not
// done twice by a service that commits.
//
// The service refuses for good with a status from 400 to 499, but for 408, 421, 425 and 429, and any that
// comes with Retry-After, which speak of the moment, or with HeaderGuard, which speaks of the consumer. With 421 the shard does not hold the tenant, and the
// job goes back to the cell.
func (c *Consumer) Do(ctx context.Context, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := ParseJob(message)
	if err != nil {
		return err
	}
	if j.Hops > MaxHops {
		return c.bury(ctx, j, fmt.Sprintf("jobs have led to jobs %d times, and no more than %d may", j.Hops, MaxHops))
	}
	r, err := j.Request(ctx)
	if err != nil {
		return err
	}
	if c.c.Secret != "" {
		r.Header.Set(HeaderSecret, c.c.Secret)
	}
	status, header, err := ask(c.c.Service, r)
	switch {
	case err != nil:
		return fmt.Errorf("job %s: %w", j.ID, err)
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusMisdirectedRequest:
		return c.giveBack(ctx, j)
	case final(status, header):
		c.c.Log.Error("job refused for good", "job", j.ID, "tenant", c.c.LogTenant(j.Tenant), "method", j.Method, "path", j.Path, "status", status)
		return nil
	}
	return fmt.Errorf("job %s: service answered %d", j.ID, status)
}

// giveBack has the job placed again.
func (c *Consumer) giveBack(ctx context.Context, j Job) error {
	if j.Dispatches >= MaxDispatches {
		return c.bury(ctx, j, fmt.Sprintf("dispatched %d times, and shard %s does not hold the tenant either", j.Dispatches, j.Shard))
	}
	if c.c.Dispatch == nil {
		return fmt.Errorf("job %s: this shard does not hold the tenant, and there is no dispatch queue", j.ID)
	}
	c.c.Log.Info("job goes back to the cell", "job", j.ID, "dispatches", j.Dispatches+1)
	j.Dispatches++
	j.Shard = ""
	if err := c.c.Dispatch(ctx, j); err != nil {
		return fmt.Errorf("job %s: give it back to the cell: %w", j.ID, err)
	}
	return nil
}

// bury puts a job that nobody is to do to the dead letters.
func (c *Consumer) bury(ctx context.Context, j Job, reason string) error {
	j.Reason = reason
	c.c.Log.Error("job is given up", "job", j.ID, "tenant", c.c.LogTenant(j.Tenant), "reason", j.Reason)
	if c.c.DeadLetter == nil {
		return fmt.Errorf("job %s: %s", j.ID, j.Reason)
	}
	if err := c.c.DeadLetter(ctx, j); err != nil {
		return fmt.Errorf("job %s: put it to the dead letters: %w", j.ID, err)
	}
	return nil
}

// final says whether a refusal of a job is the service's last word: it would be the same at the next
// delivery. Those that speak of the moment, of the place or of who asks, and not of the job, are not.
func final(status int, h http.Header) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499 && h.Get("Retry-After") == "" && h.Get(HeaderGuard) == ""
}

// ask asks the service, of whose answer nobody reads the body.
func ask(service http.Handler, r *http.Request) (status int, h http.Header, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the service panicked: %v", v)
		}
	}()
	out := &mute{header: http.Header{}}
	service.ServeHTTP(out, r)
	out.WriteHeader(http.StatusOK) // when the service wrote nothing at all
	return out.status, out.sent, nil
}

// mute is an http.ResponseWriter that keeps what comes before the body.
type mute struct {
	header, sent http.Header
	status       int
}

func (m *mute) Header() http.Header { return m.header }

func (m *mute) WriteHeader(status int) {
	if m.status == 0 && status >= 200 { // 1xx answers go before the answer
		m.status, m.sent = status, m.header.Clone()
	}
}

func (m *mute) Write(p []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	return io.Discard.Write(p)
}
