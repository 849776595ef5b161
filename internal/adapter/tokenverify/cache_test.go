package tokenverify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/routing"
)

// TestRememberedTokensEndAsOthers: what remembers and what does not say the same at any time, forwards and back.
func TestRememberedTokensEndAsOthers(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	remembers, c := verifier(t, i, nil)
	forgets, d := verifier(t, i, func(c *Config) { c.Remember = -1 })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var tokens []string
	for n := range 6 {
		until := time.Duration(n) * 40 * time.Second
		tokens = append(tokens, sign(t, jose.RS256, key, payload(i, "exp", at(until), "nbf", at(until-100*time.Second), "iat", "")))
	}
	for range 400 {
		when := time.Duration(random.Int64N(int64(400*time.Second))) - 180*time.Second
		when = when.Round([]time.Duration{1, time.Second, 20 * time.Second}[random.IntN(3)])
		c.nanos.Store(int64(when))
		d.nanos.Store(int64(when))
		token := tokens[random.IntN(len(tokens))]
		a, errA := remembers.Verify(t.Context(), token)
		b, errB := forgets.Verify(t.Context(), token)
		if a != b || fmt.Sprint(errA) != fmt.Sprint(errB) {
			t.Fatalf("at %v: remembered %q, %v; afresh %q, %v", when, a, errA, b, errB)
		}
	}
	if remembers.seen.size() == 0 || forgets.seen.size() != 0 {
		t.Errorf("remembers %d and %d tokens", remembers.seen.size(), forgets.seen.size())
	}
}

// TestExpiryWithinTheSkew says the instants.
func TestExpiryWithinTheSkew(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, c := verifier(t, i, nil)
	token := sign(t, jose.RS256, key, payload(i, "exp", at(time.Minute)))
	for _, test := range []struct {
		after time.Duration
		good  bool
	}{{0, true}, {time.Minute - 1, true}, {time.Minute, true}, {2*time.Minute - 1, true}, {2 * time.Minute, false}, {time.Hour, false}} {
		c.nanos.Store(int64(test.after))
		if _, err := v.Verify(t.Context(), token); (err == nil) != test.good || err != nil && !errors.Is(err, routing.ErrToken) {
			t.Errorf("after %v: %v", test.after, err)
		}
		_, remembered := v.seen.get(sha256.Sum256([]byte(token)), c.now(), v.keys.current().generation)
		if want := test.after < time.Minute; remembered != want {
			t.Errorf("after %v: remembered is %v", test.after, remembered)
		}
	}
}

// TestCacheIsBounded: whatever is put in, no more than its size stays, and what is asked for stays longest.
func TestCacheIsBounded(t *testing.T) {
	c := newCache(100)
	name := func(n int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, n)) }
	until := start.Add(time.Hour)
	for n := range 10_000 {
		c.put(name(n), verdict{tenant: fmt.Sprint(n), until: until.UnixMilli()})
		if c.size() > 100 {
			t.Fatalf("%d verdicts after %d", c.size(), n+1)
		}
		if tenant, ok := c.get(name(0), start, 0); !ok || tenant != "0" {
			t.Fatalf("after %d others the token in use is forgotten", n)
		}
	}
	if tenant, ok := c.get(name(9_999), start, 0); !ok || tenant != "9999" {
		t.Error("the last is forgotten")
	}
	if _, ok := c.get(name(5_000), start, 0); ok {
		t.Error("one of long ago is remembered")
	}
}

// TestRefusedTokensAreNotRemembered: a flood of them takes no memory.
func TestRefusedTokensAreNotRemembered(t *testing.T) {
	key := rsaKey(t, "k1")
	i := newLogin(t, key)
	v, _ := verifier(t, i, nil)
	for n := range 10 {
		if _, err := v.Verify(t.Context(), sign(t, jose.RS256, key, payload(i, "aud", fmt.Sprintf(`"other-%d"`, n)))); err == nil {
			t.Fatal("accepted")
		}
	}
	if v.seen.size() != 0 {
		t.Errorf("%d are remembered", v.seen.size())
	}
}

// TestKeyTakenBackIsForgottenByTheCache: a remembered token is good no longer than its key.
func TestKeyTakenBackIsForgottenByTheCache(t *testing.T) {
	old, fresh := rsaKey(t, "k1"), rsaKey(t, "k2")
	i := newLogin(t, old)
	v, c := verifier(t, i, nil)
	token := sign(t, jose.RS256, old, payload(i))
	for range 2 {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	// A key more forgets nothing.
	i.publish(old, fresh)
	c.pass(maxAge + 1)
	before := v.keys.current().generation
	v.Verify(t.Context(), token)
	settle(v)
	if after := v.keys.current(); after.generation != before || len(after.keys) != 2 {
		t.Fatalf("generation %d became %d with %d keys", before, after.generation, len(after.keys))
	}
	i.publish(fresh)
	c.pass(maxAge + 1)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatalf("while the keys are fetched: %v", err)
	}
	settle(v)
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, routing.ErrToken) {
		t.Errorf("remembered token of a key that was taken back: %v", err)
	}
}

// settle waits for the fetch that is under way.
func settle(v *Verifier) {
	v.keys.mu.Lock()
	running := v.keys.running
	v.keys.mu.Unlock()
	if running != nil {
		<-running
	}
}

func BenchmarkVerifyRemembered(b *testing.B) {
	key := rsaKey(b, "k1")
	i := newLogin(b, key)
	v, _ := verifier(b, i, nil)
	token := sign(b, jose.RS256, key, payload(i))
	if _, err := v.Verify(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyAfresh(b *testing.B) {
	key := rsaKey(b, "k1")
	i := newLogin(b, key)
	v, _ := verifier(b, i, func(c *Config) { c.Remember = -1 })
	token := sign(b, jose.RS256, key, payload(i))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
