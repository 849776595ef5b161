package shardkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// keyed is a request as the router sends it, with an idempotency key.
func keyed(method, target, key, body string, pairs ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header = sent(pairs...).Header
	r.Header.Set(shardkit.HeaderIdempotencyKey, key)
	return r
}

// counter is a service that answers with how often it was asked, which it keeps.
func counter(t testing.TB, items shardkit.Items) (h http.Handler, asked *int) {
	asked = new(int)
	return guarded(t, shardkit.Config{Items: items, Shard: "s01"}, func(w http.ResponseWriter, r *http.Request) {
		*asked++
		n := fmt.Sprint(*asked)
		answer := shardkit.Answer{Status: 201, Header: http.Header{"Location": {"/" + n}}, Body: []byte(n)}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, answer, shardkit.Write{Key: "effect " + n}); err != nil {
			shardkit.Fail(w, err)
		}
	}), asked
}

func holding(tenants ...string) *shardkit.Memory {
	m := shardkit.NewMemory()
	for _, t := range tenants {
		m.Hold(t, 4)
	}
	return m
}

// TestBoundToTheRequest: of what a key is bound to, each part alone makes another request.
func TestBoundToTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		method, target, body, tenant string
		status                       int
	}{
		"same":           {"POST", "/a?b=c", "d", "acme", 201},
		"method":         {"PATCH", "/a?b=c", "d", "acme", 422},
		"PUT":            {"PUT", "/a?b=c", "d", "acme", 422},
		"path":           {"POST", "/b?b=c", "d", "acme", 422},
		"path's escapes": {"POST", "/%61?b=c", "d", "acme", 422},
		"query":          {"POST", "/a?b=d", "d", "acme", 422},
		"query's order":  {"POST", "/a?b=c&", "d", "acme", 422},
		"no query":       {"POST", "/a", "d", "acme", 422},
		"body":           {"POST", "/a?b=c", "D", "acme", 422},
		"no body":        {"POST", "/a?b=c", "", "acme", 422},
		"longer body":    {"POST", "/a?b=c", "d\n", "acme", 422},
		"another tenant": {"POST", "/b", "e", "beta", 201},
	} {
		m := holding("acme", "beta")
		h, asked := counter(t, m)
		if got := status(h, keyed("POST", "/a?b=c", "k", "d")); got != 201 {
			t.Fatalf("answered %d", got)
		}
		got := status(h, keyed(c.method, c.target, "k", c.body, shardkit.HeaderTenant, c.tenant))
		effects, err := m.List(t.Context(), "acme", "effect")
		if got != c.status || err != nil || len(effects) != 1 || (*asked == 2) != (c.tenant == "beta") {
			t.Errorf("%s: answered %d, want %d; the service was asked %d times", name, got, c.status, *asked)
		}
	}
}

// TestRecordKeysAndFingerprintsAreSpelledSo: other languages write them, too.
func TestRecordKeysAndFingerprintsAreSpelledSo(t *testing.T) {
	m := holding("acme")
	h, _ := counter(t, m)
	if got := status(h, keyed("POST", "/orders?a=b", `"8e03978e"`, "hello")); got != 201 {
		t.Fatalf("answered %d", got)
	}
	keys, err := m.List(t.Context(), "acme", shardkit.Records)
	// printf %s '"8e03978e"' | sha256sum | xxd -r -p | base32 | tr -d = | tr A-Z a-z
	const want = shardkit.Records + "dwpf6vqcatrxzs2g7wdzv7wqyneahyatgapoxs3rqepjduqsrjba"
	if err != nil || len(keys) != 1 || keys[0] != want {
		t.Fatalf("records %q, %v; want %q", keys, err, want)
	}
	value, _, _ := m.Get(t.Context(), "acme", keys[0])
	var r map[string]any
	if err := json.Unmarshal(value, &r); err != nil {
		t.Fatal(err)
	}
	// printf 'POST\n/orders\na=b\n%s' "$(printf hello | sha256sum | cut -c1-64)" | sha256sum
	if r["request"] != "4af6e7a6cdfba0acf448f631af2df970e04a73865add37b3df81ffdc9b4a395b" || r["status"] != 201.0 || r["body"] != "MQ==" {
		t.Errorf("the record is %s", value)
	}
}

// TestReplayed: of whatever answer, a repeat gets all.
func TestReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		answer := shardkit.Answer{
			Status: rapid.SampledFrom([]int{200, 201, 202, 204, 303, 400, 404, 409, 422, 499}).Draw(rt, "status"),
			Header: http.Header{},
		}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"Location", "X-A", "ETag", "Set-Cookie", "Content-Type"}), rapid.ID).Draw(rt, "names") {
			answer.Header[http.CanonicalHeaderKey(name)] = rapid.SliceOfN(rapid.StringMatching(`[ -~äöü]{0,20}`), 1, 3).Draw(rt, name)
		}
		if answer.Status != 204 {
			answer.Body = rapid.SliceOf(rapid.Byte()).Draw(rt, "body")
		}
		asked := 0
		h := guarded(t, shardkit.Config{Items: holding("acme")}, func(w http.ResponseWriter, r *http.Request) {
			asked++
			if err := shardkit.From(r.Context()).Commit(r.Context(), w, answer, shardkit.Write{Key: "a"}); err != nil {
				rt.Fatal(err)
			}
		})
		var got [3]*httptest.ResponseRecorder
		for i := range got {
			got[i] = httptest.NewRecorder()
			h.ServeHTTP(got[i], keyed("POST", "/", "k", "b"))
		}
		for i, w := range got[1:] {
			if w.Header().Get(shardkit.HeaderReplayed) != "true" || got[0].Header().Get(shardkit.HeaderReplayed) != "" {
				rt.Errorf("repeat %d is marked %q, the first %q", i, w.Header().Get(shardkit.HeaderReplayed), got[0].Header().Get(shardkit.HeaderReplayed))
			}
			w.Header().Del(shardkit.HeaderReplayed)
			same := maps.EqualFunc(w.Header(), got[0].Header(), func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") })
			if asked != 1 || w.Code != answer.Status || w.Body.String() != string(answer.Body) || !same {
				rt.Errorf("asked %d times, repeat %d: %d %q %q; first %d %q %q", asked, i, w.Code, w.Header(), w.Body, got[0].Code, got[0].Header(), got[0].Body)
			}
		}
	})
}

// TestKeysThatAreNone: a sender that counts on a key is told that it has none.
func TestKeysThatAreNone(t *testing.T) {
	h, asked := counter(t, holding("acme"))
	for _, key := range []string{"", " ", "\t", "a\x00", "a\nb", "ä", strings.Repeat("k", 258)} {
		r := keyed("POST", "/", "", "")
		r.Header[shardkit.HeaderIdempotencyKey] = []string{key}
		if got := status(h, r); got != 400 || *asked != 0 {
			t.Errorf("%q: answered %d, asked %d times", key, got, *asked)
		}
	}
	r := keyed("POST", "/", "a", "")
	r.Header.Add(shardkit.HeaderIdempotencyKey, "a")
	if got := status(h, r); got != 400 || *asked != 0 {
		t.Errorf("two: answered %d, asked %d times", got, *asked)
	}
	for i, key := range []string{"k", `"k"`, "!~ ~!", strings.Repeat("k", 257)} { // each another one
		if got := status(h, keyed("POST", "/", key, "")); got != 201 || *asked != i+1 {
			t.Errorf("%q: answered %d, asked %d times", key, got, *asked)
		}
	}
	if got := status(h, keyed("POST", "/", " k\t", "")); got != 201 || *asked != 4 {
		t.Errorf("a key in spaces is another one: answered %d, asked %d times", got, *asked)
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} { // which may be repeated anyway
		before := *asked
		if got := status(h, keyed(method, "/", "k", "")); got != 201 || *asked != before+1 {
			t.Errorf("%s: answered %d, asked %d times", method, got, *asked-before)
		}
	}
}

// TestBodies: a keyed body is read up to a bound, and the service gets it whole.
func TestBodies(t *testing.T) {
	h := guarded(t, shardkit.Config{Items: holding("acme"), MaxBody: 10}, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(b)
	})
	for body, want := range map[string]int{"": 200, "0123456789": 200, "0123456789a": 413} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, keyed("POST", "/", "k", body))
		if w.Code != want || want == 200 && w.Body.String() != body {
			t.Errorf("%q: answered %d %q", body, w.Code, w.Body)
		}
	}
	if got := status(h, httptest.NewRequest("POST", "/", strings.NewReader("0123456789a"))); got != 401 {
		t.Errorf("without a tenant: %d", got)
	}
	r := keyed("POST", "/", "k", "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("a"), brokenBody{}))
	if got := status(h, r); got != 400 {
		t.Errorf("a body that breaks off: %d", got)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestUnderWay: while a request is under way in this process its repeat waits elsewhere, and another one under
// its key is refused.
func TestUnderWay(t *testing.T) {
	m := holding("acme", "beta")
	began, end := make(chan struct{}), make(chan struct{})
	h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" && r.Header.Get(shardkit.HeaderTenant) == "acme" {
			close(began)
			<-end
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: "a"}); err != nil {
			t.Error(err)
		}
	})
	first := make(chan int)
	go func() { first <- status(h, keyed("POST", "/slow", "k", "b")) }()
	<-began
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, keyed("POST", "/slow", "k", "b")); w.Code != 409 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a repeat: %d %v", w.Code, w.Header())
	}
	if got := status(h, keyed("POST", "/slow", "k", "c")); got != 422 {
		t.Errorf("another body: %d", got)
	}
	if got := status(h, keyed("POST", "/slow", "k", "b", shardkit.HeaderTenant, "beta")); got != 200 {
		t.Errorf("another tenant: %d", got)
	}
	if got := status(h, keyed("POST", "/fast", "l", "b")); got != 200 {
		t.Errorf("another key: %d", got)
	}
	close(end)
	if got := <-first; got != 200 {
		t.Errorf("the first: %d", got)
	}
	if got := status(h, keyed("POST", "/slow", "k", "b")); got != 200 {
		t.Errorf("afterwards: %d", got)
	}
}

// TestAPanicEndsTheFlight: what broke can be asked again.
func TestAPanicEndsTheFlight(t *testing.T) {
	asked := 0
	h := guarded(t, shardkit.Config{Items: holding("acme")}, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			panic(http.ErrAbortHandler)
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok); err != nil {
			t.Error(err)
		}
	})
	func() {
		defer func() { _ = recover() }()
		status(h, keyed("POST", "/", "k", ""))
	}()
	if got := status(h, keyed("POST", "/", "k", "")); got != 200 || asked != 2 {
		t.Errorf("answered %d, asked %d times", got, asked)
	}
}

// TestOnlyEffectsAreRecorded: what was refused may be granted next time.
func TestOnlyEffectsAreRecorded(t *testing.T) {
	m := holding("acme")
	asked := 0
	h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			http.Error(w, "not yet", 400+asked)
			return
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok); err != nil { // writes nothing but the record
			t.Error(err)
		}
	})
	for i, want := range []int{401, 402, 200, 200} {
		if got := status(h, keyed("POST", "/", "k", "")); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	if keys, err := m.List(t.Context(), "acme", ""); err != nil || len(keys) != 1 || asked != 3 {
		t.Errorf("%q, %v; asked %d times", keys, err, asked)
	}
}

// TestRecordsAreTheKits: a service neither sees nor makes one.
func TestRecordsAreTheKits(t *testing.T) {
	m := holding("acme")
	forged := shardkit.Records + "x"
	h := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
		who := shardkit.From(r.Context())
		if _, _, err := who.Get(r.Context(), forged); !errors.Is(err, shardkit.ErrInvalid) {
			t.Errorf("read: %v", err)
		}
		if err := who.Commit(r.Context(), w, ok, shardkit.Write{Key: forged}); !errors.Is(err, shardkit.ErrInvalid) {
			t.Errorf("written: %v", err)
		}
		if err := who.Commit(r.Context(), w, ok, shardkit.Write{Key: "a"}); err != nil {
			t.Error(err)
		}
	})
	for _, key := range []string{"1", "2"} {
		status(h, keyed("POST", "/", key, ""))
	}
	list := guarded(t, shardkit.Config{Items: m}, func(w http.ResponseWriter, r *http.Request) {
		if keys, err := shardkit.From(r.Context()).List(r.Context(), ""); err != nil || len(keys) != 1 {
			t.Errorf("listed %q, %v", keys, err)
		}
	})
	status(list, sent())
	if all, err := m.List(t.Context(), "acme", ""); err != nil || len(all) != 3 {
		t.Errorf("the store has %q, %v", all, err)
	}
}

// TestRecordsEnd: by the bubble's clock, after 24 hours, and those of jobs after 15 days.
func TestRecordsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		job  string
		keep time.Duration
		days float64
	}{
		"request": {"", 0, 1}, "job": {"j1", 0, 15}, "shorter": {"", time.Hour, 1. / 24}, "longer": {"", 30 * 24 * time.Hour, 30},
		"job, shorter": {"j1", time.Hour, 15}, "job, longer": {"j1", 30 * 24 * time.Hour, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			h := guarded(t, shardkit.Config{Items: holding("acme"), Keep: c.keep}, func(w http.ResponseWriter, r *http.Request) {
				asked++
				if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok); err != nil {
					t.Error(err)
				}
			})
			request := func() int { return status(h, keyed("POST", "/", "k", "", shardkit.HeaderJob, c.job)) }
			request()
			time.Sleep(time.Duration(c.days*24*float64(time.Hour)) - 2*time.Second)
			if got := request(); got != 200 || asked != 1 {
				t.Errorf("%s, shortly before its end: %d, asked %d times", name, got, asked)
			}
			time.Sleep(4 * time.Second)
			if got := request(); got != 200 || asked != 2 {
				t.Errorf("%s, after its end: %d, asked %d times", name, got, asked)
			}
		})
	}
}

// unreadable is a store whose answers to questions for a record are lost.
type unreadable struct {
	*shardkit.Memory
	fail bool
}

func (u *unreadable) Get(ctx context.Context, tenant, key string) ([]byte, bool, error) {
	if u.fail {
		return nil, false, errors.New("secret detail")
	}
	return u.Memory.Get(ctx, tenant, key)
}

// TestWithoutAnAnswerNothingIsDone: neither of the store, nor one that is a record.
func TestWithoutAnAnswerNothingIsDone(t *testing.T) {
	u := &unreadable{holding("acme"), true}
	h, asked := counter(t, u)
	if got := status(h, keyed("POST", "/", "k", "")); got != 503 || *asked != 0 {
		t.Errorf("answered %d, asked %d times", got, *asked)
	}
	u.fail = false
	if got := status(h, keyed("POST", "/", "k", "")); got != 201 || *asked != 1 {
		t.Errorf("answered %d, asked %d times", got, *asked)
	}
	keys, _ := u.List(t.Context(), "acme", shardkit.Records)
	for _, damaged := range []string{"", "{}", `{"status":0}`, `{"status":421}x`, `[]`} {
		if err := u.Write(t.Context(), "acme", 4, shardkit.Write{Key: keys[0], Value: []byte(damaged)}); err != nil {
			t.Fatal(err)
		}
		if got := status(h, keyed("POST", "/", "k", "")); got != 503 || *asked != 1 {
			t.Errorf("%q: answered %d, asked %d times", damaged, got, *asked)
		}
	}
}

// TestLostRaceWithoutAnAnswer: the winner's record cannot be read, so the loser says that it does not know.
func TestLostRaceWithoutAnAnswer(t *testing.T) {
	u := &unreadable{Memory: holding("acme")}
	other, _ := counter(t, u)
	h := guarded(t, shardkit.Config{Items: u}, func(w http.ResponseWriter, r *http.Request) {
		status(other, keyed("POST", "/", "k", ""))
		u.fail = true
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok, shardkit.Write{Key: "late"}); err == nil {
			t.Error("committed")
		}
	})
	if got := status(h, keyed("POST", "/", "k", "")); got != 503 {
		t.Errorf("answered %d", got)
	}
	if _, found, _ := u.Memory.Get(t.Context(), "acme", "late"); found {
		t.Error("the loser took effect")
	}
}
