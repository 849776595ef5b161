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

// maxFailing bounds the shards that are remembered as failing: more than any cell has.
const maxFailing = 1024

// health remembers how the last requests of each shard went, and puts the members of a subset in the order
// in which they are asked. It never leaves a member out. A shard is known from its first failure to its
// next answer; one that is not known is healthy, so that nobody has to say which shards there are.
//
// A shard that failed more than tolerated times in a row rests: the others of a subset are asked before
// it. When the rest is over, one request at a time is let through as a probe. A request that cannot be
// repeated is no probe until the shard has been left alone for the longest rest.
type health struct {
	now  func() time.Time
	pick func(n int) int

	mu      sync.Mutex
	failing map[string]*record
}

// record is one shard's. No record, and the zero value, is healthy.
type record struct {
	failures int           // in a row
	rest     time.Duration // length of the current rest; 0 is healthy
	until    time.Time     // end of the current rest; the zero time when there is none
	probing  bool          // a probe is out, which moved until
}

func newHealth(now func() time.Time, pick func(int) int) *health {
	return &health{now: now, pick: pick, failing: map[string]*record{}}
}

// order returns the members in the order in which to ask them: the fit ones shuffled, which spreads the
// load, then the others, the one whose rest ends first at the front.
func (h *health) order(members []string, repeatable bool) []string {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	order := make([]string, 0, len(members))
	var resting []string
	for _, id := range members {
		if h.failing[id].fit(now, repeatable) {
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
		return h.failing[a].until.Compare(h.failing[b].until)
	})
	order = append(order, resting...)
	if !h.failing[order[0]].claim(now) && len(order) > 1 {
		// Another request is the probe already.
		order = append(order[1:], order[0])
	}
	return order
}

// succeeded records an answer of the shard.
func (h *health) succeeded(shard string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failing, shard)
}

// failed records that the shard gave no answer, or one that says it cannot.
func (h *health) failed(shard string) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.failing[shard]
	if r == nil {
		if len(h.failing) >= maxFailing {
			return
		}
		r = &record{}
		h.failing[shard] = r
	}
	r.failed(now)
}

// fit says whether the shard may be asked among the first: it is healthy, or its rest is over.
func (r *record) fit(now time.Time, repeatable bool) bool {
	if r == nil || r.rest == 0 {
		return true
	}
	over := r.until
	if !repeatable {
		over = over.Add(longestRest)
	}
	return !now.Before(over)
}

// claim is called for the shard that is asked first. False means that it is on probation and another
// request claimed the probe in the meantime.
func (r *record) claim(now time.Time) bool {
	if r == nil || r.rest == 0 {
		return true
	}
	if r.probing && now.Before(r.until) {
		return false
	}
	r.probing = true
	r.until = now.Add(r.rest)
	return true
}

func (r *record) failed(now time.Time) {
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
