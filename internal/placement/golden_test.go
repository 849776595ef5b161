package placement

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden vectors anew")

// goldenVector is one subset. Shards stand as ids or, in zones and with weights, as goldenShards.
type goldenVector struct {
	Key    string        `json:"key"`
	Shards []goldenShard `json:"shards"`
	Tenant string        `json:"tenant"`
	K      int           `json:"k"`
	Subset []string      `json:"subset"`
}

// goldenShard is a shard: [id, zone, weight], or its id alone when it is of zone a and weight 1.
type goldenShard struct{ Shard }

func (s goldenShard) MarshalJSON() ([]byte, error) {
	if s.Zone == "a" && s.Weight == 1 {
		return json.Marshal(s.ID)
	}
	return json.Marshal([]any{s.ID, s.Zone, s.Weight})
}

func (s *goldenShard) UnmarshalJSON(text []byte) error {
	s.Zone, s.Weight = "a", 1
	if err := json.Unmarshal(text, &s.ID); err == nil {
		return nil
	}
	return json.Unmarshal(text, &[]any{&s.ID, &s.Zone, &s.Weight})
}

// TestGolden: the outputs that are pinned do not change, on any processor. A change would move the tenants
// of every fleet.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file  string
		lists [][]Shard
		count int
	}{
		{"testdata/rendezvous-v1.json", [][]Shard{
			named([]string{"only"}), named([]string{"b", "a"}), named([]string{"s1", "s", "s11", "s01"}), numbered(16), numbered(100),
		}, 75},
		{"testdata/rendezvous-v1-zones.json", [][]Shard{
			zoned(24, 3), zoned(16, 3), sparse(), weighted(2, 1, 1, 1, 1, 1, 1, 1), weighted(1, 10, 100, 1000, MaxWeight, MaxWeight-1), heavyZones(),
		}, 90},
	} {
		if *update {
			writeGolden(t, c.file, c.lists)
		}
		raw, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []goldenVector
		if err := json.Unmarshal(raw, &vectors); err != nil {
			t.Fatal(err)
		}
		if len(vectors) != c.count {
			t.Fatalf("%s: %d vectors, want %d", c.file, len(vectors), c.count)
		}
		for i, v := range vectors {
			shards := make([]Shard, len(v.Shards))
			for j, s := range v.Shards {
				shards[j] = s.Shard
			}
			got := ids(shards, subsets(t, RendezvousV1, []byte(v.Key), shards, v.K).of(nil, v.Tenant))
			if !slices.Equal(got, v.Subset) {
				t.Errorf("%s, vector %d: tenant %q, k=%d: got %v, want %v", c.file, i, v.Tenant, v.K, got, v.Subset)
			}
		}
	}
}

// sparse is six shards in zones of three, two and one.
func sparse() []Shard {
	shards := numbered(6)
	for i, zone := range []string{"a", "a", "a", "b", "b", "c"} {
		shards[i].Zone = zone
	}
	return shards
}

// heavyZones has shards of many weights in four zones, one of which has no name.
func heavyZones() []Shard {
	shards := zoned(20, 4)
	for i := range shards {
		shards[i].Weight = []int{1, 1, 2, 3, 1000}[i/4]
		if shards[i].Zone == "d" {
			shards[i].Zone = ""
		}
	}
	return shards
}

func named(ids []string) []Shard {
	shards := make([]Shard, len(ids))
	for i, id := range ids {
		shards[i] = Shard{ID: id, Zone: "a", Weight: 1}
	}
	return shards
}

func writeGolden(t *testing.T, file string, lists [][]Shard) {
	var vectors []goldenVector
	long := strings.Repeat("x", 300)
	for _, key := range []string{"k", "shuffle-shard-v1", strings.Repeat("key", 30)} {
		for _, shards := range lists {
			for _, tenant := range []string{"acme", "", "org-00001", "日本語テナント", long} {
				k := min(4, len(shards))
				if strings.Contains(file, "zones") { // 5, so that a zone gives more than one
					k = min(5, len(shards))
				}
				v := goldenVector{Key: key, Tenant: tenant, K: k}
				for _, s := range shards {
					v.Shards = append(v.Shards, goldenShard{s})
				}
				v.Subset = ids(shards, subsets(t, RendezvousV1, []byte(key), shards, k).of(nil, tenant))
				vectors = append(vectors, v)
			}
		}
	}
	raw, err := json.Marshal(vectors)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.ReplaceAll(string(raw), "},{", "},\n{")
	if err := os.WriteFile(file, []byte(lines+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
