package shardkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// sent is a request as the router sends it; pairs are headers that replace the router's, "" for none.
func sent(pairs ...string) *http.Request {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set(routing.HeaderTenant, "acme")
	r.Header.Set(routing.HeaderEpoch, "4")
	r.Header.Set(routing.HeaderShard, "s01")
	r.Header.Set(shardkit.HeaderSecret, "secret")
	for i := 0; i < len(pairs); i += 2 {
		if r.Header.Del(pairs[i]); pairs[i+1] != "" {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
	return r
}

// guarded is a service behind a guard of shard s01.
func guarded(t testing.TB, c shardkit.Config, service http.HandlerFunc) http.Handler {
	c.Log = slog.New(slog.DiscardHandler)
	guard, err := shardkit.NewGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	return guard.Wrap(service)
}

func status(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestRouterOnly(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"as the router sends it": {nil, 200},
		"no secret":              {[]string{shardkit.HeaderSecret, ""}, 403},
		"wrong secret":           {[]string{shardkit.HeaderSecret, "Secret"}, 403},
		"beginning of secret":    {[]string{shardkit.HeaderSecret, "secre"}, 403},
		"no tenant":              {[]string{shardkit.HeaderTenant, ""}, 401},
		"tenant not encoded":     {[]string{shardkit.HeaderTenant, "a b"}, 401},
		"tenant encoded twice":   {[]string{shardkit.HeaderTenant, "%61cme"}, 401},
		"no epoch":               {[]string{shardkit.HeaderEpoch, ""}, 401},
		"epoch with a sign":      {[]string{shardkit.HeaderEpoch, "+4"}, 401},
		"epoch with a zero":      {[]string{shardkit.HeaderEpoch, "04"}, 401},
		"epoch with a space":     {[]string{shardkit.HeaderEpoch, " 4"}, 401},
		"epoch too high":         {[]string{shardkit.HeaderEpoch, "18446744073709551616"}, 401},
		"highest epoch":          {[]string{shardkit.HeaderEpoch, "18446744073709551615"}, 200},
		"no shard":               {[]string{shardkit.HeaderShard, ""}, 401},
		"another shard":          {[]string{shardkit.HeaderShard, "s02"}, 421},
	} {
		m := shardkit.NewMemory()
		m.Hold("acme", 4)
		asked := 0
		h := guarded(t, shardkit.Config{Items: m, Shard: "s01", Secret: "secret"}, func(_ http.ResponseWriter, r *http.Request) {
			asked++
			if who := shardkit.From(r.Context()); who.ID() != "acme" || who.Epoch() < 4 {
				t.Errorf("%s: from %q at %d", name, who.ID(), who.Epoch())
			}
		})
		if got := status(h, sent(c.headers...)); got != c.status || (asked == 1) != (c.status == 200) {
			t.Errorf("%s: answered %d, want %d; the service was asked %d times", name, got, c.status, asked)
		}
	}
	m := shardkit.NewMemory()
	m.Hold("acme", 4)
	h := guarded(t, shardkit.Config{Items: m, Shard: "s01", Secret: "secret"}, func(http.ResponseWriter, *http.Request) {
		t.Error("the service was asked")
	})
	for _, name := range []string{shardkit.HeaderTenant, shardkit.HeaderEpoch, shardkit.HeaderShard, shardkit.HeaderSecret} {
		r := sent()
		r.Header.Add(name, r.Header.Get(name))
		if got := status(h, r); got != 401 && got != 403 {
			t.Errorf("%s twice: answered %d", name, got)
		}
	}
	if shardkit.From(t.Context()) != nil {
		t.Error("a tenant without a guard")
	}
}

// TestHeldBefore: the service is not even asked, and so reads nothing either. What becomes of a change between
// the question and a write is package shardkittest's.
func TestHeldBefore(t *testing.T) {
	for _, c := range []struct {
		since  uint64 // 0: not held
		epoch  uint64
		status int
	}{{0, 4, 421}, {0, 0, 421}, {4, 3, 421}, {4, 4, 200}, {4, 5, 200}, {5, 4, 421}, {1, 1 << 63, 200}, {1 << 63, 1, 421}} {
		m := shardkit.NewMemory()
		m.Hold("other", 1)
		if c.since > 0 {
			m.Hold("acme", c.since)
		}
		asked := 0
		h := guarded(t, shardkit.Config{Items: m, Shard: "s01"}, func(http.ResponseWriter, *http.Request) { asked++ })
		if got := status(h, sent(routing.HeaderEpoch, fmt.Sprint(c.epoch))); got != c.status || (asked == 1) != (c.status == 200) {
			t.Errorf("held since %d, asked at %d: answered %d, want %d; the service was asked %d times", c.since, c.epoch, got, c.status, asked)
		}
	}
}

// TestHeadersAreTheRouters: both sides spell the headers alike, and agree on which tenants there are.
func TestHeadersAreTheRouters(t *testing.T) {
	if shardkit.HeaderTenant != routing.HeaderTenant || shardkit.HeaderEpoch != routing.HeaderEpoch || shardkit.HeaderShard != routing.HeaderShard {
		t.Error("a header has another name")
	}
	for _, k := range []directory.Key{directory.HoldingKey("acme"), directory.SharedHoldingKey("acme", "s01")} {
		if !strings.HasPrefix(k.Sort, shardkit.Reserved) || shardkit.Check(shardkit.Write{Key: k.Sort}) == nil {
			t.Errorf("a service may write %q", k.Sort)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		header := rapid.OneOf(
			rapid.Map(rapid.String(), routing.EncodeTenant),
			rapid.Map(rapid.StringN(0, 140, 140), routing.EncodeTenant),
			rapid.StringMatching(`([a-z~%]|%[0-9A-Fa-f]{2}){0,12}`),
		).Draw(t, "header")
		want, err := routing.DecodeTenant(header)
		got := ""
		guard, guardErr := shardkit.NewGuard(shardkit.Config{Items: shardkit.NewUnchecked(), Log: slog.New(slog.DiscardHandler)})
		if guardErr != nil {
			t.Fatal(guardErr)
		}
		code := status(guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = shardkit.From(r.Context()).ID()
		})), sent(shardkit.HeaderTenant, header))
		if (code == 200) != (err == nil) || got != want {
			t.Errorf("%q: answered %d, tenant %q; the router reads %q, %v", header, code, got, want, err)
		}
	})
}

// lossy is a store whose answers to writes are lost after the first n.
type lossy struct {
	*shardkit.Memory
	n int
}

func (l *lossy) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	err := l.Memory.Write(ctx, tenant, epoch, writes...)
	if l.n--; l.n < 0 && err == nil {
		return errors.New("the answer was lost")
	}
	return err
}

// TestNothingDone: 421 is answered only when nothing is done, of whatever many writes.
func TestNothingDone(t *testing.T) {
	for name, c := range map[string]struct {
		answers int // that are not lost
		letGo   int // before this write, from 0
		writes  int
		status  int
	}{
		"at once":                    {9, 0, 3, 421},
		"after one":                  {9, 1, 3, 503},
		"after one that may be done": {0, 1, 3, 503},
		"never":                      {9, 9, 3, 204},
		"never, and lost":            {0, 9, 1, 503},
	} {
		m := shardkit.NewMemory()
		m.Hold("acme", 4)
		h := guarded(t, shardkit.Config{Items: &lossy{m, c.answers}, Shard: "s01"}, func(w http.ResponseWriter, r *http.Request) {
			var last error
			for i := range c.writes {
				if i == c.letGo {
					m.Release("acme", 4)
				}
				last = shardkit.From(r.Context()).Write(r.Context(), shardkit.Write{Key: fmt.Sprint(i)})
			}
			if last != nil {
				shardkit.Fail(w, last)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
		got := status(h, sent())
		keys, err := m.List(t.Context(), "acme", "")
		if got != c.status || err != nil || got == 421 && len(keys) > 0 {
			t.Errorf("%s: answered %d, want %d; written %q, %v", name, got, c.status, keys, err)
		}
	}
}

// mute is a store that does not answer.
type mute struct{ *shardkit.Memory }

func (mute) Held(context.Context, string) (uint64, bool, error) {
	return 9, true, errors.New("secret detail")
}

func TestAStoreThatDoesNotAnswer(t *testing.T) {
	h := guarded(t, shardkit.Config{Items: mute{}}, func(http.ResponseWriter, *http.Request) { t.Error("the service was asked") })
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, sent()); w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if _, err := shardkit.NewGuard(shardkit.Config{}); err == nil {
		t.Error("a guard without a store")
	}
}

// TestFail: each error has its answer, which names nobody and is no cache's.
func TestFail(t *testing.T) {
	for err, want := range map[error]int{
		fmt.Errorf("x: %w", shardkit.ErrNotHeld): 421, fmt.Errorf("x: %w", shardkit.ErrLetGo): 503,
		fmt.Errorf("x: %w", shardkit.ErrInvalid): 400, errors.New("secret"): 503, context.Canceled: 503,
	} {
		w := httptest.NewRecorder()
		shardkit.Fail(w, err)
		var problem struct {
			Type, Title, Detail string
			Status              int
		}
		if jsonErr := json.Unmarshal(w.Body.Bytes(), &problem); jsonErr != nil || problem.Status != want || problem.Title == "" || problem.Detail == "" || strings.Contains(problem.Detail, "secret") {
			t.Errorf("%v: %s, %v", err, w.Body, jsonErr)
		}
		if w.Code != want || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%v: answered %d with %v, want %d", err, w.Code, w.Header(), want)
		}
	}
}
