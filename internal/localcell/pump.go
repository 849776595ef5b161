package localcell

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/lambda/shardkit"
)

const (
	jobLimit   = 10 * time.Second       // for one delivery
	jobHidden  = 3 * jobLimit           // of a delivered job, so that it is not delivered again meanwhile
	jobAgain   = time.Second            // before a job that failed comes again; it doubles with each delivery
	jobWait    = 10 * time.Second       // for jobs to come, with each request
	storePause = 200 * time.Millisecond // when the store or the worker does not answer
)

// pump gives the jobs of a shard's queue to its worker, as Lambda's event source does on AWS.
type pump struct {
	queues   *jobqueue.Client
	queue    string // the shard's
	dispatch string // the cell's
	plan     QueuePlan
	consumer *shardkit.Consumer
	ready    func() bool // whether the worker is there; while it is not, no delivery is wasted
	log      *slog.Logger
}

// startPumps starts the pumps and the clocks of every shard, and returns what ends them.
func (s *supervisor) startPumps(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	end = func() { cancel(); wg.Wait() }
	queues := jobqueue.NewClient(s.running.Store, s.store.Operator)
	for _, d := range s.doors {
		p, err := s.newPump(d, queues)
		if err != nil {
			end()
			return nil, err
		}
		wg.Go(func() { p.run(ctx) })
		for _, k := range s.clocks(d, p) {
			wg.Go(func() { k.run(ctx) })
		}
	}
	return end, nil
}

func (s *supervisor) newPump(d *door, queues *jobqueue.Client) (*pump, error) {
	p := &pump{
		queues: queues, queue: shardQueue(d.cell.plan.Cell, d.shard), dispatch: dispatchQueue(d.cell.plan.Cell),
		plan: d.cell.plan.Queue, log: s.log.With("queue", d.name),
		ready: func() bool { return d.child.status().State == string(childReady) },
	}
	var err error
	p.consumer, err = shardkit.NewConsumer(shardkit.Consumption{
		Service: asked(d.url), Secret: d.cell.secret, Log: p.log,
		Dispatch: func(ctx context.Context, j shardkit.Job) error {
			message, err := j.Encode()
			if err != nil {
				return err
			}
			return queues.Send(ctx, p.dispatch, jobqueue.Message{ID: j.ID, Group: names.Tenant(j.Tenant), Body: message})
		},
	})
	return p, err
}

// run gives jobs out until ctx ends, so many at once as the fleet has consumers.
func (p *pump) run(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	free := make(chan struct{}, max(1, p.plan.Consumers))
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !p.ready() {
			<-free
			pause(ctx, storePause)
			continue
		}
		jobs, err := p.queues.Receive(ctx, jobqueue.Receive{
			Queue: p.queue, Max: 1, Hidden: jobHidden, MaxReceive: max(1, p.plan.MaxReceive), Wait: jobWait,
		})
		if err != nil || len(jobs) == 0 {
			<-free
			if err != nil {
				pause(ctx, storePause)
			}
			continue
		}
		under.Go(func() {
			defer func() { <-free }()
			p.do(ctx, jobs[0])
		})
	}
}

// again is how long a job waits that was delivered so often in vain.
func again(deliveries int) time.Duration { return min(jobHidden, jobAgain<<min(deliveries-1, 5)) }

// do does one job. What the cell's end interrupts is delivered again by the next one.
func (p *pump) do(ctx context.Context, job jobqueue.Delivery) {
	limit, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	err := p.consumer.Do(limit, job.Body)
	if err == nil {
		err = p.queues.Delete(ctx, p.queue, job.Receipt)
	} else if ctx.Err() == nil {
		p.log.Warn("job comes again", "job", job.ID, "delivery", job.Receives, "why", err)
		err = p.queues.Delay(ctx, p.queue, job.Receipt, again(job.Receives))
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("the store was not told of a job; it comes again", "job", job.ID, "why", err)
	}
}

// asked is the worker at a base URL as a handler: it sends a request there once, and passes on the status and
// header, which are all that a consumer looks at.
func asked(base func() string) http.Handler {
	rt := &http.Transport{DisableKeepAlives: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := url.Parse(base() + r.RequestURI)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out := r.Clone(r.Context())
		out.URL, out.Host, out.RequestURI = u, u.Host, ""
		resp, err := rt.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
	})
}
