package poison

import (
	"math"
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

	stripes   = 16
	perStripe = 256
	mostParts = 8 // members of a subset that are told apart
)

// record is one tenant's, from its first part in an episode on.
type record struct {
	opened  int64
	members [mostParts]member
	n       int
	until   int64 // end of the verdict; 0 when there is none
	repeats int   // verdicts
	firm    bool  // one of them was
}

// member is the part that a tenant has in the episodes of one shard.
type member struct {
	shard   *shard
	name    string
	slot    uint64 // of the tenant in the shard's counts
	episode uint64 // the last that the tenant had part in
	downs   int    // how many since the record was opened, but for the one for which it was
	drew    bool   // it was opened for one here
	own     uint64 // attempts before, of the tenant's slot
	all     uint64 // and of everybody
	base    tally  // what does not count, of the shard's episodes
}

// member returns the tenant's part in a shard, nil when there are too many. A new one counts the episodes of
// the last minutes, too, but for the one now.
func (r *record) member(s *shard, name string, hash uint64) *member {
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
	slot := slotOf(hash)
	*m = member{shard: s, name: name, slot: slot, own: s.own[slot].Load(), all: s.all.Load(), base: s.before()}
	return m
}

// judge weighs the downs. If the tenant has nothing to do with them, each failure in an episode is the
// tenant's with the probability of its share of the shard's attempts, so that it is known in how many of the
// episodes to expect it. Hoeffding's bound then gives the chance that it had part in as many as it had.
func (r *record) judge(rule rule) (chance float64, downs int, found bool) {
	var n, expected float64
	hit := 0
	for i := range r.members[:r.n] {
		m := &r.members[i]
		t := m.shard.total().less(m.base)
		if m.drew {
			t = t.less(tally{1, 1})
		}
		n += float64(t.episodes)
		if t.episodes > 0 {
			// An episode of f failures has one of the tenant's with a probability of 1-(1-share)^f at most. That
			// is concave in f, so that the average f stands for all.
			f := float64(t.failures) / float64(t.episodes)
			expected += float64(t.episodes) * (1 - math.Pow(1-m.share(), f))
		}
		downs += m.downs
		if m.downs > 0 || m.drew {
			hit++
		}
	}
	chance = tail(n, float64(downs), expected)
	if r.repeats > 0 {
		return chance, downs, chance <= again
	}
	return chance, downs, hit >= 2 && chance <= rule.chance
}

// recent is how many attempts it takes for the tenant's share of late to weigh as much as that since ever.
const recent = 50

// share is the tenant's share of the shard's attempts, or that of all tenants in its slot. One that begins to
// ask more often than before is soon known to.
func (m *member) share() float64 {
	own, all := float64(m.shard.own[m.slot].Load()), float64(m.shard.all.Load())
	ever := (own + 1) / (all + 1)
	return min(1, (own-float64(m.own)+recent*ever)/(all-float64(m.all)+recent))
}

// tail bounds the probability of x or more of n independent events of which so many are expected (Hoeffding,
// "Probability Inequalities for Sums of Bounded Random Variables", JASA 58, 1963, theorem 1).
func tail(n, x, expected float64) float64 {
	if n == 0 || x <= expected {
		return 1
	}
	a, p := min(1, x/n), expected/n
	kl := a * math.Log(a/p)
	if a < 1 {
		kl += (1 - a) * math.Log((1-a)/(1-p))
	}
	return math.Exp(-n * kl)
}

// probation begins when a verdict ends: only what goes down from then on counts.
func (r *record) probation(at int64) {
	r.until, r.opened = 0, at
	for i := range r.members[:r.n] {
		m := &r.members[i]
		m.base, m.downs, m.drew = m.shard.total(), 0, false
	}
}

// over says whether the record tells nothing any more.
func (r *record) over(now int64) bool { return now > max(r.opened, r.until)+int64(window) }

// less says whether r is missed less than q.
func (r *record) less(q *record) bool {
	if (r.until != 0) != (q.until != 0) {
		return r.until == 0
	}
	return max(r.opened, r.until) < max(q.opened, q.until)
}
