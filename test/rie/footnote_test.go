//go:build linux

package rie

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
)

// pool is the environments of one function, up to its reserved concurrency: an invocation is throttled when none is
// free. It takes the one that was free for the longest time, so that each of them has to learn of a bad shard for itself.
type pool struct {
	mu        sync.Mutex
	free      []*environment
	fewest    int // free at once
	throttled int
}

func (p *pool) take() *environment {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	p.fewest = min(p.fewest, max(n-1, 0))
	if n == 0 {
		p.throttled++
		return nil
	}
	e := p.free[0]
	p.free = p.free[1:]
	return e
}

func (p *pool) give(e *environment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, e)
}

// stage is the slices of a cell and the tenants that they hold.
type stage struct {
	*aws
	shards    []string
	subsets   map[string][]string // by tenant
	variables map[string]string   // of a router's environment
}

// newStage starts the slices of a cell of that many shards, two for each tenant. An attempt at one has so many seconds.
func newStage(t *testing.T, shards, tenants, attempt, reserved int) stage {
	a := newAWS(t)
	b := stage{aws: a, subsets: map[string][]string{}, variables: a.environment(routerVariables())}
	b.variables["CELLWALL_RULES"] = fmt.Sprintf(`{"attemptTimeout":"%ds","reserved":%d,"queue":true,"state":"cell","idempotencyKeys":true}`, attempt, reserved)
	a.secret = fmt.Sprintf(`{"1":%q}`, strings.Repeat("5a", 32))
	for n := range shards {
		b.shards = append(b.shards, fmt.Sprintf("s%02d", n+1))
	}
	top := topology(1, "1", b.shards...)
	a.publish(top)
	placer, err := top.Placer(bytes.Repeat([]byte{0x5a}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for n := range tenants {
		tenant := fmt.Sprintf("tenant-%02d", n)
		entry := directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1}
		a.enter(entry)
		if b.subsets[tenant], err = placer.Subset(entry); err != nil {
			t.Fatal(err)
		}
		for _, shard := range b.shards {
			a.hold(shard, tenant, 1)
		}
	}
	for _, shard := range b.shards {
		a.functions[cell.Shard(shard).WorkerAlias()] = start(t, "worker", a.environment(map[string]string{
			"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_SHARD": shard, "CELLWALL_TABLE": cell.Store(),
			"CELLWALL_SHARD_TABLE": cell.Shard(shard).Table(),
		}))
	}
	return b
}

// TestABadShardOnLambda: eight router environments, each of which serves one request at a time and knows nothing of
// the others, before the slices of eight shards with k = 2. One slice hangs, dies, throttles or answers 500, the first
// two of which after they have done what they were asked for. Every idempotent request is answered, keyed creates among
// them, which take effect once. The affected tenants' rate times the time-out of an attempt is less than half of the
// reservation, and so no router invocation is throttled.
func TestABadShardOnLambda(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 16 environments")
	}
	const (
		reserved, shards, tenants = 8, 8, 40
		every                     = 125 * time.Millisecond // between requests
		attempt                   = 1                      // second
	)
	const lasts = 5 * time.Second
	b := newStage(t, shards, tenants, attempt, reserved)
	a, ids, variables := b.aws, b.shards, b.variables
	affected := map[string]float64{} // requests a second of the tenants that have a shard
	for _, subset := range b.subsets {
		for _, shard := range subset {
			affected[cell.Shard(shard).WorkerAlias()] += float64(time.Second/every) / tenants
		}
	}

	// The shards whose tenants send the most, below what the reservation allows.
	share := func(shard string) float64 { return affected[cell.Shard(shard).WorkerAlias()] * attempt }
	mine := slices.DeleteFunc(ids, func(shard string) bool { return share(shard) >= reserved/2 })
	slices.SortFunc(mine, func(a, b string) int { return cmp.Compare(share(b), share(a)) })
	sent := 0
	for round, how := range []string{hung, dies, throttles, errs} {
		t.Run(how, func(t *testing.T) {
			bad := mine[round]
			alias := cell.Shard(bad).WorkerAlias()
			a.spoil(bad, how)
			a.takeInvoked()
			// Environments that know nothing: others may know of a shard that is quicker, and not ask the bad one.
			routers := &pool{fewest: reserved}
			for range reserved {
				routers.free = append(routers.free, start(t, "router", variables))
			}
			ask := &asking{T: t, aws: a, pool: routers}
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for range int(lasts / every) {
				<-ticker.C
				n := sent
				sent++
				ask.under.Go(func() { ask.one(n, fmt.Sprintf("tenant-%02d", n*7%tenants)) })
			}
			ask.under.Wait()
			a.spoil(bad, "")
			invoked := a.takeInvoked()
			t.Logf("%d requests: %d were answered, %d router invocations throttled, at least %d of %d environments free; %d attempts, %d of them at the bad slice, whose tenants send %.1f a second",
				ask.sent, ask.answered, routers.throttled, routers.fewest, reserved, len(invoked), count(invoked, alias), affected[alias])
			if routers.throttled > 0 || ask.answered != ask.sent || len(ask.written) == 0 || len(ask.created) == 0 {
				t.Errorf("%d router invocations were throttled; %d of %d requests answered", routers.throttled, ask.answered, ask.sent)
			}
			if count(invoked, alias) == 0 || len(invoked) > 2*ask.sent {
				t.Errorf("%d attempts at the bad slice: want some; %d attempts for %d requests: want two each at most", count(invoked, alias), len(invoked), ask.sent)
			}
			ask.audit()
		})
	}
}

// TestTwoBadShardsOnLambda: exactly the tenants whose subset the two slices are fail; everybody else is answered, by
// environments that know nothing and by those that have learned.
func TestTwoBadShardsOnLambda(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 10 environments")
	}
	const shards, tenants, routers = 8, 40, 2
	b := newStage(t, shards, tenants, 1, 100)
	covered := map[string]int{} // tenants by subset
	worst := ""
	for _, subset := range b.subsets {
		slices.Sort(subset)
		pair := strings.Join(subset, " ")
		if covered[pair]++; covered[pair] > covered[worst] || covered[pair] == covered[worst] && pair < worst {
			worst = pair
		}
	}
	for _, shard := range strings.Fields(worst) {
		b.spoil(shard, throttles)
	}
	var asked []*environment
	for range routers {
		asked = append(asked, start(t, "router", b.variables))
	}
	failed := 0
	for round := range 2 {
		for n := range tenants {
			tenant := fmt.Sprintf("tenant-%02d", n)
			method := []string{"GET", "PUT"}[n%2]
			code, answer, err := asked[n%routers].invoke(t.Context(), event(t, fmt.Sprintf(`{"tenant_id":%q}`, tenant), method, "/orders/one", "one"))
			resp, parseErr := awsevent.ParseAnswer(answer)
			if err != nil || parseErr != nil || code != http.StatusOK {
				t.Fatalf("%s: %d %s, %v, %v", tenant, code, answer, err, parseErr)
			}
			down := strings.Join(b.subsets[tenant], " ") == worst
			if down {
				failed++
			}
			if unserved := resp.Status >= http.StatusInternalServerError; unserved != down {
				t.Errorf("round %d: %s of %s on %v was answered %d while %s are down", round, method, tenant, b.subsets[tenant], resp.Status, worst)
			}
		}
	}
	t.Logf("%d of %d requests failed while %s were down", failed, 2*tenants, worst)
	if failed == 0 {
		t.Error("nobody was covered, so that this shows nothing")
	}
}

func count(names []string, name string) (n int) {
	for _, each := range names {
		if each == name {
			n++
		}
	}
	return n
}

// asking is one sending of requests.
type asking struct {
	*testing.T
	*aws
	*pool
	under sync.WaitGroup

	sums             sync.Mutex
	sent, answered   int
	written, created map[string]string // tenant by the value that it was acknowledged
}

// one sends a read, a write or a keyed create.
func (s *asking) one(n int, tenant string) {
	value := fmt.Sprintf("order-%d", n)
	var request []byte
	claims := fmt.Sprintf(`{"tenant_id":%q}`, tenant)
	switch n % 3 {
	case 0:
		request = event(s.T, claims, "GET", "/orders/none", "") // which is the answer
	case 1:
		request = event(s.T, claims, "PUT", "/orders/"+value, value)
	case 2:
		key, _ := json.Marshal(`"` + value + `"`)
		request = bytes.Replace(event(s.T, claims, "POST", "/orders", value), []byte(`"user-agent":`), fmt.Appendf(nil, `"idempotency-key":%s,"user-agent":`, key), 1)
	}
	s.sums.Lock()
	s.sent++
	s.sums.Unlock()
	router := s.take()
	if router == nil {
		return
	}
	status, answer, err := router.invoke(s.Context(), request)
	s.give(router)
	resp, parseErr := awsevent.ParseAnswer(answer)
	if err != nil || status != http.StatusOK || parseErr != nil || resp.Status > 299 && (n%3 > 0 || resp.Status != http.StatusNotFound) {
		s.Errorf("request %d of %s: %d %s, %v\n%s", n, tenant, status, answer, err, router.output)
		return
	}
	s.sums.Lock()
	defer s.sums.Unlock()
	s.answered++
	if s.written == nil {
		s.written, s.created = map[string]string{}, map[string]string{}
	}
	switch n % 3 {
	case 1:
		s.written[value] = tenant
	case 2:
		s.created[value] = tenant
	}
}

// audit looks in the cell's store for what was acknowledged.
func (s *asking) audit() {
	found := map[string][]string{} // tenants by value
	s.aws.mu.Lock()
	for at, item := range s.items {
		var order struct {
			PK    struct{ S string }
			SK    struct{ S string }
			Value struct{ B []byte }
		}
		if strings.HasPrefix(at, cell.Store()+" ") {
			if err := json.Unmarshal(item, &order); err != nil {
				s.Error(err)
			}
			if strings.HasPrefix(order.SK.S, "ORDER#") {
				found[string(order.Value.B)] = append(found[string(order.Value.B)], strings.TrimPrefix(order.PK.S, "TENANT#"))
			}
		}
	}
	s.aws.mu.Unlock()
	for what, acknowledged := range map[string]map[string]string{"write": s.written, "create": s.created} {
		for value, tenant := range acknowledged {
			if !slices.Equal(found[value], []string{tenant}) {
				s.Errorf("the %s %s of %s was acknowledged, and is there for %v", what, value, tenant, found[value])
			}
		}
	}
}
