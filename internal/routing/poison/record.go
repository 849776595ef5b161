package poison

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// rule is what differs between the two forms of a router.
type rule struct {
	chance float64       // at or below which a tenant is suspected
	hold   time.Duration // of a first verdict
}

var (
	local  = rule{chance: firm, hold: 5 * time.Minute}
	lambda = rule{chance: 1e-2, hold: time.Minute}
)

const (
	firm        = 1e-6             // a chance that is reason to tell people, and to pin
	again       = 0.03             // for a tenant on probation
	window      = 10 * time.Minute // in which downs are counted together, and length of a probation
	longestHold = time.Hour
	burst       = 100 * time.Millisecond // what fails so soon after the first failure is one down

	stripes   = 16
	perStripe = 256
	mostParts = 8 // members of a subset that are told apart
)

// shard is what all tenants' attempts say of one.
type shard struct {
	attempts atomic.Uint64
	answerer atomic.Uint64 // hash of the first tenant that it answered since its last failure; 0 is nobody
	several  atomic.Bool   // and it answered another one, too

	mu       sync.Mutex
	episodes uint64
	began    int64         // the last episode
	failures atomic.Uint64 // that were part of an episode; written under mu
}

func (s *shard) answered(hash uint64) {
	if first := s.answerer.Load(); first == 0 {
		if s.answerer.CompareAndSwap(0, hash) {
			return
		}
	} else if first == hash || s.several.Load() {
		return
	}
	if s.answerer.Load() != hash {
		s.several.Store(true)
	}
}

// fail notes a failure of the tenant with that hash. It begins an episode if the shard has answered another
// tenant since the failure before. part says whether the failure belongs to the last episode.
func (s *shard) fail(now int64, hash uint64) (episode uint64, part bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	several := s.several.Swap(false)
	first := s.answerer.Swap(0)
	if well := first != 0 && (first != hash || several); well && (s.episodes == 0 || now-s.began > int64(burst)) {
		s.episodes++
		s.began = now
	}
	part = s.episodes > 0 && now-s.began <= int64(burst)
	if part {
		s.failures.Add(1)
	}
	return s.episodes, part
}

// record is one tenant's, from its first part in an episode on.
type record struct {
	opened  int64
	members [mostParts]member
	n       int
	until   int64 // end of the verdict; 0 when there is none
	repeats int   // verdicts
}

// member is what a tenant did on one shard since its record was opened.
type member struct {
	shard    *shard
	name     string
	own      uint64 // attempts of the tenant
	attempts uint64 // of everybody, before
	failures uint64 // in episodes, before
	downs    int    // episodes that the tenant had part in
	episode  uint64 // the last of them
	drew     bool   // the record was opened for one here
}

// member returns the tenant's part in a shard, nil when there are too many. A new one begins with the attempt
// that is being noted; part says whether that was counted among the failures of an episode.
func (r *record) member(s *shard, name string, part bool) *member {
	for i := range r.members[:r.n] {
		if r.members[i].shard == s {
			return &r.members[i]
		}
	}
	if r.n == len(r.members) {
		return nil
	}
	m := &r.members[r.n]
	r.n++
	*m = member{shard: s, name: name, attempts: s.attempts.Load() - 1, failures: s.failures.Load()}
	if part {
		m.failures--
	}
	return m
}

// first notes the down for which the record is opened. That it met this tenant is no evidence: it would have
// been opened for any other as well.
func (r *record) first(s *shard, name string, episode uint64) {
	m := r.member(s, name, true)
	m.own, m.episode, m.drew = 1, episode, true
	m.failures = s.failures.Load()
}

// judge weighs the downs. If the tenant has nothing to do with them, each failure in an episode is the
// tenant's with the probability of its share of the shard's attempts; the sum of these is the number of downs
// to expect, at most. Chernoff's bound then is the chance of as many as there were.
func (r *record) judge(rule rule) (chance float64, downs int, found bool) {
	expected, hit := 0.0, 0
	for i := range r.members[:r.n] {
		m := &r.members[i]
		all := m.shard.attempts.Load() - m.attempts
		failed := m.shard.failures.Load() - m.failures
		share := min(1, (float64(m.own)+1)/(float64(all)+1))
		expected += share * float64(failed)
		downs += m.downs
		if m.downs > 0 || m.drew {
			hit++
		}
	}
	x := float64(downs)
	if x <= expected {
		return 1, downs, false
	}
	chance = math.Exp(x - expected - x*math.Log(x/expected))
	if r.repeats > 0 {
		return chance, downs, chance <= again
	}
	return chance, downs, hit >= 2 && chance <= rule.chance
}

// probation begins when a verdict ends. The shares go on, so that they are known when the next shard goes down.
func (r *record) probation(at int64) {
	r.until, r.opened = 0, at
	for i := range r.members[:r.n] {
		m := &r.members[i]
		m.failures, m.downs, m.drew = m.shard.failures.Load(), 0, false
	}
}

// over says whether the record tells nothing any more.
func (r *record) over(now int64) bool {
	return r.until == 0 && now > r.opened+int64(window) || r.until != 0 && now > r.until+int64(window)
}

// less says whether r is missed less than q.
func (r *record) less(q *record) bool {
	if (r.until != 0) != (q.until != 0) {
		return r.until == 0
	}
	return max(r.opened, r.until) < max(q.opened, q.until)
}
