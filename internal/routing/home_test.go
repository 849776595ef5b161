package routing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing/poison"
)

// TestHomeStays: a key's requests go to one member, whatever it answers and however the subset's health is; and
// what one service takes for one resource is one key.
func TestHomeStays(t *testing.T) {
	t.Run("one member", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			entry := drawEntry(t)
			entry.Pins = slices.DeleteFunc(entry.Pins, func(pin string) bool { return pin == "gone" })
			single := rapid.Bool().Draw(t, "single")
			tr := newTrial(t, fixed{"acme": entry}, func(c *Config) { c.State, c.Single = StateHome, single })
			at := map[string]string{}
			for range rapid.IntRange(1, 30).Draw(t, "requests") {
				tr.calls = nil
				key := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "key")
				path := "/" + key + rapid.SampledFrom([]string{"", "/items", "/items/7"}).Draw(t, "rest")
				if key == "" {
					path = "/"
				}
				tr.engine.Serve(context.Background(), "acme", &Request{Method: rapid.SampledFrom(methods).Draw(t, "method"), Path: path})
				for _, call := range tr.calls {
					if at[key] == "" {
						at[key] = call.Shard
					}
					if at[key] != call.Shard {
						t.Fatalf("%s was sent to %s, and before to %s", path, call.Shard, at[key])
					}
				}
				if len(tr.calls) > 1 && tr.fates[tr.calls[0].Shard].name != "does not hold" {
					t.Fatalf("sent %d times to a member that %s", len(tr.calls), tr.fates[tr.calls[0].Shard].name)
				}
			}
		})
	})
	t.Run("suspect", func(t *testing.T) {
		// A suspect's keys are where they are, too.
		watch := poison.New(poison.Config{})
		watch.Hold("acme", time.Now().Add(time.Hour))
		c := testConfig(fixed{"acme": pinned("acme", eight...)}, naming)
		c.State, c.Poison = StateHome, watch
		e := newEngine(t, c)
		for n := range 30 {
			key := fmt.Sprint(n)
			if resp := e.Serve(t.Context(), "acme", get("/"+key)); string(resp.Body) != home("acme", key, eight) {
				t.Errorf("key %s is answered by %s", key, resp.Body)
			}
		}
	})
	t.Run("full", func(t *testing.T) {
		// Its member is full: nobody else has the key.
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, naming)
		c.State = StateHome
		c.Shards = full{"s01", "s02"}.shards()
		resp := newEngine(t, c).Serve(t.Context(), "acme", get("/42"))
		wantProblem(t, resp, 503)
	})
	t.Run("spelling", func(t *testing.T) {
		orders := mustRoutes(t, way("/orders/*", ViaLambda), way("/status", ViaLambda), way("/*", ViaLambda))
		for path, want := range map[string]string{
			"/orders/42": "42", "/orders/42/": "42", "/orders/42/items": "42", "/orders/": "", "/orders/4%32": "42", "/orders/%C3%BC/x": "ü",
			"/orders/ü": "ü", "/orders/a+b": "a+b", "/orders/a%20b": "a b", "/orders/42/a%2Fb": "42", "/orders/42/a%3Bb": "42",
			"/status": "", "/other/42": "other", "/": "",
			"/orders/a%2Fb": "!", "/orders/a%5Cb": "!", `/orders/a\b`: "!", "/orders//42": "!", "/orders/./42": "!", "/orders/7/../42": "!",
			"/orders/42;v=1": "!", "/orders/42%3Bv": "!", "/orders/4%2532": "!",
		} {
			r, err := orders.match("GET", path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			key, err := r.homeKey(path)
			if want == "!" && err == nil || want != "!" && (err != nil || key != want) {
				t.Errorf("%s: key %q, %v; want %q", path, key, err, want)
			}
		}
		c := testConfig(fixed{"acme": pinned("acme", "s01", "s02")}, naming)
		c.State = StateHome
		wantProblem(t, newEngine(t, c).Serve(t.Context(), "acme", get("/a%2Fb")), 400)
	})
}

// TestHomeIsRendezvous: against the definition, with vectors that a Python program made, evenly, and moving no more
// than it must.
func TestHomeIsRendezvous(t *testing.T) {
	members := []string{"s01", "s02", "s03", "s04"}
	for _, v := range []struct{ tenant, key, want string }{
		{"acme", "42", "s03"},
		{"acme", "", "s04"},
		{"zeta", "42", "s01"},
		{"ü", "a b", "s02"},
	} {
		if got := home(v.tenant, v.key, members); got != v.want {
			t.Errorf("key %q of %s lives at %s, want %s", v.key, v.tenant, got, v.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tenant, key := rapid.StringN(1, 20, 128).Draw(t, "tenant"), rapid.String().Draw(t, "key")
		members := rapid.SliceOfNDistinct(rapid.SampledFrom(eight), 1, 8, rapid.ID).Draw(t, "members")
		best, highest := "", []byte(nil)
		for _, m := range slices.Sorted(slices.Values(members)) {
			var text []byte
			for _, part := range []string{tenant, key, m} {
				text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
				text = append(text, part...)
			}
			if sum := sha256.Sum256(text); best == "" || bytes.Compare(sum[:8], highest) > 0 {
				best, highest = m, slices.Clone(sum[:8])
			}
		}
		if got := home(tenant, key, members); got != best {
			t.Fatalf("lives at %s, by definition at %s", got, best)
		}
		if less := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m != best && rapid.Bool().Draw(t, "gone") }); home(tenant, key, less) != best {
			t.Fatalf("a key left %s, which is still there", best)
		}
	})
	count := map[string]int{}
	const keys = 8000
	for n := range keys {
		count[home("acme", fmt.Sprint(n), members)]++
	}
	// Each is binomial: 2,000 expected with a standard deviation of 39. Five of them fail by chance once in a million.
	for _, m := range members {
		if math.Abs(float64(count[m]-keys/4)) > 5*39 {
			t.Errorf("%s has %d of %d keys", m, count[m], keys)
		}
	}
	long := strings.Repeat("k", 5000)
	if home("acme", long, members) == "" {
		t.Error("a long key lives nowhere")
	}
}

// TestHomeFollowsANewEntry: it is asked for by the entry's own subset.
func TestHomeFollowsANewEntry(t *testing.T) {
	reads := 0
	c := testConfig(lookup(func(string) (directory.Entry, error) {
		e := pinned("acme", "s01")
		if reads++; reads > 1 {
			e = pinned("acme", "s02")
			e.Epoch++
		}
		return e, nil
	}), sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
		if call.Shard == "s01" {
			return &Response{Status: http.StatusMisdirectedRequest}, nil
		}
		return ok(call.Shard), nil
	}))
	c.State = StateHome
	if resp := newEngine(t, c).Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/42"}); string(resp.Body) != "s02" {
		t.Errorf("answered %d %s", resp.Status, resp.Body)
	}
}
