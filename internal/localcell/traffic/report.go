package traffic

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Report is what was measured, but for ByPlacement. Counts of tenants add up: Untouched + Degraded +
// FullyDown = Tenants.
type Report struct {
	Tenants int    `json:"tenants"`
	Broken  string `json:"broken,omitempty"` // the shard
	// Untouched felt nothing: no request of theirs failed or needed a second shard.
	Untouched int `json:"untouched"`
	// Felt noticed something and were served: a request failed or needed a second shard, and they are not
	// fully down.
	Felt int `json:"felt"`
	// FullyDown got no right answer to any request that they sent: during the break, or without one in the
	// whole run.
	FullyDown int `json:"fullyDown"`
	// Asked is the number of tenants that sent at least one request wholly during the break.
	Asked int `json:"askedDuringBreak"`
	// FellBack is the number of tenants for which the router asked a second shard, as it counted.
	FellBack int `json:"fellBack"`
	// ByPlacement is what the placement scheme computes for the failure of the shard; nil without a break.
	ByPlacement *Prediction `json:"byPlacement,omitempty"`

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

	touched []bool // by tenant: a request failed or needed a second shard
	down    []bool // by tenant
}

// Prediction is computed from the tenants' subsets alone. Nothing in it was measured.
type Prediction struct {
	Degraded  int `json:"degraded"`  // tenants whose subset holds the shard; FullyDown included
	FullyDown int `json:"fullyDown"` // tenants whose only shard it is
}

// Latency is how long requests took, from when they were due to their last byte.
type Latency struct {
	Median float64 `json:"medianMs"`
	P99    float64 `json:"p99Ms"` // exact: the least that 99 % of all did not exceed
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
	asked := make([]bool, n)                           // during the break
	sent, answered := make([]bool, n), make([]bool, n) // in what FullyDown is about
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
		inBreak := !r.from.IsZero() && !s.begun.Before(r.from) && !s.over.After(r.to)
		if inBreak || r.Broken == "" {
			sent[s.tenant] = true
			answered[s.tenant] = answered[s.tenant] || s.err == nil
		}
		if !inBreak {
			calm = append(calm, s.over.Sub(s.due))
			continue
		}
		during = append(during, s.over.Sub(s.due))
		asked[s.tenant] = true
	}
	out.DuringBreak, out.Calm, out.Break = len(during), latency(calm), latency(during)
	if !r.from.IsZero() {
		out.BreakSeconds = r.to.Sub(r.from).Seconds()
	}
	if r.Broken != "" {
		out.ByPlacement = &Prediction{}
	}
	for i, t := range r.Tenants {
		if r.Broken != "" && t.isMember(r.Broken) {
			out.ByPlacement.Degraded++
			if len(t.Subset) == 1 {
				out.ByPlacement.FullyDown++
			}
		}
		if asked[i] {
			out.Asked++
		}
		if sent[i] && !answered[i] {
			out.down[i] = true
			out.FullyDown++
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
	r.Untouched, r.Felt = 0, 0
	for i, touched := range r.touched {
		switch {
		case r.down[i]:
		case touched:
			r.Felt++
		default:
			r.Untouched++
		}
	}
}

// Fault says what must not have happened: an acknowledged write lost, an idempotent request failed, a
// tenant fully down. Nil when none did.
func (r *Report) Fault() error {
	var errs []error
	if r.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d acknowledged writes are lost", r.Lost))
	}
	if r.WrongReads > 0 {
		errs = append(errs, fmt.Errorf("%d reads missed an acknowledged write", r.WrongReads))
	}
	if r.FullyDown > 0 {
		errs = append(errs, fmt.Errorf("%d of %d tenants were fully down", r.FullyDown, r.Tenants))
	}
	if r.Failures > 0 {
		errs = append(errs, fmt.Errorf("%d of %d requests failed, all of them idempotent; the first: %s", r.Failures, r.Requests, r.FirstFailure))
	}
	return errors.Join(errs...)
}

func latency(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	ms := func(i int) float64 { return float64(took[i].Microseconds()) / 1000 }
	n := len(took)
	return Latency{Median: ms((n - 1) / 2), P99: ms((99*n+99)/100 - 1), Max: ms(n - 1)}
}
