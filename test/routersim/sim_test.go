package routersim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// The cell of all simulations: 2 of 16 for 2,000 tenants.
const (
	shards         = 16
	tenants        = 2000
	attemptTimeout = time.Second
)

// fault is how a shard is ill.
type fault int

const (
	fine     fault = iota
	dead           // refuses connections
	hung           // takes requests and never answers
	slow           // ten times
	throttle       // refuses nine of ten
	erroring       // answers 500, which an idempotent request takes for a failure
	flaky          // fails one of two
)

// world is one run. Time is since its beginning.
type world struct {
	rng       *rand.Rand
	rate      float64 // requests a second of all tenants
	heavy     float64 // share of the load that tenant 0 has, beside the even share of all
	lambda    int     // environments; 0 is the local form
	snapshot  time.Duration
	random    float64                                      // probability that a healthy shard fails a request
	state     func(shard int, at time.Duration) fault      // nil is fine
	poison    func(tenant int, at time.Duration) poisonous // nil is none
	collapse  time.Duration                                // how long a shard is down after a poisonous request
	observe   func(r request)                              // told of each request that is over
	reserved  int                                          // shards, the last ones, on which nobody is placed
	onVerdict func(at time.Duration, environment int, v poison.Verdict)

	now       time.Duration
	queue     events
	names     []string
	index     map[string]int // of names
	ids       []string       // of tenants
	subsets   [][]string
	downUntil [shards]time.Duration
	flying    [shards]map[*request]func(health.Result)
	refusals  [shards]float64 // since the last snapshot
	processes []*process
	refused   int // requests for which no environment was free
}

// poisonous is what a request does to the shard that gets it.
type poisonous int

const (
	harmless poisonous = iota
	kills
	hangs // itself alone
)

// process is one router.
type process struct {
	tracker *health.Tracker
	watch   *poison.Watch
	busy    int
}

// request is one on its way, and what became of it.
type request struct {
	tenant   int
	at       time.Duration
	attempts []int // shards
	answered bool
	took     time.Duration
	p        *process
	order    []string
}

var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func (w *world) run(until time.Duration) {
	w.index = map[string]int{}
	for i := range shards {
		w.names = append(w.names, fmt.Sprint("s", i))
		w.index[w.names[i]] = i
		w.flying[i] = map[*request]func(health.Result){}
	}
	for i := range tenants {
		w.ids = append(w.ids, fmt.Sprint("t", i))
		n := shards - w.reserved
		a := w.rng.IntN(n)
		b := (a + 1 + w.rng.IntN(n-1)) % n
		w.subsets = append(w.subsets, []string{w.names[a], w.names[b]})
	}
	for i := range max(1, w.lambda) {
		clock := func() time.Time { return epoch.Add(w.now) }
		w.processes = append(w.processes, &process{
			tracker: health.New(health.Config{Now: clock, Pick: w.rng.IntN, Lambda: w.lambda > 0}),
			watch: poison.New(poison.Config{Now: clock, Lambda: w.lambda > 0, OnVerdict: func(v poison.Verdict) {
				if w.onVerdict != nil {
					w.onVerdict(w.now, i, v)
				}
			}}),
		})
	}
	w.arrive()
	if w.snapshot > 0 {
		w.after(w.snapshot, w.report)
	}
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		if e.at > until {
			return
		}
		w.now = e.at
		e.do()
	}
}

// arrive lets the next request come.
func (w *world) arrive() {
	w.after(time.Duration(w.rng.ExpFloat64()/w.rate*float64(time.Second)), func() {
		tenant := w.rng.IntN(tenants)
		if w.heavy > 0 && w.rng.Float64() < w.heavy {
			tenant = 0
		}
		r := &request{tenant: tenant, at: w.now, p: w.free()}
		if r.p == nil {
			w.refused++
		} else {
			r.p.busy++
			r.order = r.p.tracker.Order(nil, w.subsets[tenant], true)
			if r.p.watch.Suspect(w.ids[tenant]) {
				r.order = w.subsets[tenant][:1] // a suspect has one member for all of its requests, as in the engine
			}
			w.attempt(r)
		}
		w.arrive()
	})
}

// free is a process for the next request: the router, or an idle environment.
func (w *world) free() *process {
	if w.lambda == 0 {
		return w.processes[0]
	}
	start := w.rng.IntN(len(w.processes))
	for i := range w.processes {
		if p := w.processes[(start+i)%len(w.processes)]; p.busy == 0 {
			return p
		}
	}
	return nil
}

func (w *world) attempt(r *request) {
	s := w.index[r.order[len(r.attempts)]]
	r.attempts = append(r.attempts, s)
	begun := w.now
	r.p.tracker.Begin(w.names[s])
	end := func(o health.Result) {
		if w.flying[s][r] == nil {
			return // it fell with its shard
		}
		delete(w.flying[s], r)
		w.end(r, s, o, w.now-begun)
	}
	w.flying[s][r] = end
	o, took := w.serve(r, s)
	if took >= attemptTimeout {
		o, took = health.TimedOut, attemptTimeout
	}
	w.after(took, func() { end(o) })
}

// serve is what the shard makes of a request, and how long that takes.
func (w *world) serve(r *request, s int) (health.Result, time.Duration) {
	took := 15*time.Millisecond + time.Duration(w.rng.ExpFloat64()*float64(5*time.Millisecond))
	if w.now < w.downUntil[s] {
		return health.Failed, time.Millisecond
	}
	if w.state != nil {
		switch w.state(s, w.now) {
		case dead:
			return health.Failed, time.Millisecond
		case hung:
			return health.TimedOut, attemptTimeout
		case slow:
			return health.Answered, 10 * took
		case throttle:
			if w.rng.IntN(10) > 0 {
				w.refusals[s]++
				return health.Throttled, 2 * time.Millisecond
			}
		case erroring:
			return health.Failed, 5 * time.Millisecond
		case flaky:
			if w.rng.IntN(2) == 0 {
				return health.Failed, took
			}
		}
	}
	if w.poison != nil {
		switch w.poison(r.tenant, w.now) {
		case kills:
			w.after(5*time.Millisecond, func() { w.collapseOf(s) })
			return health.Failed, 5 * time.Millisecond
		case hangs:
			return health.TimedOut, attemptTimeout
		}
	}
	if w.random > 0 && w.rng.Float64() < w.random {
		return health.Failed, took
	}
	return health.Answered, took
}

// collapseOf takes a shard down, with what is in flight there. Nothing else falls where a slice gives each
// request its own process.
func (w *world) collapseOf(s int) {
	if w.collapse == 0 {
		return
	}
	w.downUntil[s] = w.now + w.collapse
	ends := make([]func(health.Result), 0, len(w.flying[s]))
	for _, end := range w.flying[s] {
		ends = append(ends, end)
	}
	w.rng.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	for _, end := range ends {
		end(health.Failed)
	}
}

func (w *world) end(r *request, s int, o health.Result, took time.Duration) {
	r.p.tracker.End(w.names[s], o, took)
	tenant := w.ids[r.tenant]
	if o != health.Throttled {
		r.p.watch.Observe(tenant, w.names[s], o != health.Answered)
	}
	r.answered = o == health.Answered
	if !r.answered && len(r.attempts) < len(r.order) && !r.p.watch.Suspect(tenant) {
		w.attempt(r)
		return
	}
	r.took = w.now - r.at
	r.p.busy--
	if w.observe != nil {
		w.observe(*r)
	}
}

// report is the keeper's work: target health, where a load balancer would see it, and refusals.
func (w *world) report() {
	var rs []health.Report
	for i, name := range w.names {
		r := health.Report{Shard: name, Targets: 2, Healthy: 2, Throttled: w.refusals[i] / w.snapshot.Minutes()}
		if w.state != nil {
			if f := w.state(i, w.now); f == dead || f == hung {
				r.Healthy = 0
			}
		}
		w.refusals[i] = 0
		rs = append(rs, r)
	}
	taken := epoch.Add(w.now)
	for _, p := range w.processes {
		// Each environment meets the new snapshot some time later.
		w.after(time.Duration(w.rng.IntN(10_000))*time.Millisecond, func() { p.tracker.Report(taken, rs) })
	}
	w.after(w.snapshot, w.report)
}

func (w *world) after(d time.Duration, do func()) {
	heap.Push(&w.queue, event{w.now + d, do})
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
