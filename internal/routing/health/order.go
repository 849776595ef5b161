package health

import "time"

// alike is how much larger one latency may be for two to be taken as equal.
const alike = 1.25

// tier is what comes before what.
type tier uint8

const (
	well tier = iota
	ill
	drained
)

// member is one of a subset while it is put in order.
type member struct {
	name    string
	tier    tier
	latency float64 // nanoseconds, with what reports add
	load    float64 // requests in flight, and this one
	after   int64   // among ill ones: 0 by a report alone, else until the rest ends
	told    bool    // ill by a report
}

// Order appends all members to dst, the one to ask first at the front. repeatable says whether the request
// may be sent again when nobody knows what the first sending did. The request is the probe of the first one
// if that is due: asking for an order and not sending leaves the shard alone for another rest.
func (t *Tracker) Order(dst, members []string, repeatable bool) []string {
	var room [8]member
	ms := room[:0]
	if len(members) > len(room) {
		ms = make([]member, 0, len(members))
	}
	now := t.at()
	var since time.Duration
	if !repeatable {
		since = t.rules.longest
	}
	var probe *shard
	probed := -1
	for i, name := range members {
		s := t.shards.Find(name)
		ms = append(ms, t.look(name, s, now))
		if ms[i].tier == ill && !ms[i].told && s.due(now, since) && (probe == nil || s.until.Load() < probe.until.Load()) {
			probe, probed = s, i
		}
	}
	first := 0
	if probe != nil && probe.claim(now, since, t.jitter) {
		ms[0], ms[probed] = ms[probed], ms[0]
		first = 1
	}
	t.sort(ms[first:])
	for i := range ms {
		dst = append(dst, ms[i].name)
	}
	return dst
}

// look tells how a member stands now. One that has no record is well, and idle.
func (t *Tracker) look(name string, s *shard, now int64) member {
	m := member{name: name, latency: float64(quick), load: 1}
	if s == nil {
		return m
	}
	m.latency = max(m.latency, s.latencyAt(now, t.rules.decay))
	if t.rules.shared {
		if n := s.inFlight.Load(); n > 0 {
			m.load += float64(n)
			m.latency = max(m.latency, float64(now-s.heard.Load()))
		}
	}
	if until := s.until.Load(); until != 0 {
		m.tier, m.after = ill, max(1, until-now)
	}
	if r := s.report.Load(); r != nil {
		answered := s.answered.Load()
		m.latency *= r.factor(now, answered)
		if r.drained {
			m.tier = drained
		} else if r.unhealthy(now, answered) {
			m.tier, m.told = ill, true
		}
	}
	return m
}

// sort puts well members first, of each two drawn at random the better one, then ill ones, then drained
// ones.
func (t *Tracker) sort(ms []member) {
	n := 0 // well ones
	for i := range ms {
		if ms[i].tier == well {
			ms[n], ms[i] = ms[i], ms[n]
			n++
		}
	}
	for i := 0; i < n-1; i++ {
		a, b := i, i+1
		if left := n - i; left > 2 {
			a = i + t.pick(left)
			b = i + t.pick(left-1)
			if b >= a {
				b++
			}
		}
		if t.better(&ms[b], &ms[a]) {
			a = b
		}
		ms[i], ms[a] = ms[a], ms[i]
	}
	bad := ms[n:]
	for i := 1; i < len(bad); i++ {
		for j := i; j > 0 && bad[j].before(&bad[j-1]); j-- {
			bad[j], bad[j-1] = bad[j-1], bad[j]
		}
	}
}

// better says whether a is to be asked before b, both well.
func (t *Tracker) better(a, b *member) bool {
	x, y := a.latency*a.load, b.latency*b.load
	if max(a.latency, b.latency) <= alike*min(a.latency, b.latency) {
		x, y = a.load, b.load
	}
	if x == y {
		return t.pick(2) == 0
	}
	return x < y
}

// before says whether a is to be asked before b, neither well.
func (a *member) before(b *member) bool {
	switch {
	case a.tier != b.tier:
		return a.tier < b.tier
	case a.after != b.after:
		return a.after < b.after
	}
	return a.latency < b.latency
}
