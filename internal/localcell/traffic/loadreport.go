package traffic

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// LoadReport is what was measured of a Load.
type LoadReport struct {
	Tenants  int     `json:"tenants"` // that sent at least one request
	Requests int     `json:"requests"`
	RPS      float64 `json:"rps"`      // as sent
	Seconds  float64 `json:"seconds"`  // of the sending, until the last answer
	Complete bool    `json:"complete"` // false: it was interrupted
	Late     int64   `json:"late"`     // requests that waited because too many were under way; their latency counts that
	Seed     uint64  `json:"seed"`

	// Failures are requests without the right answer that are safe to repeat: reads, writes, and creates where the
	// service keeps idempotency records. Unclear are others, of which nobody knows whether they were done.
	Failures   int `json:"failures"`
	Unclear    int `json:"unclear"`
	WrongReads int `json:"wrongReads"` // of the failures, reads that missed an acknowledged write

	Acknowledged int `json:"acknowledged"` // writes and creates
	Lost         int `json:"lost"`         // of them, not there or different when read back
	Unread       int `json:"unread"`       // of them, could not be read back
	Doubled      int `json:"doubled"`      // orders that a create made beyond its first
	Jobs         int `json:"jobs"`         // acknowledged
	JobsUndone   int `json:"jobsUndone"`   // of them, without effect a minute after the last request: their shard may still be broken
	JobsDoubled  int `json:"jobsDoubled"`  // effects of jobs beyond their first

	Latency  Latency            `json:"latency"` // from when a request was due to its last byte
	ByKind   map[string]ByKind  `json:"byKind"`
	ByTenant []TenantExperience `json:"byTenant"` // of each that sent a request, in the order of the file
}

// ByKind is how the requests of one kind went.
type ByKind struct {
	Requests int     `json:"requests"`
	Failures int     `json:"failures"` // unclear ones among them
	Latency  Latency `json:"latency"`
}

// TenantExperience is what one tenant saw. Whether the router needed a second attempt it cannot see.
type TenantExperience struct {
	Tenant   string  `json:"tenant"`
	Requests int     `json:"requests"`
	Failures int     `json:"failures"` // unclear ones among them
	Latency  Latency `json:"latency"`
}

// report sums the samples up.
func (l *load) report(complete bool, seconds float64) *LoadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &LoadReport{
		Requests: len(l.samples), Seconds: seconds, Complete: complete, Late: l.late.Load(), Seed: l.Seed,
		Acknowledged: len(l.orders), Jobs: len(l.jobs), ByKind: map[string]ByKind{}, ByTenant: []TenantExperience{},
	}
	if seconds > 0 {
		r.RPS = float64(len(l.samples)) / seconds
	}
	var all []time.Duration
	byTenant, failed := map[int32][]time.Duration{}, map[int32]int{}
	var took [kinds][]time.Duration
	var failedKind [kinds]int
	for _, s := range l.samples {
		all = append(all, s.took)
		byTenant[s.tenant] = append(byTenant[s.tenant], s.took)
		took[s.kind] = append(took[s.kind], s.took)
		if s.wrong {
			r.WrongReads++
		}
		if !s.failed && !s.wrong {
			continue
		}
		failed[s.tenant]++
		failedKind[s.kind]++
		if s.unclear {
			r.Unclear++
		} else {
			r.Failures++
		}
	}
	r.Latency, r.Tenants = latency(all), len(byTenant)
	for k := range kinds {
		r.ByKind[k.String()] = ByKind{len(took[k]), failedKind[k], latency(took[k])}
	}
	for _, t := range sortedTenants(byTenant) {
		r.ByTenant = append(r.ByTenant, TenantExperience{l.Tenants[t].ID, len(byTenant[t]), failed[t], latency(byTenant[t])})
	}
	return r
}

// Failed are the tenants of whom a request failed, those with the most failures first.
func (r *LoadReport) Failed() []TenantExperience {
	failed := slices.DeleteFunc(slices.Clone(r.ByTenant), func(t TenantExperience) bool { return t.Failures == 0 })
	slices.SortStableFunc(failed, func(a, b TenantExperience) int { return b.Failures - a.Failures })
	return failed
}

// Fault says what must not have happened: something acknowledged lost or done twice, or a request that is safe
// to repeat failed. Nil when nothing did.
func (r *LoadReport) Fault() error {
	var errs []error
	for _, f := range []struct {
		n    int
		what string
	}{
		{r.Lost, "acknowledged writes are lost"}, {r.Doubled, "orders were created twice"},
		{r.JobsUndone, "acknowledged jobs were not done a minute later"}, {r.JobsDoubled, "jobs took effect twice"},
		{r.WrongReads, "reads missed an acknowledged write"}, {r.Failures, "requests failed that are safe to repeat"},
	} {
		if f.n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", f.n, f.what))
		}
	}
	return errors.Join(errs...)
}
