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
	"testing/synctest"
	"time"

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

// TestInTime: by the bubble's clock, what comes too late is not begun, and what is begun ends in time.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := holding("acme")
		h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: r.Header.Get(shardkit.HeaderDeadline)}); err != nil {
				shardkit.Fail(w, err)
			}
		})
		at := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMilli()) }
		for name, c := range map[string]struct {
			header func() string
			status int
		}{
			"in time":   {func() string { return at(2 * time.Second) }, 200},
			"over":      {func() string { return at(0) }, 504},
			"long over": {func() string { return "1" }, 504},
			"meanwhile": {func() string { return at(time.Second / 2) }, 503},
			"no number": {func() string { return "soon" }, 400},
			"too large": {func() string { return "9223372036854775808" }, 400},
		} {
			before, _ := m.List(t.Context(), "acme", "")
			got := status(h, sent(shardkit.HeaderDeadline, c.header()))
			after, _ := m.List(t.Context(), "acme", "")
			if got != c.status || (len(after) > len(before)) != (got == 200) {
				t.Errorf("%s: answered %d, want %d; written %q", name, got, c.status, after)
			}
		}
		twice := sent(shardkit.HeaderDeadline, at(time.Minute))
		twice.Header.Add(shardkit.HeaderDeadline, at(time.Minute))
		if got := status(h, twice); got != 400 {
			t.Errorf("two deadlines: answered %d", got)
		}
	})
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
	if shardkit.HeaderTenant != routing.HeaderTenant || shardkit.HeaderEpoch != routing.HeaderEpoch || shardkit.HeaderShard != routing.HeaderShard || shardkit.HeaderDeadline != routing.HeaderDeadline {
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

// lossy is a store whose answers to writes are lost.
type lossy struct{ *shardkit.Memory }

func (l lossy) Write(ctx context.Context, tenant string, epoch uint64, writes ...shardkit.Write) error {
	if err := l.Memory.Write(ctx, tenant, epoch, writes...); err != nil {
		return err
	}
	return errors.New("the answer was lost")
}

var ok = shardkit.Answer{Status: http.StatusOK, Body: []byte("done")}

// TestNothingDone: 421 is answered only when nothing is done, whatever the service tries.
func TestNothingDone(t *testing.T) {
	a, b := shardkit.Write{Key: "a"}, shardkit.Write{Key: "b"}
	type try struct {
		writes []shardkit.Write
		want   error // nil: any
	}
	lost := errors.New("any")
	for name, c := range map[string]struct {
		lossy   bool
		leaves  int // the tenant, before this try, from 0
		tries   []try
		status  int
		written int
		silent  int // status where the service says nothing, when it is another one
	}{
		"at once":                     {false, 0, []try{{[]shardkit.Write{a}, shardkit.ErrNotHeld}}, 421, 0, 0},
		"at once, lost":               {true, 0, []try{{[]shardkit.Write{a}, shardkit.ErrNotHeld}}, 421, 0, 0},
		"twice":                       {false, 0, []try{{[]shardkit.Write{a}, shardkit.ErrNotHeld}, {[]shardkit.Write{b}, shardkit.ErrNotHeld}}, 421, 0, 0},
		"after a commit":              {false, 1, []try{{[]shardkit.Write{a}, nil}, {[]shardkit.Write{b}, shardkit.ErrEnded}}, 200, 1, 0},
		"after a commit that may be":  {true, 1, []try{{[]shardkit.Write{a}, lost}, {[]shardkit.Write{b}, shardkit.ErrEnded}}, 500, 1, 503},
		"after an answer":             {false, 1, []try{{nil, nil}, {[]shardkit.Write{b}, shardkit.ErrEnded}}, 200, 0, 0},
		"after one that is not valid": {false, 1, []try{{[]shardkit.Write{{}}, shardkit.ErrInvalid}, {[]shardkit.Write{b}, shardkit.ErrNotHeld}}, 421, 0, 0},
		"after one that finds other":  {false, 1, []try{{[]shardkit.Write{{Key: "a", Was: []byte("x")}}, shardkit.ErrChanged}, {[]shardkit.Write{b}, shardkit.ErrNotHeld}}, 421, 0, 0},
		"never, and one finds other":  {false, 9, []try{{[]shardkit.Write{{Key: "a", Was: []byte("x")}}, shardkit.ErrChanged}, {[]shardkit.Write{b}, nil}}, 200, 1, 0},
		"never":                       {false, 9, []try{{[]shardkit.Write{a, b}, nil}}, 200, 2, 0},
		"never, and lost":             {true, 9, []try{{[]shardkit.Write{a, b}, lost}}, 503, 2, 0},
	} {
		for _, silent := range []bool{false, true} { // who says nothing has not done it
			m := shardkit.NewMemory()
			m.Hold("acme", 4)
			var items shardkit.Items = m
			if c.lossy {
				items = lossy{m}
			}
			h := guarded(t, shardkit.Config{Items: items, Shard: "s01"}, func(w http.ResponseWriter, r *http.Request) {
				var last error
				for i, try := range c.tries {
					if i == c.leaves {
						m.Release("acme", 4)
					}
					last = shardkit.From(r.Context()).Commit(r.Context(), w, ok, try.writes...)
					if (last == nil) != (try.want == nil) || try.want != lost && !errors.Is(last, try.want) {
						t.Errorf("%s: commit %d ends with %v, want %v", name, i, last, try.want)
					}
				}
				if last != nil && !silent {
					shardkit.Fail(w, last)
				}
			})
			got := status(h, sent())
			if silent && c.silent != 0 {
				c.status = c.silent
			}
			keys, err := m.List(t.Context(), "acme", "")
			if got != c.status || err != nil || len(keys) != c.written {
				t.Errorf("%s, silent %t: answered %d, want %d; written %q, %v", name, silent, got, c.status, keys, err)
			}
		}
	}
}

// TestNewerEpoch: a 421 says since when the shard holds the tenant, if it does.
func TestNewerEpoch(t *testing.T) {
	for name, c := range map[string]struct {
		before, inside func(*shardkit.Memory)
		epoch          string
	}{
		"not held":           {func(*shardkit.Memory) {}, nil, ""},
		"held since":         {func(m *shardkit.Memory) { m.Hold("acme", 7) }, nil, "7"},
		"held since, inside": {func(m *shardkit.Memory) { m.Hold("acme", 4) }, func(m *shardkit.Memory) { m.Hold("acme", 9) }, "9"},
		"let go of, inside":  {func(m *shardkit.Memory) { m.Hold("acme", 4) }, func(m *shardkit.Memory) { m.Release("acme", 4) }, ""},
	} {
		m := shardkit.NewMemory()
		c.before(m)
		h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
			c.inside(m)
			if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: "a"}); err != nil {
				shardkit.Fail(w, err)
			}
		})
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, sent()); w.Code != 421 || w.Header().Get(shardkit.HeaderEpoch) != c.epoch {
			t.Errorf("%s: answered %d with epoch %q, want %q", name, w.Code, w.Header().Get(shardkit.HeaderEpoch), c.epoch)
		}
	}
}

// emptyNil is a store that reads an empty value as nil.
type emptyNil struct{ *shardkit.Memory }

func (emptyNil) Get(context.Context, string, string) ([]byte, bool, error) { return nil, true, nil }

// TestWhatIsFoundIsNotNil: as a Write's Was, nil would be no condition at all.
func TestWhatIsFoundIsNotNil(t *testing.T) {
	m := holding("acme")
	if err := m.Write(t.Context(), "acme", 4, shardkit.Write{Key: "a", Value: []byte("another's")}); err != nil {
		t.Fatal(err)
	}
	status(guarded(t, shardkit.Config{Items: emptyNil{m}}, func(w http.ResponseWriter, r *http.Request) {
		was, found, err := shardkit.From(r.Context()).Get(r.Context(), "a")
		if was == nil || !found || err != nil {
			t.Errorf("%v, %t, %v", was, found, err)
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: "a", Was: was}); !errors.Is(err, shardkit.ErrChanged) {
			t.Errorf("written over: %v", err)
		}
	}), sent())
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
		fmt.Errorf("x: %w", shardkit.ErrNotHeld): 421, fmt.Errorf("x: %w", shardkit.ErrEnded): 500, shardkit.ErrAnswer: 500, fmt.Errorf("x: %w", shardkit.ErrChanged): 409,
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
