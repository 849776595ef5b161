package routing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// TestRegressionCortex3571CrashesMoveNobody: a tenant whose shard crashed was given another, until every
// shard had crashed. Here every request of the tenant crashes its shard for a while, through every state
// that a record of health has, and it meets its own two and no other. So does every tenant beside it.
func TestRegressionCortex3571CrashesMoveNobody(t *testing.T) {
	top := topology(1, eight...)
	entries := fixed{"poison": at(1, "poison")}
	for i := range 40 {
		id := fmt.Sprintf("tenant-%02d", i)
		entries[id] = at(1, id)
	}
	clock := newClock()
	down := map[string]time.Time{} // until when a shard is
	asked := map[string]map[string]bool{}
	c := testConfig(entries, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		if asked[call.Tenant] == nil {
			asked[call.Tenant] = map[string]bool{}
		}
		asked[call.Tenant][call.Shard] = true
		if call.Tenant == "poison" {
			down[call.Shard] = clock.now().Add(10 * time.Second)
		}
		if clock.now().Before(down[call.Shard]) {
			return nil, errors.New("connection reset")
		}
		return ok(call.Shard), nil
	}))
	c.Topologies, c.Now, c.Pick = published{1: top}, clock.now, random(t)
	e := newEngine(t, c)
	refused := map[string]int{}
	for round := range 400 {
		for _, id := range slices.Sorted(maps.Keys(entries)) {
			if resp := e.Serve(t.Context(), id, get("/x")); resp.Status != 200 {
				refused[id]++
			}
		}
		clock.pass(time.Duration(round%50) * time.Second) // shorter and longer than every rest
	}
	hit := slices.Sorted(slices.Values(computed(t, top, entries["poison"])))
	if got := slices.Sorted(maps.Keys(down)); !slices.Equal(got, hit) {
		t.Errorf("%v crashed, want the tenant's own %v", got, hit)
	}
	if refused["poison"] != 400 {
		t.Errorf("%d of 400 requests that crash their shard were refused", refused["poison"])
	}
	shared, apart := 0, 0
	for id, e := range entries {
		subset := computed(t, top, e)
		for shard := range asked[id] {
			if !slices.Contains(subset, shard) {
				t.Errorf("%s was sent to %s, which is not of its %v", id, shard, subset)
			}
		}
		if id == "poison" {
			continue
		}
		lost := 0
		for _, shard := range subset {
			if slices.Contains(hit, shard) {
				lost++
			}
		}
		if lost < len(subset) && refused[id] > 0 {
			t.Errorf("%s of %v was refused %d times, with %v down", id, subset, refused[id], hit)
		}
		shared += min(lost, 1)
		if lost == 0 {
			apart++
		}
	}
	if shared == 0 || apart == 0 {
		t.Fatalf("%d tenants share a shard with the one that crashes them and %d do not: the test shows nothing", shared, apart)
	}
}

// poisoned lets a tenant take down its shards for ten seconds with each request, of which the router sees that
// error. It returns who is suspected how often, the verdicts, and for how many seconds of suspicion how many members
// were down.
func poisoned(t *testing.T, seen error) (suspected map[string]int, verdicts []poison.Verdict, hit map[int]int) {
	t.Helper()
	top := topology(1, eight...)
	entries := fixed{"poison": at(1, "poison")}
	for i := range 40 {
		id := fmt.Sprintf("tenant-%02d", i)
		entries[id] = at(1, id)
	}
	clock := newClock()
	down := map[string]time.Time{} // until when a shard is
	c := testConfig(entries, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		if call.Tenant == "poison" {
			down[call.Shard] = clock.now().Add(10 * time.Second)
		}
		if clock.now().Before(down[call.Shard]) {
			return nil, seen
		}
		return ok(call.Shard), nil
	}))
	c.Topologies, c.Now, c.Pick = published{1: top}, clock.now, random(t)
	c.Poison = poison.New(poison.Config{Now: clock.now, OnVerdict: func(v poison.Verdict) { verdicts = append(verdicts, v) }})
	suspected = map[string]int{}
	c.Observe = func(o Outcome) {
		if o.Poisoned {
			suspected[o.Tenant]++
		}
	}
	e := newEngine(t, c)
	hit = map[int]int{}
	for round := range 400 {
		for _, id := range slices.Sorted(maps.Keys(entries)) {
			if id != "poison" || round%20 == 0 {
				e.Serve(t.Context(), id, get("/x"))
			}
		}
		if e.config.Poison.Suspect("poison") {
			n := 0
			for _, until := range down {
				if clock.now().Before(until) {
					n++
				}
			}
			hit[n]++
		}
		clock.pass(time.Second)
	}
	return suspected, verdicts, hit
}

// TestAPoisonTenantIsFound, and nobody beside it: from then on one of its members is up.
func TestAPoisonTenantIsFound(t *testing.T) {
	suspected, verdicts, hit := poisoned(t, errors.New("connection reset"))
	if len(verdicts) == 0 || suspected["poison"] == 0 {
		t.Fatalf("400 s of a tenant that crashes its shards: %d verdicts, and %d requests kept from failing over", len(verdicts), suspected["poison"])
	}
	for _, v := range verdicts {
		if v.Tenant != "poison" {
			t.Errorf("verdict on %s: %+v", v.Tenant, v)
		}
	}
	if delete(suspected, "poison"); len(suspected) > 0 {
		t.Errorf("others are suspected: %v", suspected)
	}
	if hit[1] == 0 || hit[2] > 10*len(verdicts) { // the second is one that was down when a verdict came
		t.Errorf("while it is suspected, so many of its members are down for so many seconds: %v", hit)
	}
}

// TestWhatWasNotSentConvictsNobody: who was never asked cannot have been taken down by the asking.
func TestWhatWasNotSentConvictsNobody(t *testing.T) {
	for _, seen := range []error{ErrThrottled, fmt.Errorf("connection refused: %w", ErrNotSent), ErrTooLarge} {
		if suspected, verdicts, _ := poisoned(t, seen); len(verdicts) > 0 || len(suspected) > 0 {
			t.Errorf("%v: verdicts %+v", seen, verdicts)
		}
	}
}

// TestADrainedShardGoesByMigrationAlone: draining a crashed shard is a new version of the topology. Whoever
// has not been migrated keeps the members of the version that its entry names, and who has been, gets one
// other in the place of the one that was drained.
func TestADrainedShardGoesByMigrationAlone(t *testing.T) {
	one := topology(1, eight...)
	stays, moved := at(1, "acme"), at(2, "acme")
	before := computed(t, one, stays)
	two := topology(2, eight...)
	for i, s := range two.Shards {
		if s.ID == before[0] {
			two.Shards[i].State = directory.Drained
		}
	}
	serve := func(e directory.Entry) []string {
		asked := map[string]bool{}
		c := testConfig(fixed{"acme": e}, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			asked[call.Shard] = true
			return nil, errors.New("connection refused")
		}))
		clock := newClock()
		c.Topologies, c.Now, c.Pick = published{1: one, 2: two}, clock.now, random(t)
		engine := newEngine(t, c)
		for range 50 {
			engine.Serve(t.Context(), "acme", get("/x"))
			clock.pass(7 * time.Second)
		}
		return slices.Sorted(maps.Keys(asked))
	}
	if got, want := serve(stays), slices.Sorted(slices.Values(before)); !slices.Equal(got, want) {
		t.Errorf("on version 1, %v was asked, want %v", got, want)
	}
	got := serve(moved)
	if want := slices.Sorted(slices.Values(computed(t, two, moved))); !slices.Equal(got, want) {
		t.Errorf("on version 2, %v was asked, want %v", got, want)
	}
	if len(got) != 2 || slices.Contains(got, before[0]) || !slices.Contains(got, before[1]) {
		t.Errorf("on version 2, %v was asked; want %s and one in the place of %s", got, before[1], before[0])
	}
}
