package cli

import (
	"cmp"
	"math"
	"slices"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
)

// planRouter says whether shards that hang leave the router enough of its reserved concurrency for everybody
// else. A request to a shard that hangs holds one environment of the router for the time of an attempt; what
// is held together is to stay below half of the reservation.
//
// Nothing is taken off for what routers learn: each environment finds out for itself that a shard hangs.
type planRouter struct {
	Reserved int      `json:"reserved"` // concurrent executions
	Attempt  float64  `json:"attemptTimeoutSeconds"`
	Hang     []string `json:"hang"`     // the shards with most load, as many as the budget has fail
	Rate     float64  `json:"affected"` // requests per second to them
	Held     float64  `json:"held"`     // Rate × Attempt, concurrent executions
	Kept     bool     `json:"kept"`     // Held is below half of Reserved
	Needed   int      `json:"neededReserved"`
	Longest  float64  `json:"longestAttemptTimeoutSeconds"` // that is kept with the reservation; 0 when shorter than the shortest one allowed
	Longer   []string `json:"longerRoutes"`                 // routes whose own time-out is longer, which is not counted
}

// router measures what the budget's failures hold of the router if the shards hang instead of dying.
func (m *cellMeasure) router() error {
	if !m.in.loads {
		return nil
	}
	shards := slices.SortedStableFunc(slices.Values(m.out.Shards), func(a, b planShardState) int { return cmp.Compare(b.Load, a.Load) })[:m.failed]
	r := &planRouter{Reserved: m.f.Router.ReservedConcurrency, Attempt: m.f.Router.AttemptTimeout.Seconds(), Hang: []string{}, Longer: []string{}}
	for _, s := range shards {
		r.Hang = append(r.Hang, s.ID)
		r.Rate += s.Load
	}
	half := float64(r.Reserved) / 2
	r.Held = r.Rate * r.Attempt
	r.Kept = r.Held < half
	r.Needed = int(math.Floor(2*r.Held)) + 1
	if r.Rate > 0 {
		longest := time.Duration(half / r.Rate * float64(time.Second)).Truncate(10 * time.Millisecond)
		if longest >= fleet.LeastAttempt {
			r.Longest = longest.Seconds()
		}
	}
	for _, route := range m.f.Routes {
		if route.Timeout > m.f.Router.AttemptTimeout {
			r.Longer = append(r.Longer, route.Path)
		}
	}
	m.out.Router = r
	return nil
}

func (t *planText) router(c *planned) {
	r := c.Router
	t.heading("The router, if shards hang instead of dying")
	if r == nil {
		t.line("  not checked: it needs tenants with loads")
		return
	}
	state := "kept"
	if !r.Kept {
		state = "BROKEN"
	}
	t.line("  %s: %s to %s for %v each hold %s of the router's %d concurrent executions, of which less than half may be held", state,
		requestsText(r.Rate), several(r.Hang, 6), seconds(r.Attempt), grouped(r.Held), r.Reserved)
	if !r.Kept {
		fix := "reserve " + grouped(float64(r.Needed)) + " as router.reservedConcurrency"
		if r.Longest > 0 {
			fix += " or write router.attemptTimeout: " + seconds(r.Longest).String()
		}
		t.line("  fix  %s, or a mixture of both", fix)
	}
	if len(r.Longer) > 0 {
		t.line("  not counted: routes with a longer time-out of their own, %s", several(r.Longer, 6))
	}
}

func requestsText(rate float64) string { return grouped(rate) + " requests/s" }

func seconds(s float64) time.Duration { return time.Duration(math.Round(s*1000)) * time.Millisecond }
