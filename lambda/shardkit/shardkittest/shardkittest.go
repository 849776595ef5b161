// Package shardkittest holds a store to the contract of shardkit.Items.
package shardkittest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// Shard is a store as one shard sees it, with what whoever places tenants can do to it.
type Shard struct {
	shardkit.Items
	// Hold has the shard hold the tenant at an epoch; a higher one that is there stays, and it does nothing
	// where the shard let go at this epoch or a higher one.
	Hold func(tenant string, epoch uint64) error
	// Release has the shard let go of the tenant, unless it holds it at a higher epoch.
	Release func(tenant string, epoch uint64) error
}

// Run holds a store to the contract. open returns an empty one.
func Run(t *testing.T, open func(t *testing.T) Shard) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Shard)
	}{
		{"Keeps", keeps}, {"TenantsAreApart", apart}, {"Lists", lists}, {"Epochs", epochs}, {"AllOrNone", allOrNone},
		{"Limits", limits}, {"NothingTooLate", nothingTooLate}, {"Conditions", conditions}, {"Expires", expires}, {"HeldBefore", heldBefore}, {"NeverUnheld", neverUnheld},
		{"OneTransaction", oneTransaction}, {"Once", once}, {"OnceAfterALostAnswer", lostAnswer}, {"OnceThoughLate", late},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func (s Shard) hold(t *testing.T, tenant string, epoch uint64) {
	t.Helper()
	if err := s.Hold(tenant, epoch); err != nil {
		t.Fatalf("hold %q at %d: %v", tenant, epoch, err)
	}
}

func (s Shard) release(t *testing.T, tenant string, epoch uint64) {
	t.Helper()
	if err := s.Release(tenant, epoch); err != nil {
		t.Fatalf("release %q at %d: %v", tenant, epoch, err)
	}
}

func (s Shard) put(t *testing.T, tenant, key, value string) {
	t.Helper()
	if err := s.Write(t.Context(), tenant, 1, shardkit.Write{Key: key, Value: []byte(value)}); err != nil {
		t.Fatalf("put %q of %q: %v", key, tenant, err)
	}
}

// all is everything that the tenant has.
func (s Shard) all(t *testing.T, tenant string) map[string]string {
	t.Helper()
	keys, err := s.List(t.Context(), tenant, "")
	if err != nil {
		t.Fatalf("list of %q: %v", tenant, err)
	}
	all := map[string]string{}
	for _, k := range keys {
		value, found, err := s.Get(t.Context(), tenant, k)
		if err != nil || !found {
			t.Fatalf("get %q of %q: found %t, %v", k, tenant, found, err)
		}
		all[k] = string(value)
	}
	if len(all) != len(keys) {
		t.Fatalf("listed %q: some twice", keys)
	}
	return all
}

func keeps(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	if _, found, err := s.Get(t.Context(), tenant, "a"); found || err != nil {
		t.Errorf("before the first write: found %t, %v", found, err)
	}
	want := map[string]string{"a": "\x00\xff", "b": "", "ä/ö": "x", "a b&c=d": "y", strings.Repeat("k", shardkit.MaxKey): "z"}
	for k, v := range want {
		s.put(t, tenant, k, "old")
		s.put(t, tenant, k, v)
	}
	if got := s.all(t, tenant); !maps.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
	for range 2 { // the second finds nothing to delete
		if err := s.Write(t.Context(), tenant, 1, shardkit.Write{Key: "a", Delete: true}, shardkit.Write{Key: "b", Value: []byte("new")}); err != nil {
			t.Fatal(err)
		}
	}
	delete(want, "a")
	want["b"] = "new"
	if got := s.all(t, tenant); !maps.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
	large := strings.Repeat("v", shardkit.MaxValue)
	s.put(t, tenant, "large", large)
	if value, _, err := s.Get(t.Context(), tenant, "large"); err != nil || string(value) != large {
		t.Errorf("the largest value is read back as %d bytes, %v", len(value), err)
	}
}

func apart(t *testing.T, s Shard) {
	// Some would be one if tenant and key were joined as they are.
	for _, tenant := range []string{"acme", "acm", "acme1", "a", "ä", "a#b", "a/b?c=d", "HOLDS", strings.Repeat("x", 128)} {
		s.hold(t, tenant, 1)
		s.put(t, tenant, "e1", "of "+tenant)
		s.put(t, tenant, "1", tenant)
	}
	for _, tenant := range []string{"acme", "acm", "acme1", "a", "ä", "a#b", "a/b?c=d", "HOLDS", strings.Repeat("x", 128)} {
		if got := s.all(t, tenant); !maps.Equal(got, map[string]string{"e1": "of " + tenant, "1": tenant}) {
			t.Errorf("%q has %q", tenant, got)
		}
	}
	if got := s.all(t, "nobody"); len(got) > 0 {
		t.Errorf("nobody has %q", got)
	}
}

func lists(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	for _, k := range []string{"ORDER#b", "JOB#1", "ORDER#a", "ORDER", "ORDER#ü", "ORDES", "I", "Z"} {
		s.put(t, tenant, k, k)
	}
	for prefix, want := range map[string][]string{
		"ORDER#": {"ORDER#a", "ORDER#b", "ORDER#ü"}, "ORDER": {"ORDER", "ORDER#a", "ORDER#b", "ORDER#ü"}, "Q": nil,
		"": {"I", "JOB#1", "ORDER", "ORDER#a", "ORDER#b", "ORDER#ü", "ORDES", "Z"},
	} {
		got, err := s.List(t.Context(), tenant, prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: listed %q, %v; want %q", prefix, got, err, want)
		}
	}
}

// epochs goes through what a shard may hold and a request may say.
func epochs(t *testing.T, s Shard) {
	const tenant = "acme"
	steps := []struct {
		what  func()
		since uint64 // 0: not held
	}{
		{func() {}, 0},
		{func() { s.hold(t, tenant, 5) }, 5},
		{func() { s.hold(t, tenant, 4) }, 5},
		{func() { s.release(t, tenant, 4) }, 5},
		{func() { s.hold(t, tenant, 7) }, 7},
		{func() { s.hold(t, "other", 1) }, 7},
		{func() { s.release(t, "other", 1) }, 7},
		{func() { s.release(t, tenant, 7) }, 0},
		{func() { s.release(t, tenant, 7) }, 0},
		{func() { s.hold(t, tenant, 7) }, 0}, // late: that stay is over
		{func() { s.hold(t, tenant, 8) }, 8},
		{func() { s.release(t, tenant, 9) }, 0},
		{func() { s.release(t, tenant, 8) }, 0},
		{func() { s.hold(t, tenant, 9) }, 0},
		{func() { s.hold(t, tenant, 1<<63) }, 1 << 63},
	}
	for i, step := range steps {
		step.what()
		since, held, err := s.Held(t.Context(), tenant)
		if err != nil || held != (step.since > 0) || since != step.since {
			t.Errorf("step %d: held %t since %d, %v; want since %d", i, held, since, err, step.since)
		}
		for _, epoch := range []uint64{0, 1, 4, 5, 6, 7, 8, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			key := fmt.Sprintf("%d/%d", i, epoch)
			err := s.Write(t.Context(), tenant, epoch, shardkit.Write{Key: key})
			_, found, getErr := s.Get(t.Context(), tenant, key)
			want := step.since > 0 && step.since <= epoch
			if found != want || getErr != nil || want && err != nil || !want && !errors.Is(err, shardkit.ErrNotHeld) {
				t.Errorf("step %d: a write at epoch %d, held since %d: written %t, %v, %v", i, epoch, step.since, found, err, getErr)
			}
		}
	}
}

func allOrNone(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 2)
	many := func(value string) (writes []shardkit.Write) {
		for i := range shardkit.MaxWrites {
			writes = append(writes, shardkit.Write{Key: fmt.Sprintf("%02d", i), Value: []byte(value)})
		}
		return writes
	}
	if err := s.Write(t.Context(), tenant, 2, many("one")...); err != nil {
		t.Fatal(err)
	}
	before := s.all(t, tenant)
	refused := many("two")
	refused[50] = shardkit.Write{Key: "50", Delete: true}
	if err := s.Write(t.Context(), tenant, 1, refused...); !errors.Is(err, shardkit.ErrNotHeld) {
		t.Errorf("a write of before: %v", err)
	}
	if after := s.all(t, tenant); len(before) != shardkit.MaxWrites || !maps.Equal(before, after) {
		t.Errorf("%d items before, %d after a write that was refused, or others", len(before), len(after))
	}
}

func nothingTooLate(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	s.put(t, tenant, "a", "new")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late := []shardkit.Write{{Key: "a", Value: []byte("late")}, {Key: "b", Value: []byte("late")}}
	if err := s.Write(over, tenant, 1, late...); !errors.Is(err, context.Canceled) {
		t.Errorf("a write for which nobody waits any more ends with %v", err)
	}
	if got, want := s.all(t, tenant), map[string]string{"a": "new"}; !maps.Equal(got, want) {
		t.Errorf("has %q, want %q", got, want)
	}
}

func limits(t *testing.T, s Shard) {
	const tenant = "acme"
	s.hold(t, tenant, 1)
	var total []shardkit.Write
	for i := range shardkit.MaxTotal/shardkit.MaxValue + 1 {
		total = append(total, shardkit.Write{Key: fmt.Sprint(i), Value: make([]byte, shardkit.MaxValue)})
	}
	wanted := []shardkit.Write{{Key: "z", Was: make([]byte, shardkit.MaxValue)}}
	wanted = append(wanted, total[1:]...)
	for name, writes := range map[string][]shardkit.Write{
		"none":                       {},
		"too many":                   slices.Repeat([]shardkit.Write{{Key: "a"}}, shardkit.MaxWrites+1),
		"no key":                     {{Key: "a"}, {Key: ""}},
		"long key":                   {{Key: strings.Repeat("k", shardkit.MaxKey+1)}},
		"long value":                 {{Key: "a", Value: make([]byte, shardkit.MaxValue+1)}},
		"not UTF-8":                  {{Key: "a\xff"}},
		"bad end":                    {{Key: "a", Expires: -1}},
		"an end of what is deleted":  {{Key: "a", Delete: true, Expires: 1 << 40}},
		"a value of what is deleted": {{Key: "a", Delete: true, Value: []byte("x")}},
		"a deletion of nothing":      {{Key: "a", Delete: true, Absent: true}},
		"nothing that was":           {{Key: "a", Absent: true, Was: []byte{}}},
		"long value wanted":          {{Key: "a", Was: make([]byte, shardkit.MaxValue+1)}},
		"two records":                {{Key: shardkit.Records + "a"}, {Key: shardkit.Records + "b"}},
		"one twice":                  {{Key: "a"}, {Key: "b"}, {Key: "a", Delete: true}},
		"reserved":                   {{Key: "a"}, {Key: shardkit.Reserved}},
		"reserved #":                 {{Key: shardkit.Reserved + "#s01", Delete: true}},
		"total":                      total,
		"total wanted":               wanted,
	} {
		if err := s.Write(t.Context(), tenant, 1, writes...); !errors.Is(err, shardkit.ErrInvalid) {
			t.Errorf("%s: %v, want %q", name, err, shardkit.ErrInvalid)
		}
	}
	if got := s.all(t, tenant); len(got) > 0 {
		t.Errorf("something was written: %d items", len(got))
	}
	if since, held, err := s.Held(t.Context(), tenant); since != 1 || !held || err != nil {
		t.Errorf("held %t since %d, %v", held, since, err)
	}
}
