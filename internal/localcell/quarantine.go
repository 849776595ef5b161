package localcell

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/quarantine"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/telemetry"
)

// On AWS a router's verdicts come to the keeper by a subscription of its log. Here the same line goes through a
// queue of the store.
const (
	verdictsKept   = 64               // that wait for the store in a router; further ones are dropped, and come again
	verdictHidden  = 30 * time.Second // of a verdict that the keeper took
	verdictTries   = 10               // deliveries of a verdict
	lookAfterEvery = time.Second      // what the keeper does about suspects, when no verdict comes
	localRouter    = "router"         // the only environment of a cell
)

// verdictQueue is a cell's. No shard has such an id.
func verdictQueue(cell string) string { return cell + "/_verdicts" }

// verdicts sends a router's verdicts to its cell's keeper.
type verdicts struct {
	lines  *telemetry.Requests
	outbox chan []byte
	queues *jobqueue.Client
	cell   string
	log    *slog.Logger
}

func newVerdicts(p Plan, queues *jobqueue.Client, log *slog.Logger) *verdicts {
	v := &verdicts{outbox: make(chan []byte, verdictsKept), queues: queues, cell: p.Cell, log: log}
	v.lines = telemetry.New(telemetry.Config{Service: p.Service, Cell: p.Cell, Out: v})
	return v
}

// say is on a request's way, and waits for nobody.
func (v *verdicts) say(verdict poison.Verdict) { v.lines.Verdict(verdict) }

// Write takes a line for the outbox.
func (v *verdicts) Write(line []byte) (int, error) {
	select {
	case v.outbox <- append([]byte(nil), line...):
	default:
		v.log.Error("a verdict is dropped: the store has not taken those before")
	}
	return len(line), nil
}

// send brings verdicts to the store until ctx ends.
func (v *verdicts) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-v.outbox:
			for ctx.Err() == nil {
				err := v.queues.Send(ctx, verdictQueue(v.cell), jobqueue.Message{ID: rand.Text(), Group: names.Tenant(v.cell), Body: line})
				if err == nil {
					break
				}
				pause(ctx, storePause)
			}
		}
	}
}

// lookout is the keeper's side.
type lookout struct {
	quarantine *quarantine.Quarantine
	queues     *jobqueue.Client
	plan       Plan
	log        *slog.Logger
}

// newLookout is of a cell whose keeper has these settings.
func (d Dir) newLookout(s routerSettings, home directory.Home, log *slog.Logger) (*lookout, error) {
	holder, err := httpdir.NewHolds(s.Store, s.AdminSecret, nil)
	if err != nil {
		return nil, err
	}
	residence := directory.NewResidence(directory.Later(home), holder, func(_ context.Context, cell, version string) ([]byte, error) { return d.Key(cell, version) })
	q, err := quarantine.New(quarantine.Config{Cell: s.Plan.Cell, Shards: s.Plan.Quarantine, Stateful: s.Plan.stateful(), Residence: residence})
	if err != nil {
		return nil, err
	}
	return &lookout{q, jobqueue.NewClient(s.Store, s.AdminSecret), s.Plan, log}, nil
}

// run hears verdicts, and looks after suspects, until ctx ends.
func (l *lookout) run(ctx context.Context) {
	queue := verdictQueue(l.plan.Cell)
	for ctx.Err() == nil {
		lines, err := l.queues.Receive(ctx, jobqueue.Receive{Queue: queue, Max: jobqueue.MaxReceive, Hidden: verdictHidden, MaxReceive: verdictTries, Wait: lookAfterEvery})
		if err != nil {
			pause(ctx, lookAfterEvery)
		}
		var heard []quarantine.Verdict
		for _, line := range lines {
			v, err := quarantine.ParseLine(line.Body, l.plan.Service, l.plan.Cell)
			if err != nil {
				l.log.Error("a verdict is left out", "err", err)
				continue
			}
			v.Environment = localRouter
			heard = append(heard, v)
		}
		o, err := l.quarantine.Take(ctx, heard)
		for _, e := range o.Events {
			l.log.Warn("quarantine", "what", e.What, "tenant", e.Tenant, "shards", e.Shards, "until", e.Until, "why", e.Why)
		}
		if err != nil {
			if ctx.Err() == nil {
				l.log.Error("suspects are not looked after", "err", err)
			}
			pause(ctx, lookAfterEvery)
			continue // what was not deleted comes again
		}
		for _, line := range lines {
			if err := l.queues.Delete(ctx, queue, line.Receipt); err != nil && ctx.Err() == nil {
				l.log.Warn("a verdict will come again", "err", err)
			}
		}
	}
}

// Quarantine is who is suspected in the running cells, and who is in quarantine there.
func (r *Running) Quarantine(ctx context.Context) ([]quarantine.Standing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusLimit, errors.New("the directory does not answer"))
	defer cancel()
	home, err := r.Directory()
	if err != nil {
		return nil, err
	}
	all := []quarantine.Standing{}
	for _, cell := range r.Names() {
		some, err := quarantine.Standings(ctx, directory.Later(home), cell, time.Now())
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
