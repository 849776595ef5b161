package placement

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var schemes = []Scheme{HMACv1, RendezvousV1}

// numbered gives n shards as a fleet counts them: s01, s02, …
func numbered(n int) []Shard {
	shards := make([]Shard, n)
	for i := range shards {
		shards[i] = Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "a", Weight: 1}
	}
	return shards
}

// zoned deals n shards to zones a, b, …, as a fleet does that gives a count.
func zoned(n, zones int) []Shard {
	shards := numbered(n)
	for i := range shards {
		shards[i].Zone = string(rune('a' + i%zones))
	}
	return shards
}

// weighted gives shards with these weights, all in one zone.
func weighted(weights ...int) []Shard {
	shards := numbered(len(weights))
	for i, w := range weights {
		shards[i].Weight = w
	}
	return shards
}

// fataler is what *testing.T, *testing.B and *rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func subsets(t fataler, scheme Scheme, key []byte, shards []Shard, k int) Subsets {
	t.Helper()
	p, err := New(Config{Scheme: scheme, Key: key, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.PerTenant(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// of is Append for the schemes that place by id, which have no error.
func (s Subsets) of(dst []int, tenant string) []int {
	dst, err := s.Append(dst, Tenant{ID: tenant})
	if err != nil {
		panic(err)
	}
	return dst
}

// shardList draws up to 24 shards with unlike ids in any order, in up to four zones; with weights where
// the scheme takes them.
func shardList(t *rapid.T, scheme Scheme) []Shard {
	weight := rapid.Just(1)
	if scheme == RendezvousV1 && rapid.Bool().Draw(t, "weighted") {
		weight = rapid.SampledFrom([]int{1, 2, 3, 1000, MaxWeight})
	}
	zones := []string{"a", "b", "c", ""}[:rapid.IntRange(1, 4).Draw(t, "zones")]
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,15}`), 1, 24, rapid.ID).Draw(t, "ids")
	shards := make([]Shard, len(ids))
	for i, id := range ids {
		shards[i] = Shard{ID: id, Zone: rapid.SampledFrom(zones).Draw(t, "zone"), Weight: weight.Draw(t, "weight")}
	}
	return shards
}

func drawKey(t *rapid.T) []byte    { return rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(t, "key") }
func drawScheme(t *rapid.T) Scheme { return rapid.SampledFrom(schemes).Draw(t, "scheme") }
func drawTenant(t *rapid.T) string { return rapid.String().Draw(t, "tenant") }
func ids(s []Shard, in []int) (out []string) {
	for _, i := range in {
		out = append(out, s[i].ID)
	}
	return out
}

func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scheme := drawScheme(t)
		key, shards, tenant := drawKey(t), shardList(t, scheme), drawTenant(t)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		s := subsets(t, scheme, key, shards, k)
		want := s.of(nil, tenant)
		s.of(nil, tenant+"'") // leaves nothing behind
		if got := s.of(nil, tenant); !slices.Equal(got, want) {
			t.Fatalf("second call: %v, then %v", want, got)
		}
		fresh := subsets(t, scheme, slices.Clone(key), slices.Clone(shards), k)
		clear(key) // neither slice is kept
		clear(shards)
		for _, s := range []Subsets{s, fresh} {
			if got := s.of(nil, tenant); !slices.Equal(got, want) {
				t.Fatalf("another placer, or the arguments overwritten: %v, then %v", want, got)
			}
		}
	})
}

func TestComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scheme := drawScheme(t)
		shards := shardList(t, scheme)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		s := subsets(t, scheme, drawKey(t), shards, k)
		checkComplete(t, s.of(nil, drawTenant(t)), len(shards), k)
	})
	for _, scheme := range schemes { // beyond what shardList draws
		s := subsets(t, scheme, []byte("k"), numbered(MaxShards), 300)
		checkComplete(t, s.of(nil, "acme"), MaxShards, 300)
		s = subsets(t, scheme, []byte("k"), numbered(300), 300)
		checkComplete(t, s.of(nil, "acme"), 300, 300)
		s = subsets(t, scheme, []byte("k"), zoned(MaxShards, 5), 40_000)
		checkComplete(t, s.of(nil, "acme"), MaxShards, 40_000)
	}
}

func checkComplete(t fataler, subset []int, n, k int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(subset))
	if len(sorted) != k || len(slices.Compact(sorted)) != k || sorted[0] < 0 || sorted[k-1] >= n {
		t.Fatal(fmt.Sprintf("not %d different indices below %d: %v", k, n, subset))
	}
}

func TestNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scheme := drawScheme(t)
		key, shards, tenant := drawKey(t), shardList(t, scheme), drawTenant(t)
		all := subsets(t, scheme, key, shards, len(shards)).of(nil, tenant)
		for k := 1; k < len(shards); k++ {
			if got := subsets(t, scheme, key, shards, k).of(nil, tenant); !slices.Equal(got, all[:k]) {
				t.Fatalf("%d of %d is %v, all are %v", k, len(shards), got, all)
			}
		}
	})
}

// Keyed: of tenants placed under two keys, one in C(n,k) has the same members by chance.
func TestKeyed(t *testing.T) {
	const n, k, tenants = 10, 2, 20_000
	for _, scheme := range schemes {
		a := subsets(t, scheme, []byte("one key"), numbered(n), k)
		b := subsets(t, scheme, []byte("one kez"), numbered(n), k)
		same := 0
		for i := range tenants {
			x, y := a.of(nil, tenant(i)), b.of(nil, tenant(i))
			slices.Sort(x)
			slices.Sort(y)
			if slices.Equal(x, y) {
				same++
			}
		}
		p := 1.0 / 45
		if off := math.Abs(float64(same) - tenants*p); off > 5*math.Sqrt(tenants*p*(1-p)) {
			t.Errorf("%s: %d of %d tenants have the same members under another key, want about %.0f", scheme, same, tenants, tenants*p)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	long := string(make([]byte, 1000))
	for _, scheme := range schemes {
		for _, c := range []struct{ n, k, zones int }{{1, 1, 1}, {16, 2, 1}, {16, 2, 3}, {100, 4, 1}, {100, 4, 3}, {200, 150, 1}, {200, 150, 3}} {
			shards := zoned(c.n, c.zones)
			checkNoAllocations(t, scheme, shards, c.k, "", "acme", "a tenant with an id of more than thirty-two bytes, of more than a block even", long)
			if scheme == RendezvousV1 && c.n > 1 {
				shards[0].Weight = 3
				checkNoAllocations(t, scheme, shards, c.k, "acme")
			}
		}
	}
}

func checkNoAllocations(t *testing.T, scheme Scheme, shards []Shard, k int, tenants ...string) {
	t.Helper()
	s := subsets(t, scheme, []byte("k"), shards, k)
	for _, tenant := range tenants {
		buf := make([]int, 0, k)
		if got := testing.AllocsPerRun(100, func() { buf = s.of(buf[:0], tenant) }); got != 0 {
			t.Errorf("%s, %d of %d, id of %d bytes: %v allocations", scheme, k, len(shards), len(tenant), got)
		}
	}
	if got := testing.AllocsPerRun(100, func() {
		var buf [150]int // stays on the caller's stack
		s.of(buf[:0], "acme")
	}); got != 0 {
		t.Errorf("%s, %d of %d: the caller's array went to the heap", scheme, k, len(shards))
	}
}

// Concurrent: meant for the race detector.
func TestConcurrent(t *testing.T) {
	for _, scheme := range schemes {
		s := subsets(t, scheme, []byte("k"), numbered(50), 3)
		want := make([][]int, 200)
		for i := range want {
			want[i] = s.of(nil, tenant(i))
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range want {
					if got := s.of(nil, tenant(i)); !slices.Equal(got, want[i]) {
						t.Errorf("%s, %s: %v, want %v", scheme, tenant(i), got, want[i])
					}
				}
			})
		}
		wg.Wait()
	}
}

// Append keeps what dst holds already.
func TestAppendKeeps(t *testing.T) {
	for _, scheme := range schemes {
		s := subsets(t, scheme, []byte("k"), numbered(9), 3)
		got := s.of([]int{7, 7}, "acme")
		if want := append([]int{7, 7}, s.of(nil, "acme")...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", scheme, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	key, two := []byte("k"), numbered(2)
	manyZones := numbered(MaxZones + 1)
	for i := range manyZones {
		manyZones[i].Zone = fmt.Sprint(i)
	}
	for _, c := range []struct {
		name   string
		scheme Scheme
		key    []byte
		shards []Shard
		want   error
	}{
		{"no scheme", "", key, two, ErrUnknownScheme},
		{"scheme in capitals", "HMAC/v1", key, two, ErrUnknownScheme},
		{"a scheme to come", "bounded/v2", key, two, ErrUnknownScheme},
		{"no key", HMACv1, nil, two, ErrEmptyKey},
		{"empty key", RendezvousV1, []byte{}, two, ErrEmptyKey},
		{"no shards", HMACv1, key, nil, ErrShardCount},
		{"too many shards", HMACv1, key, numbered(MaxShards + 1), ErrShardCount},
		{"nameless shard", RendezvousV1, key, []Shard{{ID: "a", Weight: 1}, {Weight: 1}}, ErrShardID},
		{"one id twice", RendezvousV1, key, []Shard{two[0], two[1], two[0]}, ErrDuplicateShard},
		{"one id twice, ids unused", HMACv1, key, []Shard{two[0], two[0]}, ErrDuplicateShard},
		{"weight, which the scheme would ignore", HMACv1, key, weighted(1, 2), ErrWeight},
		{"weight not set", RendezvousV1, key, weighted(0, 1), ErrWeight},
		{"negative weight", RendezvousV1, key, weighted(1, -1), ErrWeight},
		{"weight too large", RendezvousV1, key, weighted(1, MaxWeight+1), ErrWeight},
		{"zones", RendezvousV1, key, manyZones, ErrZones},
	} {
		if p, err := New(Config{Scheme: c.scheme, Key: c.key, Shards: c.shards}); !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, p, err, c.want)
		}
	}
	for _, scheme := range schemes {
		for _, shared := range []int{-1, 1} {
			if p, err := New(Config{Scheme: scheme, Key: key, Shards: two, MaxShared: shared}); !errors.Is(err, ErrMaxShared) || p != nil {
				t.Errorf("%s, at most %d shared: %v, %v; want %v", scheme, shared, p, err, ErrMaxShared)
			}
		}
	}
	p, err := New(Config{Scheme: HMACv1, Key: key, Shards: two})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{math.MinInt, -1, 0, 3, math.MaxInt} {
		if s, err := p.PerTenant(k); !errors.Is(err, ErrPerTenant) || s != (Subsets{}) {
			t.Errorf("k=%d: %v, %v; want %v", k, s, err, ErrPerTenant)
		}
	}
}

func tenant(i int) string { return fmt.Sprintf("org-%05d", i) }

// Keyed: whatever prints a Placer, a copy of one, what is made of it or its configuration, prints nothing of
// the key.
func TestKeyedIsNotPrinted(t *testing.T) {
	c := Config{Scheme: RendezvousV1, Key: []byte("secret"), Shards: numbered(3)}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.PerTenant(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		for _, value := range []any{p, *p, c, &c} {
			if got := fmt.Sprintf(verb, value); got != "rendezvous/v1 of 3 shards" {
				t.Errorf("%s of a %T: %s", verb, value, got)
			}
		}
		if got := fmt.Sprintf(verb, s); got != "2 each by rendezvous/v1 of 3 shards" {
			t.Errorf("%s of a %T: %s", verb, s, got)
		}
		if got := fmt.Sprintf(verb, Subsets{}); got != "no subsets" {
			t.Errorf("%s of none: %s", verb, got)
		}
	}
	if text, err := json.Marshal(c); err != nil || strings.Contains(string(text), "Key") {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}

// Keyed, of unlike lengths: what RFC 2104 makes of the key's end, and of one that is longer than a block.
func TestKeyedByLength(t *testing.T) {
	long := []byte(strings.Repeat("long", 20))
	digest := sha256.Sum256(long)
	for _, scheme := range schemes {
		for _, c := range []struct{ a, b []byte }{{[]byte("abc"), []byte("abc\x00")}, {long, digest[:]}} {
			a, b := subsets(t, scheme, c.a, numbered(10), 3), subsets(t, scheme, c.b, numbered(10), 3)
			for i := range 100 {
				if x, y := a.of(nil, tenant(i)), b.of(nil, tenant(i)); !slices.Equal(x, y) {
					t.Fatalf("%s: keys %q and %q give %v and %v", scheme, c.a, c.b, x, y)
				}
			}
		}
	}
}
