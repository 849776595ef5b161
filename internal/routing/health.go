package routing

import (
	"slices"
	"sync"
	"time"
)

// How the passive health record judges. Counts, not percentages: a subset has two to five members, and
// an environment may see few requests.
const (
	tolerated   = 1                // failures in a row that change nothing
	firstRest   = time.Second      // how long a failing shard is asked last
	longestRest = 30 * time.Second // the rest doubles with each failed probe, up to this
)

// health remembers for each shard of the cell how its last requests went, and puts the members of a
// subset in the order in which they are asked. It never leaves a member out.
//
// A shard that failed more than tolerated times in a row rests: the others of a subset are asked before
// it. When the rest is over, one request at a time is let through as a probe. A request that cannot be
// repeated is no probe until the shard has been left alone for the longest rest.
type health struct {
	now    func() time.Time
	pick   func(n int) int
	shards map[string]*record
}

// record is one shard's. The zero value is healthy.
type record struct {
	mu       sync.Mutex
	failures int           // in a row
	rest     time.Duration // length of the current rest; 0 is healthy
	until    time.Time     // end of the current rest
	probing  bool          // a probe is out, which moved until
}

func newHealth(shards []string, now func() time.Time, pick func(int) int) *health {
	h := &health{now: now, pick: pick, shards: make(map[string]*record, len(shards))}
	for _, id := range shards {
		h.shards[id] = &record{}
	}
	return h
}

// order returns the members in the order in which to ask them: the fit ones shuffled, which spreads the
// load, then the others, the one whose rest ends first at the front.
func (h *health) order(members []string, repeatable bool) []string {
	now := h.now()
	order := make([]string, 0, len(members))
	var resting []string
	for _, id := range members {
		if h.shards[id].fit(now, repeatable) {
			order = append(order, id)
		} else {
			resting = append(resting, id)
		}
	}
	for i := len(order) - 1; i > 0; i-- {
		j := h.pick(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	slices.SortStableFunc(resting, func(a, b string) int {
		return h.shards[a].end().Compare(h.shards[b].end())
	})
	order = append(order, resting...)
	if !h.shards[order[0]].claim(now) && len(order) > 1 {
		// Another request is the probe already.
		order = append(order[1:], order[0])
	}
	return order
}

// succeeded records an answer of the shard.
func (h *health) succeeded(shard string) { h.shards[shard].succeeded() }

// failed records that the shard gave no answer, or one that says it cannot.
func (h *health) failed(shard string) { h.shards[shard].failed(h.now()) }

// fit says whether the shard may be asked among the first: it is healthy, or its rest is over.
func (r *record) fit(now time.Time, repeatable bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.until
	if !repeatable {
		over = over.Add(longestRest)
	}
	return r.rest == 0 || !now.Before(over)
}

// end is when the rest is over; the zero time when there is none.
func (r *record) end() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until
}

// claim is called for the shard that is asked first. False means that it is on probation and another
// request claimed the probe in the meantime.
func (r *record) claim(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest == 0 {
		return true
	}
	if r.probing && now.Before(r.until) {
		return false
	}
	r.probing = true
	r.until = now.Add(r.rest)
	return true
}

func (r *record) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.rest, r.until, r.probing = 0, 0, time.Time{}, false
}

func (r *record) failed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = min(r.failures+1, 1<<20)
	if r.failures <= tolerated {
		return
	}
	if r.rest > 0 && !r.probing && now.Before(r.until) {
		return // one of many that were out when the shard failed; they are one failure
	}
	r.rest = min(max(firstRest, 2*r.rest), longestRest)
	r.until = now.Add(r.rest)
	r.probing = false
}
