package blast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Router is what a router does about members that have failed.
type Router int

const (
	// Failover sends each attempt to a random member that has not failed. Only who is fully down
	// notices.
	Failover Router = iota
	// Random sends each attempt to a random member, failed or not, and a client's retry to one drawn
	// anew: it may be the same.
	Random
	// Sticky keeps a request, and all its retries, on the member that it was given: the router cannot
	// leave a dead shard. Where state has a home (state.mode: home), any router is Sticky for what
	// touches state. If it is tenants that are kept on one member each, not requests, the means are
	// the same, and a tenant is either out entirely or feels nothing.
	Sticky
)

// String is the name of the router.
func (r Router) String() string {
	switch r {
	case Failover:
		return "failover"
	case Random:
		return "random"
	case Sticky:
		return "sticky"
	}
	return fmt.Sprintf("Router(%d)", int(r))
}

// MaxRetries is the most retries of one request.
const MaxRetries = 100

// Traffic is how requests find a shard.
type Traffic struct {
	Router  Router
	Retries int // of a client after its first attempt failed, at once and without pacing: 0 to MaxRetries
}

func (t Traffic) check() error {
	if t.Router < Failover || t.Router > Sticky {
		return fmt.Errorf("%w: there is no %v", ErrTraffic, t.Router)
	}
	if t.Retries < 0 || t.Retries > MaxRetries {
		return fmt.Errorf("%w: %d retries, want 0 to %d", ErrTraffic, t.Retries, MaxRetries)
	}
	return nil
}

// attempts is the mean number of attempts of a request when each fails with probability q by itself:
// 1 + q + ... + q^retries.
func (t Traffic) attempts(q float64) float64 {
	sum := 1.0
	for range t.Retries {
		sum = 1 + q*sum
	}
	return sum
}

// fails is the probability that every attempt fails: q^(retries+1).
func (t Traffic) fails(q float64) float64 { return math.Pow(q, float64(t.Retries+1)) }

// Outcome is what tenants that lost Lost of their Of shards experience. Shards that are left are taken
// to answer everything; Capacity tells whether they can.
type Outcome struct {
	Lost, Of int
	Tenants  float64 // whole, unless a mean over sets
	Load     float64

	Success  float64 // share of requests that succeed in the end, 0 to 1
	Attempts float64 // mean attempts of a client for a request, from 1
	// OnSurvivors is the load that a tenant puts on each of its shards that is left, as a multiple of
	// what it was before the failure; 0 when none is left.
	OnSurvivors float64
}

// Experience is how the requests of all tenants fare.
type Experience struct {
	Outcomes []Outcome // the lowest Success first
	// Success is the mean share of requests that succeed: of tenants, each counting the same, and of
	// load. It is 1 when there are none.
	SuccessOfTenants, SuccessOfLoad float64
}

// Below is the tenants, and their load, with less than this share of requests that succeed.
func (e *Experience) Below(success float64) (tenants, load float64) {
	for _, o := range e.Outcomes {
		if o.Success < success {
			tenants += o.Tenants
			load += o.Load
		}
	}
	return tenants, load
}

// Experience tells how requests fare after the failure of these shards. Errors are those of Fail, and
// ErrTraffic.
func (p *Population) Experience(failed []int, traffic Traffic) (*Experience, error) {
	if err := traffic.check(); err != nil {
		return nil, err
	}
	losses, err := p.Losses(failed)
	if err != nil {
		return nil, err
	}
	means := make([]MeanLoss, len(losses))
	for i, l := range losses {
		means[i] = MeanLoss{l.Lost, l.Of, float64(l.Tenants), l.Load}
	}
	return traffic.experience(means), nil
}

// Experience tells how requests fare on average over all sets of that many shards: exactly, also when
// the sets were sampled. ErrTraffic.
func (s *Spread) Experience(traffic Traffic) (*Experience, error) {
	if err := traffic.check(); err != nil {
		return nil, err
	}
	return traffic.experience(s.PerTenant), nil
}

func (t Traffic) experience(losses []MeanLoss) *Experience {
	e := &Experience{SuccessOfTenants: 1, SuccessOfLoad: 1}
	var tenants, load, ofTenants, ofLoad float64
	for _, l := range losses {
		o := t.outcome(l)
		e.Outcomes = append(e.Outcomes, o)
		tenants += o.Tenants
		load += o.Load
		ofTenants += o.Tenants * o.Success
		ofLoad += o.Load * o.Success
	}
	if tenants > 0 {
		e.SuccessOfTenants = ofTenants / tenants
	}
	if load > 0 {
		e.SuccessOfLoad = ofLoad / load
	}
	slices.SortStableFunc(e.Outcomes, func(a, b Outcome) int { return cmp.Compare(a.Success, b.Success) })
	return e
}

func (t Traffic) outcome(l MeanLoss) Outcome {
	o := Outcome{Lost: l.Lost, Of: l.Of, Tenants: l.Tenants, Load: l.Load, Success: 1, Attempts: 1, OnSurvivors: 1}
	q := float64(l.Lost) / float64(l.Of)
	switch {
	case l.Lost == l.Of:
		o.Success, o.Attempts, o.OnSurvivors = 0, float64(1+t.Retries), 0
	case t.Router == Failover:
		o.OnSurvivors = 1 / (1 - q)
	case t.Router == Random:
		o.Success = 1 - t.fails(q)
		o.Attempts = t.attempts(q)
		o.OnSurvivors = o.Attempts // of which each survivor gets its even share, as before
	case t.Router == Sticky:
		o.Success = 1 - q
		o.Attempts = 1 + q*float64(t.Retries)
	}
	return o
}
