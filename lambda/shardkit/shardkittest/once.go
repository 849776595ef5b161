package shardkittest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// process is a guard of its own over a store that it has in common with others, as another instance of the
// shard or another member of the subset has. What it does is never idempotent: each execution adds an item.
type process struct{ http.Handler }

// newProcess returns a process; inside is called in each execution, before its Commit.
func newProcess(t *testing.T, items shardkit.Items, began *int, mu *sync.Mutex, inside func()) process {
	t.Helper()
	guard, err := shardkit.NewGuard(shardkit.Config{Items: items, Shard: "s01", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return process{guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*began++
		n := *began
		mu.Unlock()
		inside()
		name := fmt.Sprintf("effect %d", n)
		answer := shardkit.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/" + fmt.Sprint(n)}}, Body: []byte(name)}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, answer, shardkit.Write{Key: name}); err != nil {
			shardkit.Fail(w, err)
		}
	}))}
}

// post sends a request with an idempotency key to the shard, and returns what came back.
func (p process) post(ctx context.Context, tenant string, epoch uint64, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/effects", strings.NewReader(body))
	r.Header.Set(shardkit.HeaderTenant, tenant)
	r.Header.Set(shardkit.HeaderEpoch, fmt.Sprint(epoch))
	r.Header.Set(shardkit.HeaderShard, "s01")
	r.Header.Set(shardkit.HeaderIdempotencyKey, key)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// effects are the tenant's items that are not records.
func (s Shard) effects(t *testing.T, tenant string) []string {
	t.Helper()
	keys, err := s.List(t.Context(), tenant, "effect")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// oneTransaction: a record is there when its effect is, and never otherwise.
func oneTransaction(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 4)
	var began int
	var mu sync.Mutex
	p := newProcess(t, s.Items, &began, &mu, func() {
		if began == 1 {
			s.hold(t, tenant, 5)
		}
	})
	if w := p.post(t.Context(), tenant, 4, "k", ""); w.Code != 421 || len(s.all(t, tenant)) != 0 {
		t.Errorf("answered %d when the tenant left, and there is %q", w.Code, s.all(t, tenant))
	}
	if w := p.post(t.Context(), tenant, 5, "k", ""); w.Code != 201 || len(s.effects(t, tenant)) != 1 || len(s.all(t, tenant)) != 2 {
		t.Errorf("answered %d, and there is %q", w.Code, s.all(t, tenant))
	}
}

const (
	sameKey   = 64 // requests with one key
	processes = 4  // that they are sent to
)

// once sends requests with one key at once, to several processes. All processes are at it before one of them
// commits: none can see that it is not the first.
func once(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 4)
	var began int
	var mu sync.Mutex
	var all []process
	var together sync.WaitGroup
	together.Add(processes)
	for range processes {
		var first sync.Once
		all = append(all, newProcess(t, s.Items, &began, &mu, func() { first.Do(together.Done); together.Wait() }))
	}
	answers := make([]*httptest.ResponseRecorder, sameKey)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			<-start
			answers[i] = all[i%processes].post(t.Context(), tenant, 4, "one key", "same body")
		})
	}
	close(start)
	wg.Wait()
	effects := s.effects(t, tenant)
	if len(effects) != 1 {
		t.Fatalf("%d requests with one key have the effects %q", sameKey, effects)
	}
	firsts, busy := 0, 0
	for _, w := range answers {
		replayed := w.Header().Get(shardkit.HeaderReplayed) == "true"
		switch {
		case w.Code == 201 && w.Body.String() == effects[0] && w.Header().Get("Location") == "/"+strings.TrimPrefix(effects[0], "effect "):
			if !replayed {
				firsts++
			}
		case w.Code == 409 && w.Header().Get("Retry-After") != "" && !replayed:
			busy++
		default:
			t.Errorf("answered %d %s with %v, and the effect is %q", w.Code, w.Body, w.Header(), effects[0])
		}
	}
	if firsts != 1 || began != processes {
		t.Errorf("%d of the answers are the first, of %d executions", firsts, began)
	}
	t.Logf("%d requests to %d processes: %d executed, %d answered that one is under way", sameKey, processes, began, busy)
	// Keys are the tenant's own.
	s.hold(t, "beta", 4)
	if w := all[0].post(t.Context(), "beta", 4, "one key", "another body"); w.Code != 201 || len(s.effects(t, "beta")) != 1 {
		t.Errorf("another tenant's request with the same key is answered %d", w.Code)
	}
}

// lossy is a store of whose answers to writes the next n are lost, after the write or before it.
type lossy struct {
	shardkit.Items
	after, before int
}

var errLost = errors.New("the answer was lost")

func (l *lossy) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	if l.before--; l.before >= 0 {
		return errLost
	}
	if err := l.Items.Write(ctx, tenant, epoch, writes...); err != nil {
		return err
	}
	if l.after--; l.after >= 0 {
		return errLost
	}
	return nil
}

// lostAnswer repeats requests, of which nobody knows whether they took effect, until they are answered.
func lostAnswer(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 4)
	var began int
	var mu sync.Mutex
	for i, c := range []struct{ before, after, executed int }{{0, 0, 1}, {0, 1, 1}, {1, 0, 2}, {1, 1, 2}, {3, 1, 4}, {0, 9, 1}} {
		was := began
		p := newProcess(t, &lossy{s.Items, c.after, c.before}, &began, &mu, func() {})
		key := fmt.Sprintf("key %d", i)
		tries, w := 0, &httptest.ResponseRecorder{}
		for ; w.Code != 201 && tries < 20; tries++ {
			if w = p.post(t.Context(), tenant, 4, key, ""); w.Code != 201 && w.Code != 503 {
				t.Fatalf("case %d: answered %d %s", i, w.Code, w.Body)
			}
		}
		if effects := s.effects(t, tenant); w.Code != 201 || len(effects) != i+1 || began-was != c.executed {
			t.Errorf("case %d: answered %d after %d tries and %d executions; the effects are %q", i, w.Code, tries, began-was, effects)
		}
		// A repeat that nobody needed changes nothing.
		again := p.post(t.Context(), tenant, 4, key, "")
		if again.Code != 201 || again.Body.String() != w.Body.String() || len(s.effects(t, tenant)) != i+1 {
			t.Errorf("case %d: repeated, answered %d %s", i, again.Code, again.Body)
		}
		if other := p.post(t.Context(), tenant, 4, key, "another body"); other.Code != 422 || len(s.effects(t, tenant)) != i+1 {
			t.Errorf("case %d: the key with another body is answered %d", i, other.Code)
		}
	}
}

// late: a first execution that hangs until a repeat elsewhere has finished fails, and its client gets what the
// repeat did.
func late(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 4)
	var began int
	var mu sync.Mutex
	var repeat, other *httptest.ResponseRecorder
	second := newProcess(t, s.Items, &began, &mu, func() {})
	first := newProcess(t, s.Items, &began, &mu, func() { repeat = second.post(t.Context(), tenant, 4, "k", "body") })
	w := first.post(t.Context(), tenant, 4, "k", "body")
	effects := s.effects(t, tenant)
	if len(effects) != 1 || began != 2 || repeat.Code != 201 || w.Code != 201 || w.Body.String() != repeat.Body.String() || w.Body.String() != effects[0] {
		t.Errorf("%d executions have the effects %q; the first is answered %d %s, the repeat %d %s", began, effects, w.Code, w.Body, repeat.Code, repeat.Body)
	}
	// Had another request used the key meanwhile, the late one is that other's reuse.
	first = newProcess(t, s.Items, &began, &mu, func() { other = second.post(t.Context(), tenant, 4, "l", "another body") })
	w = first.post(t.Context(), tenant, 4, "l", "body")
	if w.Code != 422 || other.Code != 201 || len(s.effects(t, tenant)) != 2 {
		t.Errorf("late, and the key another's: answered %d, the other %d; the effects are %q", w.Code, other.Code, s.effects(t, tenant))
	}
}
