package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/httpapi"
)

// Worker is a Lambda function that serves an http.Handler, both to the router, which invokes it with
// HTTP API events, and to its queue, whose messages are jobs. It implements lambda.Handler of
// github.com/aws/aws-lambda-go.
type Worker struct {
	service http.Handler
	log     *slog.Logger
}

// NewWorker returns the function. It ends a request's context at the router's deadline.
func NewWorker(service http.Handler, log *slog.Logger) *Worker {
	return &Worker{UntilDeadline(service), log}
}

// Invoke answers one event.
func (w *Worker) Invoke(ctx context.Context, payload []byte) (answer []byte, err error) {
	var queue events.SQSEvent
	if json.Unmarshal(payload, &queue) == nil && len(queue.Records) > 0 {
		return json.Marshal(w.consume(ctx, queue))
	}
	event, err := httpapi.ParseEvent(payload, httpapi.Encoded)
	if err != nil {
		return nil, err
	}
	return format(w.log, w.serve(ctx, &event.Request))
}

// What a batch keeps of the function's time to report in: Lambda that kills the function before it
// answers delivers again what is done, too. A quarter, where the whole is short.
const (
	batchMargin     = time.Second
	batchMarginPart = 4
)

// consume does the jobs of a batch one after another, and names those that are to be delivered again:
// those that failed, and those for which no time is left. After the queue's maxReceive a job is in the
// dead-letter queue, where somebody sees it. A job's context ends in time to report; one that does not
// heed it may still cost the batch its report.
func (w *Worker) consume(ctx context.Context, batch events.SQSEvent) events.SQSEventResponse {
	if deadline, ok := ctx.Deadline(); ok {
		margin := min(batchMargin, time.Until(deadline)/batchMarginPart)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, record := range batch.Records {
		if err := w.job(ctx, record.Body); err != nil {
			w.log.Error("job failed", "message", record.MessageId, "err", err)
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: record.MessageId})
		}
	}
	return out
}

func (w *Worker) job(ctx context.Context, message string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job, err := routing.ParseJob([]byte(message))
	if err != nil {
		return err
	}
	switch resp := w.serve(ctx, job.Request()); {
	case resp.Status >= 200 && resp.Status <= 299:
		return nil
	case final(resp.Status):
		w.log.Error("job refused for good", "job", job.ID, "tenant", job.Tenant, "method", job.Method, "path", job.Path, "status", resp.Status)
		return nil
	default:
		return fmt.Errorf("job %s: service answered %d", job.ID, resp.Status)
	}
}

// final says whether a refusal of a job is the service's last word: it would be the same at the next
// delivery. Those that speak of the moment or of the place, and not of the job, are not.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// serve asks the service as if the request had come over HTTP.
func (w *Worker) serve(ctx context.Context, req *routing.Request) (resp *routing.Response) {
	defer recovered(w.log, func(problem *routing.Response) { resp = problem })
	r, err := httpRequest(ctx, req)
	if err != nil {
		return routing.Problem(http.StatusBadRequest, "the request could not be read")
	}
	rec := &recorder{header: http.Header{}}
	w.service.ServeHTTP(rec, r)
	rec.WriteHeader(http.StatusOK) // when the service wrote nothing at all
	return &routing.Response{Status: rec.status, Header: rec.sent, Body: rec.body.Bytes()}
}

func httpRequest(ctx context.Context, req *routing.Request) (*http.Request, error) {
	target := req.Path
	if req.RawQuery != "" {
		target += "?" + req.RawQuery
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	if u.Host != "" {
		return nil, errors.New("path names a host")
	}
	r, err := http.NewRequestWithContext(ctx, req.Method, "/", bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	r.URL, r.RequestURI, r.Header = u, target, req.Header
	r.Host = req.Header.Get("Host")
	r.Header.Del("Host")
	return r, nil
}

// recorder is an http.ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || status < 200 { // 1xx answers go before the answer
		return
	}
	r.status, r.sent = status, r.header.Clone()
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		if r.header.Get("Content-Type") == "" {
			r.header.Set("Content-Type", http.DetectContentType(p))
		}
		r.WriteHeader(http.StatusOK)
	}
	return r.body.Write(p)
}
