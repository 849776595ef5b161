package placement

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, shards, tenant := drawKey(t), shardList(t, RendezvousV1), drawTenant(t)
		k := rapid.IntRange(1, len(shards)).Draw(t, "k")
		other := rapid.Permutation(shards).Draw(t, "other order")
		a := ids(shards, subsets(t, RendezvousV1, key, shards, k).of(nil, tenant))
		b := ids(other, subsets(t, RendezvousV1, key, other, k).of(nil, tenant))
		if !slices.Equal(a, b) {
			t.Fatalf("%v in one order, %v in the other", a, b)
		}
	})
}

// A ranking is in byte order of the ids, which is what settles ties, and every word stays with its
// shard.
func TestOrderFreeRanking(t *testing.T) {
	m := newMAC([]byte("k"))
	r := newRanking(&m, named([]string{"b", "a", "s10", "B", "s9"}), []int{0, 1, 2, 3, 4})
	if want := []int{3, 1, 0, 2, 4}; !slices.Equal(r.indices, want) {
		t.Errorf("order %v, want %v", r.indices, want)
	}
	if alone := newRanking(&m, named([]string{"s10"}), []int{0}); r.words[3] != alone.words[0] {
		t.Error("the word of s10 depends on the other shards")
	}
}

// The order of scores, ties included, against sorting all shards. Ties do not occur in earnest: here
// the shards are given words that are equal.
func TestOrderFreeTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ranking{words: rapid.SliceOfN(rapid.Uint64Range(1, 5), 1, 40).Draw(t, "words")}
		p := point{rapid.Uint64().Draw(t, "first"), rapid.Uint64().Draw(t, "second")}
		want := make([]int, len(r.words))
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(a, b int) int { // positions are in the order of ids
			switch x, y := p.score(r.words[a]), p.score(r.words[b]); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		k := rapid.IntRange(1, len(r.words)).Draw(t, "k")
		if got := r.appendPositions(nil, p, k); !slices.Equal(got, want[:k]) {
			t.Fatalf("got %v, want %v", got, want[:k])
		}
	})
}

func TestMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, after, tenant := drawKey(t), shardList(t, RendezvousV1), drawTenant(t)
		if len(after) == 1 {
			t.Skip("one shard cannot be removed")
		}
		gone := rapid.IntRange(0, len(after)-1).Draw(t, "the shard that joins")
		before := slices.Delete(slices.Clone(after), gone, gone+1)
		k := rapid.IntRange(1, len(before)).Draw(t, "k")
		was := ids(before, subsets(t, RendezvousV1, key, before, k).of(nil, tenant))
		is := ids(after, subsets(t, RendezvousV1, key, after, k).of(nil, tenant))
		at := slices.Index(is, after[gone].ID)
		if at < 0 {
			if !slices.Equal(was, is) {
				t.Fatalf("%v became %v without the shard that joined", was, is)
			}
			return
		}
		rest := slices.Delete(slices.Clone(is), at, at+1)
		for _, id := range rest {
			if !slices.Contains(was, id) {
				t.Fatalf("%v became %v, more than one member's place", was, is)
			}
		}
		// In one zone, what is left are the old members but the last, in their order.
		if oneZone := !slices.ContainsFunc(after, func(s Shard) bool { return s.Zone != after[0].Zone }); oneZone && !slices.Equal(rest, was[:k-1]) {
			t.Fatalf("%v became %v, more than the last member's place", was, is)
		}
	})
}

// Minimal: a weight that rises can bring its shard in, in one member's place, and changes nothing else.
func TestMinimalWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, before, tenant := drawKey(t), shardList(t, RendezvousV1), drawTenant(t)
		k := rapid.IntRange(1, len(before)).Draw(t, "k")
		i := rapid.IntRange(0, len(before)-1).Draw(t, "shard")
		after := slices.Clone(before)
		after[i].Weight = rapid.IntRange(before[i].Weight, MaxWeight).Draw(t, "new weight")
		was := subsets(t, RendezvousV1, key, before, k).of(nil, tenant)
		for _, member := range subsets(t, RendezvousV1, key, after, k).of(nil, tenant) {
			if member != i && !slices.Contains(was, member) {
				t.Fatalf("shard %d got in among %v when shard %d grew", member, was, i)
			}
		}
	})
}

// Minimal: the share of tenants whose subset stays as it was is 1 - k/(n+1) when a shard is added.
func TestMinimalShare(t *testing.T) {
	const tenants = 30_000
	for _, c := range []struct {
		n, k int
		want float64
	}{{20, 4, 0.8095}, {100, 4, 0.9604}} {
		p := 1 - float64(c.k)/float64(c.n+1)
		if math.Abs(p-c.want) > 5e-5 {
			t.Fatalf("%d to %d shards: closed form %.4f, want %.4f", c.n, c.n+1, p, c.want)
		}
		before := subsets(t, RendezvousV1, []byte("k"), numbered(c.n), c.k)
		after := subsets(t, RendezvousV1, []byte("k"), numbered(c.n+1), c.k)
		var x, y []int
		same := 0
		for i := range tenants {
			x, y = before.of(x[:0], tenant(i)), after.of(y[:0], tenant(i))
			if slices.Equal(x, y) {
				same++
			}
		}
		got, bound := float64(same)/tenants, 5*math.Sqrt(p*(1-p)/tenants)
		t.Logf("%d to %d shards, k=%d: %.2f %% unchanged, closed form %.2f %%", c.n, c.n+1, c.k, 100*got, 100*p)
		if math.Abs(got-p) > bound {
			t.Errorf("%d to %d shards: %.4f unchanged, want %.4f within %.4f", c.n, c.n+1, got, p, bound)
		}
	}
}

// Separate: the HMAC messages of one key are all different. Ids are drawn to look like the ends of
// messages.
func TestSeparate(t *testing.T) {
	id := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			"a", "\x00", string(tenantSuffix), string(shardSuffix), string(zoneSuffix), string(levelSuffix), " shard", " zone", "rendezvous/v1", strings.Repeat("\x00", 9), "\x00\x00\x00\x00\x00\x00\x00\x01",
		})).Draw(t, "parts")
		return strings.Join(parts, "")
	})
	kinds := map[string]*rapid.Generator[string]{
		"hmac/v1": rapid.Custom(func(t *rapid.T) string {
			counter := rapid.Uint64().Draw(t, "counter")
			end := []byte{0, byte(counter >> 56), byte(counter >> 48), byte(counter >> 40), byte(counter >> 32), byte(counter >> 24), byte(counter >> 16), byte(counter >> 8), byte(counter)}
			return string(end)
		}),
		"tenant": rapid.Just(string(tenantSuffix)),
		"shard":  rapid.Just(string(shardSuffix)),
		"zone":   rapid.Just(string(zoneSuffix)),
		"level":  rapid.Just(string(levelSuffix)),
	}
	names := []string{"hmac/v1", "tenant", "shard", "zone", "level"}
	rapid.Check(t, func(t *rapid.T) {
		kindA, kindB := rapid.SampledFrom(names).Draw(t, "kind"), rapid.SampledFrom(names).Draw(t, "other kind")
		idA, idB := id.Draw(t, "id"), id.Draw(t, "other id")
		endA, endB := kinds[kindA].Draw(t, "end"), kinds[kindB].Draw(t, "other end")
		same := kindA == kindB && idA == idB && endA == endB
		if idA+endA == idB+endB && !same {
			t.Fatalf("%s of %q and %s of %q have one message", kindA, idA, kindB, idB)
		}
	})
	ends := [][]byte{tenantSuffix, shardSuffix, zoneSuffix, levelSuffix}
	for i, end := range ends {
		if len(end) < 9 || end[len(end)-9] == 0 {
			t.Errorf("%q could end a message of hmac/v1", end)
		}
		for j, other := range ends {
			if i != j && bytes.HasSuffix(end, other) {
				t.Errorf("%q ends %q", other, end)
			}
		}
	}
}

// Separate: on another level the subsets are unrelated, and those of the level of shards are the key's
// own.
func TestSeparateLevels(t *testing.T) {
	const n, tenants = 10, 20_000
	for _, scheme := range schemes {
		at := func(level Level) Subsets {
			p, err := New(Config{Scheme: scheme, Key: []byte("k"), Shards: numbered(n), Level: level})
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.PerTenant(1)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		shard, cell, other := at(ShardLevel), at("cells"), at("cells ")
		plain := subsets(t, scheme, []byte("k"), numbered(n), 1)
		same := map[string]int{}
		for i := range tenants {
			s, c, o := shard.of(nil, tenant(i))[0], cell.of(nil, tenant(i))[0], other.of(nil, tenant(i))[0]
			if s != plain.of(nil, tenant(i))[0] {
				t.Fatal("the level of shards has another key")
			}
			same["shards and cells"] += int(b2u(s == c))
			same["two other levels"] += int(b2u(c == o))
		}
		for what, got := range same {
			if off := math.Abs(float64(got) - tenants/n); off > 5*math.Sqrt(tenants*0.1*0.9) {
				t.Errorf("%s, %s: %d of %d tenants agree, want about %d", scheme, what, got, tenants, tenants/n)
			}
		}
	}
}

// Tenants that agree in one 64-bit word rank shards without relation: the rank that one gives to the
// other's favourite is uniform.
func TestPointUsesBothWords(t *testing.T) {
	const seed, shards, trials = 7, 10, 20_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	for word := range 2 {
		counts := make([]int, shards)
		for range trials {
			r := ranking{words: make([]uint64, shards)}
			for i := range r.words {
				r.words[i] = rng.Uint64()
			}
			a := point{rng.Uint64(), rng.Uint64()}
			b := a
			b[word] = rng.Uint64()
			favourite := r.appendPositions(nil, a, 1)[0]
			counts[slices.Index(r.appendPositions(nil, b, shards), favourite)]++
		}
		checkChiSquare(t, counts, trials, shards-1, 1)
	}
}

// Every bit of a tenant's point and of a shard's word turns every bit of the score with probability
// one half.
func TestScoreAvalanche(t *testing.T) {
	const seed, trials = 11, 4_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	var turned [3 * 64][64]int
	for range trials {
		p, s := point{rng.Uint64(), rng.Uint64()}, rng.Uint64()
		score := p.score(s)
		for bit := range turned {
			p, s, flip := p, s, uint64(1)<<(bit%64)
			switch bit / 64 {
			case 0, 1:
				p[bit/64] ^= flip
			default:
				s ^= flip
			}
			for d := p.score(s) ^ score; d != 0; d &= d - 1 {
				turned[bit][bits.TrailingZeros64(d)]++
			}
		}
	}
	// 12,288 counts around trials/2: the widest of so many normal variates is beyond 6 standard
	// deviations once in 40,000 seeds.
	bound := 6 * math.Sqrt(trials) / 2
	for in, row := range turned {
		for out, n := range row {
			if math.Abs(float64(n)-trials/2) > bound {
				t.Errorf("input bit %d turns output bit %d in %d of %d trials", in, out, n, trials)
			}
		}
	}
}
