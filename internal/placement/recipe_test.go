package placement

import (
	"encoding/hex"
	"encoding/json"
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
		got := subsets(t, HMACv1, key, numbered(v.N), v.K).Append(nil, v.Tenant)
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
			got := appendRecipe([]int{-1}, &m, "acme", n, k)
			many := appendRecipeMany([]int{-1}, &m, "acme", n, k)
			if !slices.Equal(got, many) || len(got) != k+1 || got[0] != -1 {
				t.Errorf("n=%d, k=%d: %v and %v", n, k, got, many)
			}
		}
	}
}

// reduce refuses exactly the words at or above the largest multiple of n below 2^64. The words that
// decide are too rare for any vector to meet one.
func TestReduce(t *testing.T) {
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Uint64Range(1, MaxShards), rapid.Uint64Min(1)).Draw(t, "n")
		bigN := new(big.Int).SetUint64(n)
		below := new(big.Int).Mul(new(big.Int).Div(two64, bigN), bigN)
		// Words near the border, and any.
		near := new(big.Int).Add(below, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "offset")))
		word := rapid.Uint64().Draw(t, "word")
		if near.IsUint64() && rapid.Bool().Draw(t, "near the border") {
			word = near.Uint64()
		}
		bigWord := new(big.Int).SetUint64(word)
		index, ok := reduce(word, n)
		if want := bigWord.Cmp(below) < 0; ok != want {
			t.Fatalf("word %d, n %d: taken %v, want %v", word, n, ok, want)
		}
		if want := new(big.Int).Mod(bigWord, bigN); ok && uint64(index) != want.Uint64() {
			t.Fatalf("word %d, n %d: index %d, want %d", word, n, index, want)
		}
	})
}
