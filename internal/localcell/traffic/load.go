package traffic

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Load.
const (
	MaxRPS      = 100_000
	MaxFor      = 45 * time.Minute // shorter than a token lives
	MaxRequests = 5_000_000        // each leaves a sample in memory
	jobsLimit   = time.Minute      // for the last jobs to be done
)

// Kind is what a request does.
type Kind uint8

// Kinds of requests.
const (
	Read   Kind = iota // GET of an order that was acknowledged before
	Write              // PUT of a new order
	Create             // POST of a new order, with an Idempotency-Key
	Job                // POST of a job, which is done later
	kinds
)

// String is the kind's name.
func (k Kind) String() string { return [...]string{"read", "write", "create", "job"}[k] }

// mix is how many of ten requests are of each kind.
var mix = [kinds]int{Read: 5, Write: 3, Create: 1, Job: 1}

// Loaded is a customer and its share of the load.
type Loaded struct {
	ID    string
	Token string
	Load  float64 // in proportion to that of the others; not negative
}

// Load says what to send in open loop: requests come when they are due, whether those before them were
// answered or not, and their latency counts from then. So a service that stalls is not asked less for that.
type Load struct {
	URL      string
	Tenants  []Loaded
	RPS      float64       // requests a second of all tenants, on average; they come at random (a Poisson process)
	For      time.Duration // of the sending
	AtOnce   int           // requests under way at most; what is due meanwhile waits, and its latency counts
	Keyed    bool          // the service keeps idempotency records, so that a create is as safe to repeat as a write
	Seed     uint64        // of what comes when
	Progress func(phase string, done, of int)
	Observe  func(Observed) // of each request as it ends, from several goroutines; may be nil
}

// Observed is one request as its client saw it.
type Observed struct {
	Tenant string
	Kind   Kind
	Due    time.Duration // since the sending began
	Took   time.Duration // since it was due
	Right  bool          // the answer
}

// Check says what is wrong with the numbers.
func (l Load) Check() error {
	if !(l.RPS > 0 && l.RPS <= MaxRPS) || l.For <= 0 || l.For > MaxFor || l.AtOnce < 1 {
		return fmt.Errorf("%g requests a second for %v, %d at once: want more than 0 and up to %d, up to %v, at least 1", l.RPS, l.For, l.AtOnce, MaxRPS, MaxFor)
	}
	switch n := l.RPS * l.For.Seconds(); {
	case n > MaxRequests:
		return fmt.Errorf("%.0f requests: want at most %d in one run", n, MaxRequests)
	case n < 1:
		return fmt.Errorf("%g requests a second for %v are %.2g of one: want at least one", l.RPS, l.For, n)
	}
	return nil
}

// jobsInOrder is how many jobs append to one order, which has room for 350 KB.
const jobsInOrder = 2000

// arrival is a request that is due at a time after the start.
type arrival struct {
	due    time.Duration
	tenant int32
	kind   Kind
	order  int32 // of a job, to which of its tenant's orders it appends
}

// arrivals are those of a Load, in the order in which they are due.
func (l Load) arrivals() ([]arrival, error) {
	random := mathrand.New(mathrand.NewPCG(l.Seed, 5))
	sums := make([]float64, len(l.Tenants)) // of the loads up to each tenant
	total := 0.0
	for i, t := range l.Tenants {
		if !(t.Load >= 0) || math.IsInf(t.Load, 1) {
			return nil, fmt.Errorf("tenant %q has a load of %v", t.ID, t.Load)
		}
		total += t.Load
		sums[i] = total
	}
	if total == 0 {
		return nil, errors.New("no tenant has a load, so that nobody would send anything")
	}
	var kindOf []Kind
	for k, n := range mix {
		for range n {
			kindOf = append(kindOf, Kind(k))
		}
	}
	var all []arrival
	jobs := make([]int32, len(l.Tenants))
	for at := 0.0; ; {
		if at += random.ExpFloat64() / l.RPS; at >= l.For.Seconds() {
			if len(all) > 0 {
				return all, nil
			}
			at = random.Float64() * l.For.Seconds() // a run without a request would say that all is well
		}
		x := random.Float64() * total
		i := sort.Search(len(sums), func(i int) bool { return sums[i] > x })
		a := arrival{due: time.Duration(at * float64(time.Second)), tenant: int32(min(i, len(sums)-1)), kind: kindOf[random.IntN(len(kindOf))]}
		if a.kind == Job {
			a.order = jobs[a.tenant] / jobsInOrder
			jobs[a.tenant]++
		}
		all = append(all, a)
	}
}

// load is one sending of a Load.
type load struct {
	Load
	id     string // tells this run's orders from those of others
	client *client
	done   atomic.Int64
	late   atomic.Int64 // arrivals that found AtOnce requests under way

	mu      sync.Mutex
	samples []loadSample
	orders  []order // acknowledged writes and creates
	jobs    []order // acknowledged jobs: the order that each appends to, and what it appends
	last    []order // of each tenant, the last acknowledged order; no id for none
	before  map[int32]map[string]bool
}

// loadSample is one request as its client saw it.
type loadSample struct {
	tenant  int32
	kind    Kind
	unclear bool // it is not safe to repeat, and nobody knows whether it was done
	wrong   bool // a read missed an acknowledged write
	failed  bool
	took    time.Duration // since it was due
}

// RunLoad sends the load, reads back what was acknowledged, and reports. A report comes with an error, too, when
// something was sent.
func RunLoad(ctx context.Context, c Load) (*LoadReport, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	plan, err := c.arrivals()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 4)
	rand.Read(id) // never fails (crypto/rand)
	l := &load{Load: c, id: hex.EncodeToString(id), client: newClient(c.URL, c.AtOnce), last: make([]order, len(c.Tenants)), before: map[int32]map[string]bool{}}
	defer l.client.close()
	if err := errors.Join(l.listBefore(ctx, plan), l.ordersOfJobs(ctx, plan)); err != nil {
		return nil, err
	}
	begun := time.Now()
	complete := l.send(ctx, plan, begun)
	seconds := time.Since(begun).Seconds()
	report := l.report(complete, seconds)
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	return report, l.audit(ctx, report)
}

// jobsOrder names one of the orders to which a tenant's jobs append.
func (l *load) jobsOrder(n int32) string { return fmt.Sprintf("%s-jobs-%d", l.id, n) }

// ordersOfJobs makes the orders to which jobs append.
func (l *load) ordersOfJobs(ctx context.Context, plan []arrival) error {
	most := map[int32]int32{}
	for _, a := range plan {
		if a.kind == Job {
			most[a.tenant] = max(most[a.tenant], a.order)
		}
	}
	return l.each(ctx, "preparing", sortedTenants(most), func(ctx context.Context, t int32) error {
		for n := range most[t] + 1 {
			if err := l.client.put(ctx, l.Tenants[t].Token, l.jobsOrder(n), ""); err != nil {
				return fmt.Errorf("make an order of tenant %q: %w", l.Tenants[t].ID, err)
			}
		}
		return nil
	})
}

// creators are the tenants that create orders in the plan.
func creators(plan []arrival) (all []int32) {
	seen := map[int32]bool{}
	for _, a := range plan {
		if a.kind == Create && !seen[a.tenant] {
			seen[a.tenant] = true
			all = append(all, a.tenant)
		}
	}
	return all
}

// listBefore notes which orders the tenants have that will create some, so that new ones are known afterwards.
func (l *load) listBefore(ctx context.Context, plan []arrival) error {
	return l.each(ctx, "listing", creators(plan), func(ctx context.Context, t int32) error {
		ids, err := l.list(ctx, t)
		if err != nil {
			return fmt.Errorf("list the orders of tenant %q: %w", l.Tenants[t].ID, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.before[t] = ids
		return nil
	})
}

// send sends each request when it is due. complete is false when ctx ended it early.
func (l *load) send(ctx context.Context, plan []arrival, begun time.Time) (complete bool) {
	l.done.Store(0) // listing counted tenants
	defer l.watch("sending", len(plan))()
	places := make(chan struct{}, l.AtOnce)
	var under sync.WaitGroup
	defer under.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n, a := range plan {
		due := begun.Add(a.due)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return false
			}
		}
		select {
		case places <- struct{}{}:
		default:
			l.late.Add(1)
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return false
			}
		}
		under.Go(func() {
			defer func() { <-places }()
			s := l.one(ctx, n, a)
			s.tenant, s.kind, s.took = a.tenant, a.kind, time.Since(due)
			l.mu.Lock()
			l.samples = append(l.samples, s)
			l.mu.Unlock()
			if l.Observe != nil {
				l.Observe(Observed{l.Tenants[a.tenant].ID, a.kind, a.due, s.took, !s.failed && !s.wrong})
			}
			l.done.Add(1)
		})
	}
	return true
}

// one sends one request and judges the answer.
func (l *load) one(ctx context.Context, n int, a arrival) (s loadSample) {
	token, name := l.Tenants[a.tenant].Token, fmt.Sprintf("%s-%d", l.id, n)
	value := fmt.Sprintf("%s %s of %s", a.kind, name, l.Tenants[a.tenant].ID)
	switch a.kind {
	case Read:
		l.mu.Lock()
		o := l.last[a.tenant]
		l.mu.Unlock()
		if o.id == "" {
			o.id = l.id + "-none" // nothing is there, and the service is to say so
		}
		got, found, err := l.client.get(ctx, token, o.id)
		s.failed = err != nil
		s.wrong = err == nil && (found != (o.value != "") || found && got != o.value)
	case Write:
		s.failed = l.client.put(ctx, token, name, value) != nil
		if !s.failed {
			l.acknowledged(order{int(a.tenant), name, value})
		}
	case Create:
		id, err := l.client.create(ctx, token, name, value)
		s.failed = err != nil
		if s.unclear = err != nil && !l.Keyed; err == nil {
			l.acknowledged(order{int(a.tenant), id, value})
		}
	case Job:
		o := order{int(a.tenant), l.jobsOrder(a.order), name + "\n"}
		s.failed = l.client.job(ctx, token, name, o.id, o.value) != nil
		if s.unclear = s.failed; !s.failed {
			l.mu.Lock()
			l.jobs = append(l.jobs, o)
			l.mu.Unlock()
		}
	}
	return s
}

func (l *load) acknowledged(o order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, o)
	l.last[o.tenant] = o
}

// list is the ids of a tenant's orders.
func (l *load) list(ctx context.Context, tenant int32) (map[string]bool, error) {
	var ids []string
	var err error
	for try := range readTries {
		if ids, err = l.client.list(ctx, l.Tenants[tenant].Token); err == nil || ctx.Err() != nil {
			break
		}
		sleep(ctx, time.Duration(try+1)*500*time.Millisecond)
	}
	all := make(map[string]bool, len(ids))
	for _, id := range ids {
		all[id] = true
	}
	return all, err
}

// each does something for each of the tenants, several at once, until one fails.
func (l *load) each(ctx context.Context, phase string, tenants []int32, do func(context.Context, int32) error) error {
	l.done.Store(0)
	defer l.watch(phase, len(tenants))()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int32)
	var workers sync.WaitGroup
	for range min(16, l.AtOnce) {
		workers.Go(func() {
			for t := range work {
				if ctx.Err() == nil {
					if err := do(ctx, t); err != nil {
						cancel(err)
					}
				}
				l.done.Add(1)
			}
		})
	}
	for _, t := range tenants {
		work <- t
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// watch reports progress as run does.
func (l *load) watch(phase string, of int) (stop func()) {
	return watchEvery(l.Progress, phase, of, &l.done)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sortedTenants are the tenants with samples, by their index.
func sortedTenants[T any](m map[int32]T) []int32 {
	all := make([]int32, 0, len(m))
	for t := range m {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}
