package handler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/aws/aws-lambda-go/events"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Worker is a Lambda function that serves an http.Handler: to the router, which invokes it with HTTP API events, to
// its queue, whose messages are jobs, and to its shard's schedules, which send ticks. Start it with Lambda, or as a lambda.Handler of
// github.com/aws/aws-lambda-go where no answer is to be a stream.
type Worker struct {
	service http.Handler
	jobs    *shardkit.Consumer
	log     *slog.Logger
}

// NewWorker returns the function of a service that gives no job back to its cell.
func NewWorker(service http.Handler, log *slog.Logger) *Worker {
	w, _ := NewConsumer(shardkit.Consumption{Service: service, Log: log}) // fails without a service only
	return w
}

// NewConsumer returns the function. It ends a request's context at the router's deadline.
func NewConsumer(c shardkit.Consumption) (*Worker, error) {
	if c.Service != nil {
		c.Service = UntilDeadline(c.Service)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	jobs, err := shardkit.NewConsumer(c)
	if err != nil {
		return nil, err
	}
	return &Worker{c.Service, jobs, c.Log}, nil
}

// Answer answers one event: a request that allows it with a stream, if the service flushes its answer or makes a
// large one.
func (w *Worker) Answer(ctx context.Context, payload []byte) (io.ReadCloser, error) {
	if t, ok, err := shardkit.ParseTick(payload); ok {
		answer, err := w.tick(ctx, t, err)
		return newWhole(answer), err
	}
	batch, req, err := parse(payload)
	if err != nil {
		return nil, err
	}
	if batch == nil && req.Stream {
		return w.stream(ctx, req)
	}
	answer, err := w.answer(ctx, batch, req)
	return newWhole(answer), err
}

// Invoke answers one event with no stream.
func (w *Worker) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if t, ok, err := shardkit.ParseTick(payload); ok {
		return w.tick(ctx, t, err)
	}
	batch, req, err := parse(payload)
	if err != nil {
		return nil, err
	}
	return w.answer(ctx, batch, req)
}

// tick does a tick, whose event was read with err. Nobody reads the answer; an error has Lambda invoke again.
func (w *Worker) tick(ctx context.Context, t shardkit.Tick, err error) ([]byte, error) {
	if err == nil {
		err = w.jobs.Tick(ctx, t)
	}
	if err != nil {
		w.log.Error("tick failed", "err", err)
		return nil, err
	}
	return []byte("null"), nil
}

// parse reads an event, which is a batch of jobs or a request.
func parse(payload []byte) (*events.SQSEvent, *routing.Request, error) {
	if batch, ok := jobs(payload); ok {
		return batch, nil, nil
	}
	req, err := awsevent.ParseRequest(payload)
	return nil, req, err
}

func (w *Worker) answer(ctx context.Context, batch *events.SQSEvent, req *routing.Request) ([]byte, error) {
	if batch != nil {
		return consume(ctx, batch, w.jobs.Do, w.log)
	}
	return w.format(req, w.serve(ctx, req))
}

func (w *Worker) format(req *routing.Request, resp *routing.Response) ([]byte, error) {
	return format(w.log, &awsevent.Event{Kind: awsevent.HTTPAPI, Request: *req}, resp)
}

// serve asks the service as if the request had come over HTTP.
func (w *Worker) serve(ctx context.Context, req *routing.Request) *routing.Response {
	rec := &recorder{header: http.Header{}}
	if problem := w.run(ctx, req, rec); problem != nil {
		return problem
	}
	return rec.response()
}

// stream answers a request whose answer may be a stream.
func (w *Worker) stream(ctx context.Context, req *routing.Request) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	begun, whole := make(chan *routing.Response, 1), make(chan *routing.Response, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rec := &streamRecorder{recorder: recorder{header: http.Header{}}, begun: begun}
		problem := w.run(ctx, req, rec)
		switch {
		case rec.pipe != nil && problem != nil:
			rec.pipe.CloseWithError(errBrokeOff)
		case rec.pipe != nil:
			rec.pipe.Close()
		case problem != nil:
			whole <- problem
		default:
			whole <- rec.response()
		}
	}()
	select {
	case resp := <-whole:
		cancel()
		answer, err := w.format(req, resp)
		return newWhole(answer), err
	case resp := <-begun:
		// The environment's next request must not meet this one's service still at work.
		return until(ctx, awsevent.FormatStream(req.Method, resp), w.log, func() { cancel(); <-ended }), nil
	}
}

// run asks the service, which answers through to, and returns what to answer in its place if it could not: nil
// otherwise.
func (w *Worker) run(ctx context.Context, req *routing.Request, to http.ResponseWriter) (problem *routing.Response) {
	defer recovered(w.log, func(resp *routing.Response) { problem = resp })
	r, err := httpRequest(ctx, req)
	if err != nil {
		return routing.Problem(http.StatusBadRequest, "the request could not be read")
	}
	w.service.ServeHTTP(to, r)
	return nil
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
