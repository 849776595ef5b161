package localcell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/routing"
)

// maxCounted bounds the tenants that counters remember by name.
const maxCounted = 100_000

// Counters are what a local router counted since its process started. They name shards and tenants, and
// are for the operator only.
type Counters struct {
	Requests  int64                   `json:"requests"`  // answered, in whatever way
	Refused   int64                   `json:"refused"`   // by the router itself, without asking a shard
	Failures  int64                   `json:"failures"`  // no shard gave a usable answer, though the client waited for one
	Fallbacks int64                   `json:"fallbacks"` // requests for which a second shard was asked
	Shards    map[string]ShardCounter `json:"shards"`
	// FellBack is the number of fallbacks by tenant.
	FellBack map[string]int64 `json:"fellBack"`
	// Suspects are the tenants that were found to take down who serves them, with the number of times.
	Suspects map[string]int64 `json:"suspects,omitempty"`
	// SnapshotAge is how old the cell's snapshot in the router is, in seconds; nil when it has none. Of several
	// cells it is the oldest.
	SnapshotAge *float64 `json:"snapshotAge,omitempty"`
}

// ShardCounter is what one shard was asked.
type ShardCounter struct {
	Attempts int64 `json:"attempts"`
	Failures int64 `json:"failures"` // no answer, or 500, 502, 503, 504
	TimedOut int64 `json:"timedOut"` // of them, no answer in the time of an attempt
	NotSent  int64 `json:"notSent"`  // of them, refused: the shard's worker was not there, or takes no more
}

// counting collects Counters.
type counting struct {
	mu sync.Mutex
	c  Counters
}

func newCounting(shards []string) *counting {
	c := &counting{c: Counters{Shards: map[string]ShardCounter{}, FellBack: map[string]int64{}, Suspects: map[string]int64{}}}
	for _, id := range shards {
		c.c.Shards[id] = ShardCounter{}
	}
	return c
}

// observe is told of each request by the engine.
func (c *counting) observe(o routing.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c.Requests++
	for _, a := range o.Attempts {
		shard := c.c.Shards[a.Shard]
		shard.Attempts++
		if unusable(a) {
			shard.Failures++
		}
		if errors.Is(a.Err, context.DeadlineExceeded) && !a.Left {
			shard.TimedOut++
		}
		if errors.Is(a.Err, routing.ErrNotSent) && unusable(a) {
			shard.NotSent++
		}
		c.c.Shards[a.Shard] = shard
	}
	switch n := len(o.Attempts); {
	case o.Left: // nobody was refused, or failed
	case n == 0:
		c.c.Refused++
	case unusable(o.Attempts[n-1]):
		c.c.Failures++
	}
	if o.Fallbacks > 0 {
		c.c.Fallbacks++
		if _, known := c.c.FellBack[o.Tenant]; known || len(c.c.FellBack) < maxCounted {
			c.c.FellBack[o.Tenant]++
		}
	}
}

// suspect counts a verdict on a tenant.
func (c *counting) suspect(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.c.Suspects[tenant]; known || len(c.c.Suspects) < maxCounted {
		c.c.Suspects[tenant]++
	}
}

func unusable(a routing.Attempt) bool {
	switch a.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return a.Err != nil && !a.Left
}

// snapshot is a copy of the counters as they are.
func (c *counting) snapshot() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.c
	s.Shards, s.FellBack, s.Suspects = maps.Clone(s.Shards), maps.Clone(s.FellBack), maps.Clone(s.Suspects)
	return s
}

// Counters asks the router what it counted. Of several cells it is the sum, with shards by their processes'
// names.
func (r *Running) Counters(ctx context.Context) (Counters, error) {
	if len(r.Cells) == 0 {
		return counters(ctx, r.Admin, r.Secret)
	}
	sum := Counters{Shards: map[string]ShardCounter{}, FellBack: map[string]int64{}, Suspects: map[string]int64{}}
	for _, cell := range r.Cells {
		c, err := counters(ctx, cell.Admin, r.Secret)
		if err != nil {
			return Counters{}, fmt.Errorf("cell %s: %w", cell.Cell, err)
		}
		sum.Requests += c.Requests
		sum.Refused += c.Refused
		sum.Failures += c.Failures
		sum.Fallbacks += c.Fallbacks
		for shard, n := range c.Shards {
			sum.Shards[cell.Cell+"/"+shard] = n
		}
		for tenant, n := range c.FellBack {
			sum.FellBack[tenant] += n
		}
		for tenant, n := range c.Suspects {
			sum.Suspects[tenant] += n
		}
		if age := c.SnapshotAge; age != nil && (sum.SnapshotAge == nil || *age > *sum.SnapshotAge) {
			sum.SnapshotAge = age
		}
	}
	return sum, nil
}

func counters(ctx context.Context, admin, secret string) (c Counters, err error) {
	err = loopback.NewClient(admin, secret).Do(ctx, http.MethodGet, "/v1/counters", nil, &c)
	return c, err
}
