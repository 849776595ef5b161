package poison

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/routing/roster"
)

// Config is what a Watch is made of. Each field may be left out.
type Config struct {
	Now       func() time.Time // default time.Now
	Lambda    bool             // this process is a Lambda environment: one request at a time, one of many
	OnVerdict func(Verdict)    // told of each verdict, on the goroutine of the request; default nobody
}

// Verdict says that a tenant is under suspicion, and why. It names shards and must not reach a tenant.
type Verdict struct {
	Tenant  string
	Shards  []string  // the members that went down under it
	Downs   int       // times that one did, without the first, which drew the attention
	Chance  float64   // that as many would meet a tenant that has nothing to do with them, at most
	Firm    bool      // the chance, or that of one of the Repeats, is 1e-6 at most: reason to pin it to quarantine
	Until   time.Time // from then on it is failed over again, on probation
	Repeats int       // verdicts before this one, without a quiet time between
}

// Watch looks at all attempts of a router. It is safe for concurrent use.
type Watch struct {
	now     func() time.Time
	rule    rule
	told    func(Verdict)
	start   time.Time
	seed    maphash.Seed
	shards  *roster.Roster[shard]
	held    atomic.Int64 // records with a verdict
	stripes [stripes]stripe
}

// stripe is the records of the tenants with one hash.
type stripe struct {
	mu      sync.Mutex
	records map[string]*record
	_       [64]byte
}

// New returns a Watch that suspects nobody.
func New(c Config) *Watch {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnVerdict == nil {
		c.OnVerdict = func(Verdict) {}
	}
	w := &Watch{now: c.Now, rule: local, told: c.OnVerdict, seed: maphash.MakeSeed()}
	if c.Lambda {
		w.rule = lambda
		// An environment is frozen between requests, which its monotonic clock may not notice.
		w.now = func() time.Time { return c.Now().Round(0) }
	}
	w.start = w.now().Add(-time.Second) // all times are more than 0, which stands for never
	w.shards = roster.New(roster.Shards, func() *shard { return &shard{} })
	for i := range w.stripes {
		w.stripes[i].records = map[string]*record{}
	}
	return w
}

// at is the time now, in nanoseconds since a second before the Watch was made.
func (w *Watch) at() int64 { return int64(w.now().Sub(w.start)) }

// hash is never 0.
func (w *Watch) hash(tenant string) uint64 { return maphash.String(w.seed, tenant) | 1 }

// Observe takes what became of one attempt: failed is a failure or a time-out. An attempt that was throttled,
// refused with 421, or that the client left, says nothing and is not given. One that provably was not sent
// need not be: whatever happened to the shard, this request did not do it.
func (w *Watch) Observe(tenant, name string, failed bool) {
	s := w.shards.Get(name)
	if s == nil {
		return
	}
	hash := w.hash(tenant)
	s.all.Add(1)
	s.own[slotOf(hash)].Add(1)
	if !failed {
		s.answered(hash)
		return
	}
	w.Suspect(tenant) // a verdict that is over ends before this failure counts
	now := w.at()
	episode, part := s.fail(now, hash)
	if v, found := w.charge(tenant, hash, s, name, now, episode, part); found {
		w.told(v)
	}
}

// charge notes a failure of a tenant, part of an episode of the shard or of none, and says whether that is
// reason for a verdict.
func (w *Watch) charge(tenant string, hash uint64, s *shard, name string, now int64, episode uint64, part bool) (Verdict, bool) {
	st := w.stripe(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.records[tenant]
	if r != nil && r.over(now) {
		w.drop(st, tenant, r)
		r = nil
	}
	if !part {
		return Verdict{}, false
	}
	if r == nil {
		// That this down met this tenant is no evidence: any other would have a record now instead.
		m := w.record(st, tenant, now).member(s, name, hash)
		m.episode, m.drew = episode, true
		return Verdict{}, false
	}
	m := r.member(s, name, hash)
	if m == nil || m.episode == episode {
		return Verdict{}, false
	}
	m.episode = episode
	m.downs++
	if r.until != 0 {
		return Verdict{}, false
	}
	chance, downs, found := r.judge(w.rule)
	if !found {
		return Verdict{}, false
	}
	r.firm = r.firm || chance <= firm
	v := Verdict{Tenant: tenant, Downs: downs, Chance: chance, Firm: r.firm, Repeats: r.repeats}
	for _, m := range r.members[:r.n] {
		if m.downs > 0 || m.drew {
			v.Shards = append(v.Shards, m.name)
		}
	}
	slices.Sort(v.Shards)
	hold := min(w.rule.hold<<min(r.repeats, 10), longestHold)
	r.until = now + int64(hold)
	r.repeats++
	w.held.Add(1)
	v.Until = w.start.Add(time.Duration(r.until))
	return v, true
}

// Suspect says that the tenant's requests are not to be sent to another member after a failure.
func (w *Watch) Suspect(tenant string) bool {
	if w.held.Load() == 0 {
		return false
	}
	hash := w.hash(tenant)
	now := w.at()
	st := w.stripe(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.records[tenant]
	if r == nil {
		return false
	}
	w.expire(r, now)
	return r.until != 0
}

// Hold puts a tenant under suspicion until then, as when somebody who sees more than this process says so. It
// does not shorten a verdict.
func (w *Watch) Hold(tenant string, until time.Time) {
	hash := w.hash(tenant)
	now, end := w.at(), int64(until.Sub(w.start))
	if end <= now {
		return
	}
	st := w.stripe(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.records[tenant]
	if r == nil {
		r = w.record(st, tenant, now)
	}
	w.expire(r, now)
	if r.until == 0 {
		w.held.Add(1)
	}
	r.until = max(r.until, end)
	r.repeats = max(r.repeats, 1)
}

func (w *Watch) stripe(hash uint64) *stripe { return &w.stripes[(hash>>1)%stripes] }

// expire ends a verdict that is over: the tenant is on probation.
func (w *Watch) expire(r *record, now int64) {
	if r.until != 0 && now >= r.until {
		w.held.Add(-1)
		r.probation(r.until)
	}
}

func (w *Watch) drop(st *stripe, tenant string, r *record) {
	if r.until != 0 {
		w.held.Add(-1)
	}
	delete(st.records, tenant)
}

// record makes one, in the place of the least telling one where there is no room: one without a
// verdict before one with, and of those the one that is over first.
func (w *Watch) record(st *stripe, tenant string, now int64) *record {
	if len(st.records) >= perStripe {
		var least string
		var gone *record
		for name, r := range st.records {
			if gone == nil || r.less(gone) {
				least, gone = name, r
			}
		}
		w.drop(st, least, gone)
	}
	r := &record{opened: now}
	st.records[tenant] = r
	return r
}
