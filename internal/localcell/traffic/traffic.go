// Package traffic sends real tenant traffic to a running cell, has a shard broken half-way when asked,
// and says what each tenant felt. Every figure in its report was measured, except what stands under
// byPlacement, which is computed.
//
// A tenant writes one order and reads it back in each round, with its own token. Orders of a run are
// never written twice, so that at the end every acknowledged one must be there as it was sent.
package traffic

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MinBreakRounds is the least number of rounds in which a break fits: one before it, one during which it
// comes, one that lies wholly in it, and one after it.
const MinBreakRounds = 4

const (
	requestLimit = 15 * time.Second // for one request; longer than any router's own limit
	readTries    = 3                // when reading back
)

// Tenant is one customer.
type Tenant struct {
	ID     string
	Token  string
	Subset []string // shards that serve it, as placement computes
}

// Config says what to send. Broken, Break, Restore and FellBack belong together.
type Config struct {
	URL         string // of the router
	Tenants     []Tenant
	Rounds      int           // at least 1; at least MinBreakRounds when a shard is broken
	Concurrency int           // requests under way at once, at least 1
	Rate        float64       // tenants' turns a second (a turn is a write and a read), as they come; 0: as fast as they are answered
	Limit       time.Duration // after it no further turn begins; the report says so

	Broken   string                                          // shard to break; "" for none
	Break    func(context.Context) error                     // returns when the shard is down
	Restore  func(context.Context) error                     // lets it come back
	FellBack func(context.Context) (map[string]int64, error) // fallbacks by tenant since the router started
	Progress func(phase string, done, of int)                // told every second; nil for nobody
}

// Check says what is wrong with the numbers.
func (c Config) Check() error {
	if len(c.Tenants) == 0 {
		return errors.New("no tenants to send traffic for")
	}
	return c.CheckNumbers()
}

// Bounds of a rate other than 0, in turns a second.
const minRate, maxRate = 0.001, 1e6

// CheckNumbers is Check before the tenants are known.
func (c Config) CheckNumbers() error {
	switch {
	case c.Rounds < 1 || c.Concurrency < 1 || c.Limit <= 0:
		return errors.New("rounds, concurrency and time limit: want at least 1")
	case c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate): // NaN is in no range
		return fmt.Errorf("rate %v: want 0 for as fast as it goes, or %v to %.0f turns a second", c.Rate, minRate, maxRate)
	case c.Broken != "" && c.Rounds < MinBreakRounds:
		return fmt.Errorf("%d rounds: a break needs at least %d, so that one lies wholly in it", c.Rounds, MinBreakRounds)
	}
	return nil
}

// run is one sending.
type run struct {
	Config
	id     string // tells this run's orders from those of others
	client *client
	turns  chan turn
	under  sync.WaitGroup // turns that were given out and have not ended
	done   atomic.Int64

	mu       sync.Mutex
	from, to time.Time // of the break: the shard was down all the time between
	samples  []sample
	orders   []order // acknowledged
}

// turn is one tenant's write and read.
type turn struct {
	tenant int
	round  int
	due    time.Time
}

// sample is one request as its client saw it.
type sample struct {
	tenant      int
	begun, over time.Time
	due         time.Time
	err         error // nil when the service gave the right answer
	wrong       bool  // an acknowledged order was not there or another
}

// order is an acknowledged write.
type order struct {
	tenant int
	id     string
	value  string
}

// Run sends the traffic and reports. A report comes with an error, too, when something was sent.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	id := make([]byte, 4)
	rand.Read(id) // never fails (crypto/rand)
	r := &run{Config: c, id: hex.EncodeToString(id), client: newClient(c.URL, c.Concurrency), turns: make(chan turn)}
	defer r.client.close()

	before := map[string]int64{}
	if c.FellBack != nil {
		var err error
		if before, err = c.FellBack(ctx); err != nil {
			return nil, fmt.Errorf("the router's counters: %w", err)
		}
	}
	begun := time.Now()
	complete, sendErr := r.send(ctx)
	report := r.report(complete)
	report.Seconds = time.Since(begun).Seconds()
	if sendErr != nil {
		return report, sendErr
	}
	if c.FellBack != nil {
		after, err := c.FellBack(ctx)
		if err != nil {
			return report, fmt.Errorf("the router's counters: %w", err)
		}
		if err := report.countFallbacks(c, before, after); err != nil {
			return report, err
		}
	}
	return report, r.readBack(ctx, report)
}

// send gives the turns out, breaks and restores the shard, and waits for the last turn. complete is false
// when the time limit came first.
func (r *run) send(ctx context.Context) (complete bool, err error) {
	defer r.watch("sending", len(r.Tenants)*r.Rounds)()
	var workers sync.WaitGroup
	for range r.Concurrency {
		workers.Go(func() {
			for t := range r.turns {
				r.serve(ctx, t)
				r.done.Add(1)
				r.under.Done()
			}
		})
	}
	defer workers.Wait()
	defer close(r.turns)

	limit, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	breaking := make(chan error, 1) // gets the outcome of Break, and is closed after it
	breakIn, began := -1, false
	if r.Broken != "" {
		breakIn = (r.Rounds - 1) / 2
		defer func() { // whatever happened, the shard comes back
			if !began {
				return
			}
			<-breaking
			if restoreErr := r.Restore(context.WithoutCancel(ctx)); restoreErr != nil {
				err = errors.Join(err, fmt.Errorf("let shard %s come back: %w", r.Broken, restoreErr))
			}
		}()
	}
	pace := newPace(r.Rate)
	for round := range r.Rounds {
		if r.Broken != "" && round == r.Rounds-1 {
			// The last turns of the break must have ended before the shard comes back.
			r.under.Wait()
			r.window(&r.to)
			if err := r.Restore(ctx); err != nil {
				return false, fmt.Errorf("let shard %s come back: %w", r.Broken, err)
			}
		}
		for i := range r.Tenants {
			if round == breakIn && i == len(r.Tenants)/2 {
				// While requests are under way, on their connections to the shard.
				began = true
				go func() { breaking <- r.Break(ctx); close(breaking) }()
			}
			if !r.give(limit, turn{i, round, pace.next()}) {
				r.under.Wait()
				if r.Broken != "" {
					r.window(&r.to)
				}
				return false, context.Cause(ctx)
			}
		}
		if round == breakIn {
			if err := <-breaking; err != nil {
				return false, fmt.Errorf("break shard %s: %w", r.Broken, err)
			}
			r.window(&r.from)
		}
	}
	r.under.Wait()
	return true, nil
}

// give waits until the turn is due and somebody takes it.
func (r *run) give(ctx context.Context, t turn) bool {
	if wait := time.Until(t.due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
	r.under.Add(1)
	select {
	case r.turns <- t:
		return true
	case <-ctx.Done():
		r.under.Done()
		return false
	}
}

func (r *run) window(edge *time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if edge.IsZero() {
		*edge = time.Now()
	}
}

// serve is one turn: a write, and a read of the same order.
func (r *run) serve(ctx context.Context, t turn) {
	tenant := r.Tenants[t.tenant]
	o := order{tenant: t.tenant, id: fmt.Sprintf("%s-%d", r.id, t.round), value: fmt.Sprintf("order %s-%d of %s", r.id, t.round, tenant.ID)}

	write := sample{tenant: t.tenant, due: t.due, begun: time.Now()}
	write.err = r.client.put(ctx, tenant.Token, o.id, o.value)
	write.over = time.Now()

	read := sample{tenant: t.tenant, due: write.over, begun: write.over}
	value, found, err := r.client.get(ctx, tenant.Token, o.id)
	read.over, read.err = time.Now(), err
	if err == nil && (found && value != o.value || !found && write.err == nil) {
		read.wrong = true
		read.err = fmt.Errorf("order %s: found %t, value %q; want %q", o.id, found, value, o.value)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, write, read)
	if write.err == nil {
		r.orders = append(r.orders, o)
	}
}

// readBack reads every acknowledged order and compares it with what was sent.
func (r *run) readBack(ctx context.Context, report *Report) error {
	r.done.Store(0)
	defer r.watch("reading back", len(r.orders))()
	var lost, unread atomic.Int64
	var firstErr atomic.Pointer[error]
	work := make(chan order)
	var workers sync.WaitGroup
	for range r.Concurrency {
		workers.Go(func() {
			for o := range work {
				value, found, err := r.getSurely(ctx, o)
				switch {
				case err != nil:
					unread.Add(1)
					firstErr.CompareAndSwap(nil, &err)
				case !found || value != o.value:
					lost.Add(1)
				}
				r.done.Add(1)
			}
		})
	}
	for _, o := range r.orders {
		work <- o
	}
	close(work)
	workers.Wait()
	report.Lost, report.Unread = int(lost.Load()), int(unread.Load())
	if err := firstErr.Load(); err != nil {
		return fmt.Errorf("%d acknowledged writes could not be read back, the first because: %w", report.Unread, *err)
	}
	return nil
}

// getSurely reads an order, and asks again when no answer comes: that would not be the order's loss.
func (r *run) getSurely(ctx context.Context, o order) (value string, found bool, err error) {
	for try := 1; ; try++ {
		value, found, err = r.client.get(ctx, r.Tenants[o.tenant].Token, o.id)
		if err == nil || ctx.Err() != nil || try == readTries {
			return value, found, err
		}
		select {
		case <-time.After(time.Duration(try) * 500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// watch reports progress every second until the function it returns is called.
func (r *run) watch(phase string, of int) (stop func()) {
	return watchEvery(r.Progress, phase, of, &r.done)
}

func watchEvery(progress func(phase string, done, of int), phase string, of int, done *atomic.Int64) (stop func()) {
	if progress == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		said, silent := int64(-1), 0
		for {
			select {
			case <-tick.C:
				// What stands still, as a job of a broken shard does, is told now and then.
				if n := done.Load(); n != said || silent >= 9 {
					progress(phase, int(n), of)
					said, silent = n, 0
				} else {
					silent++
				}
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// pace spaces turns evenly; without a rate every turn is due at once.
type pace struct {
	interval time.Duration
	at       time.Time
}

func newPace(rate float64) *pace {
	p := &pace{at: time.Now()}
	if rate > 0 {
		p.interval = time.Duration(float64(time.Second) / rate)
	}
	return p
}

func (p *pace) next() time.Time {
	if p.interval == 0 {
		return time.Now()
	}
	p.at = p.at.Add(p.interval)
	return p.at
}

// isMember says whether the tenant's subset holds the shard.
func (t Tenant) isMember(shard string) bool { return slices.Contains(t.Subset, shard) }
