package placement

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type recipeVector struct {
	Tenant string `json:"tenant"`
	N      int    `json:"n"`
	K      int    `json:"k"`
	Key    string `json:"key_hex"`
	Shards []int  `json:"shards"`
}

// TestRecipe: hmac/v1 gives the 160 vectors of Recipe 12.1.
func TestRecipe(t *testing.T) {
	raw, err := os.ReadFile("testdata/recipe-12-1.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []recipeVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 160 {
		t.Fatalf("%d vectors, want 160", len(vectors))
	}
	for i, v := range vectors {
		key, err := hex.DecodeString(v.Key)
		if err != nil {
			t.Fatal(err)
		}
		got := subsets(t, HMACv1, key, numbered(v.N), v.K).of(nil, v.Tenant)
		if !slices.Equal(got, v.Shards) {
			t.Errorf("vector %d: tenant %q, n=%d, k=%d: got %v, want %v", i, v.Tenant, v.N, v.K, got, v.Shards)
		}
	}
}

// Both ways of noticing a repeated member give one result, on both sides of the border between them.
func TestRecipeManyMembers(t *testing.T) {
	m := newMAC([]byte("k"))
	for _, k := range []int{1, 2, scanned - 1, scanned, scanned + 1, 200} {
		for _, n := range []int{k, k + 1, 2*k + 1} {
			r := newReduction(uint64(n))
			got := appendRecipe([]int{-1}, &m, &r, "acme", k)
			many := appendRecipeMany([]int{-1}, &m, &r, "acme", k)
			if !slices.Equal(got, many) || len(got) != k+1 || got[0] != -1 {
				t.Errorf("n=%d, k=%d: %v and %v", n, k, got, many)
			}
		}
	}
}

// A word counts when it is below the largest multiple of n that fits 2^64, and its index is the
// remainder. The words that decide are too rare for any vector to meet one.
func TestReduction(t *testing.T) {
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Uint64Range(1, MaxShards), rapid.Uint64Min(1)).Draw(t, "n")
		bigN := new(big.Int).SetUint64(n)
		limit := new(big.Int).Mul(new(big.Int).Div(two64, bigN), bigN)
		r := newReduction(n)
		// Words around the limit and around multiples of n are where an error would be.
		centre := rapid.SampledFrom([]*big.Int{
			limit, two64, new(big.Int), bigN,
			new(big.Int).Mul(bigN, new(big.Int).SetUint64(rapid.Uint64Max(math.MaxUint64/n).Draw(t, "quotient"))),
			new(big.Int).SetUint64(rapid.Uint64().Draw(t, "any")),
		}).Draw(t, "centre")
		word := new(big.Int).Add(centre, big.NewInt(rapid.Int64Range(-2, 2).Draw(t, "offset")))
		if !word.IsUint64() {
			t.Skip("not a word")
		}
		index, ok := r.index(word.Uint64())
		if want := word.Cmp(limit) < 0; ok != want {
			t.Fatalf("word %d, n %d: taken %v, want %v", word, n, ok, want)
		}
		if want := new(big.Int).Mod(word, bigN); uint64(index) != want.Uint64() {
			t.Fatalf("word %d, n %d: index %d, want %d", word, n, index, want)
		}
	})
}

// A rejected word gives no member, and the next one is taken.
func TestReductionRejects(t *testing.T) {
	m, r := newMAC([]byte("k")), newReduction(5) // 2^64 is 1 modulo 5: the largest word is rejected
	d := draw{mac: &m, n: &r, tenant: "acme"}
	d.next() // draws a block, whose other three words are replaced
	for i, c := range []struct {
		word uint64
		ok   bool
	}{{math.MaxUint64, false}, {math.MaxUint64 - 1, true}, {12, true}} {
		binary.BigEndian.PutUint64(d.block[8*(i+1):], c.word)
		if _, ok := d.next(); ok != c.ok {
			t.Errorf("word %d: taken %v, want %v", c.word, ok, c.ok)
		}
	}
}
