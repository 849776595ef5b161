package traffic

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Report is what was measured. Counts of tenants add up: Untouched + Degraded + FullyDown = Tenants.
type Report struct {
	Tenants int    `json:"tenants"`
	Broken  string `json:"broken,omitempty"` // the shard
	// Untouched felt nothing: the shard is no member of their subset, and no request of theirs failed or
	// needed a fallback.
	Untouched int `json:"untouched"`
	// Degraded could feel something and were served: all others that are not fully down.
	Degraded int `json:"degraded"`
	// FullyDown got no answer to any request that they sent during the break.
	FullyDown int `json:"fullyDown"`
	// FullyDownOfSeveral are those of them that have more than one shard.
	FullyDownOfSeveral int `json:"fullyDownOfSeveral"`
	// Asked is the number of tenants that sent at least one request wholly during the break.
	Asked int `json:"askedDuringBreak"`
	// Members is the number of tenants whose subset holds the shard, as placement computes.
	Members int `json:"membersByPlacement"`
	// FellBack is the number of tenants for which the router asked a second shard, as it counted.
	FellBack int `json:"fellBack"`

	Requests     int     `json:"requests"`
	DuringBreak  int     `json:"requestsDuringBreak"` // sent and answered wholly within it
	Failures     int     `json:"failures"`            // idempotent requests without the right answer
	WrongReads   int     `json:"wrongReads"`          // of them, reads that missed an acknowledged write
	Fallbacks    int64   `json:"fallbacks"`           // requests for which a second shard was asked
	Acknowledged int     `json:"acknowledged"`        // writes
	Lost         int     `json:"lost"`                // of them, not there or different when read back
	Unread       int     `json:"unread"`              // of them, could not be read back
	Complete     bool    `json:"complete"`            // false: the time limit ended the sending early
	Seconds      float64 `json:"seconds"`             // of the sending
	BreakSeconds float64 `json:"breakSeconds,omitempty"`
	Calm         Latency `json:"calm"`           // requests outside the break
	Break        Latency `json:"break,omitzero"` // requests wholly during it
	FirstFailure string  `json:"firstFailure,omitempty"`

	touched []bool // by tenant: a request failed, or the shard is a member
	down    []bool // by tenant
}

// Latency is how long requests took, from when they were due to their last byte.
type Latency struct {
	Median float64 `json:"medianMs"`
	P99    float64 `json:"p99Ms"`
	Max    float64 `json:"maxMs"`
}

// report sums the samples up.
func (r *run) report(complete bool) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.Tenants)
	out := &Report{
		Tenants: n, Broken: r.Broken, Complete: complete,
		Requests: len(r.samples), Acknowledged: len(r.orders), touched: make([]bool, n), down: make([]bool, n),
	}
	asked, answered := make([]bool, n), make([]bool, n)
	var calm, during []time.Duration
	for _, s := range r.samples {
		if s.err != nil {
			out.Failures++
			out.touched[s.tenant] = true
			if out.FirstFailure == "" {
				out.FirstFailure = s.err.Error()
			}
		}
		if s.wrong {
			out.WrongReads++
		}
		if r.from.IsZero() || s.begun.Before(r.from) || s.over.After(r.to) {
			calm = append(calm, s.over.Sub(s.due))
			continue
		}
		during = append(during, s.over.Sub(s.due))
		asked[s.tenant] = true
		answered[s.tenant] = answered[s.tenant] || s.err == nil
	}
	out.DuringBreak, out.Calm, out.Break = len(during), latency(calm), latency(during)
	if !r.from.IsZero() {
		out.BreakSeconds = r.to.Sub(r.from).Seconds()
	}
	for i, t := range r.Tenants {
		if r.Broken != "" && t.isMember(r.Broken) {
			out.Members++
			out.touched[i] = true
		}
		if asked[i] {
			out.Asked++
		}
		if asked[i] && !answered[i] {
			out.down[i] = true
			out.FullyDown++
			if len(t.Subset) > 1 {
				out.FullyDownOfSeveral++
			}
		}
	}
	out.classify()
	return out
}

// countFallbacks adds what the router counted between before and after.
func (r *Report) countFallbacks(c Config, before, after map[string]int64) error {
	for i, t := range c.Tenants {
		n := after[t.ID] - before[t.ID]
		if n < 0 {
			return errors.New("the router's process ended meanwhile, and its counters with it; fallbacks are not known")
		}
		if n > 0 {
			r.FellBack++
			r.Fallbacks += n
			r.touched[i] = true
		}
	}
	r.classify()
	return nil
}

func (r *Report) classify() {
	r.Untouched, r.Degraded = 0, 0
	for i, touched := range r.touched {
		switch {
		case r.down[i]:
		case touched:
			r.Degraded++
		default:
			r.Untouched++
		}
	}
}

// Fault says what must not have happened: an acknowledged write lost, or a tenant with several shards
// fully down although one broke. Nil when neither did.
func (r *Report) Fault() error {
	var errs []error
	if r.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d acknowledged writes are lost", r.Lost))
	}
	if r.WrongReads > 0 {
		errs = append(errs, fmt.Errorf("%d reads missed an acknowledged write", r.WrongReads))
	}
	if r.FullyDownOfSeveral > 0 {
		errs = append(errs, fmt.Errorf("%d tenants with several shards were fully down while one shard was", r.FullyDownOfSeveral))
	}
	return errors.Join(errs...)
}

func latency(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	ms := func(i int) float64 { return float64(took[i].Microseconds()) / 1000 }
	last := len(took) - 1
	return Latency{Median: ms(last / 2), P99: ms(last * 99 / 100), Max: ms(last)}
}
