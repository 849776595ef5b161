package stamp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/fleet"
)

var epoch = time.Unix(1_000_000_000, 0)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestSubnetBlocks: blocks lie in their half of the network, keep apart, and follow from network and letter alone.
func TestSubnetBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(16, 20).Draw(t, "bits")
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "second"), rapid.Byte().Draw(t, "third"), 0}), bits).Masked()
		zones := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "zones")
		zones = zones[:rapid.IntRange(1, 8).Draw(t, "count")]
		in := rapid.SampledFrom([]half{privateHalf, publicHalf}).Draw(t, "half")
		blocks, err := subnetBlocks(network.String(), zones, in)
		if err != nil {
			t.Fatal(err)
		}
		var all []netip.Prefix
		for _, z := range zones {
			block := netip.MustParsePrefix(blocks[z])
			if block.Masked() != block || block.Bits() != bits+4 || !network.Contains(block.Addr()) {
				t.Fatalf("zone %s of %s has %s", z, network, block)
			}
			if upperHalf(network).Contains(block.Addr()) != (in == publicHalf) {
				t.Fatalf("zone %s of %s has %s, which is in the other half", z, network, block)
			}
			for _, other := range all {
				if block.Overlaps(other) {
					t.Fatalf("zone %s of %s has %s, which overlaps %s", z, network, block, other)
				}
			}
			all = append(all, block)
			if alone, err := subnetBlocks(network.String(), []string{z}, in); err != nil || alone[z] != blocks[z] {
				t.Fatalf("zone %s has %s alone, and %s among %v", z, alone[z], blocks[z], zones)
			}
		}
	})
	if _, err := subnetBlocks("10.0.0.0/16", []string{"a", "i"}, privateHalf); err == nil || !strings.Contains(err.Error(), `zone "i"`) {
		t.Errorf("zone i: %v", err)
	}
}

func upperHalf(p netip.Prefix) netip.Prefix {
	a := p.Addr().As4()
	bit := p.Bits()
	a[bit/8] |= 1 << (7 - bit%8)
	return netip.PrefixFrom(netip.AddrFrom4(a), bit+1)
}

// TestRulePriority: within AWS's range, and one priority a number.
func TestRulePriority(t *testing.T) {
	seen := map[int]string{}
	for n := 1; n <= lastNumbered; n++ {
		id := fmt.Sprintf("s%02d", n)
		p := rulePriority(id)
		if p < 1 || p > lastNumbered || seen[p] != "" {
			t.Fatalf("%s has priority %d, which %q has", id, p, seen[p])
		}
		seen[p] = id
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-z][a-z0-9-]{0,15}`).Draw(t, "id")
		p := rulePriority(id)
		if _, numbered := shardNumber(id); p < 1 || p > lastPriority || !numbered && p <= lastNumbered {
			t.Fatalf("%s has priority %d", id, p)
		}
	})
	for _, id := range []string{"s1", "s001", "s", "s-1", "s+1", "s00", "t01", "s10000", "s1a"} {
		if n, ok := shardNumber(id); ok {
			t.Errorf("%s is number %d", id, n)
		}
	}
}

// TestGroupShards: numbered shards keep their group and priority whatever other shards there are, and
// no two rules of one load balancer have one priority.
func TestGroupShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 7).Draw(t, "group")
		h := &fleet.HTTP{Ingress: fleet.Ingress{Kind: fleet.IngressGrouped, Group: m}}
		var shards fleet.Shards
		for n := 1; n <= 40; n++ {
			if rapid.Bool().Draw(t, "there") {
				shards = append(shards, fleet.ShardSpec{ID: fmt.Sprintf("s%02d", n)})
			}
		}
		g := groupShards(h, shards)
		if len(g.clashes) > 0 {
			t.Fatalf("numbered shards clash: %v", g.clashes)
		}
		size := map[string]int{}
		for _, s := range shards {
			n, _ := shardNumber(s.ID)
			if want := fmt.Sprintf("g%02d", (n-1)/m+1); g.of[s.ID] != want || g.priority[s.ID] != n {
				t.Fatalf("%s is in %s with priority %d, want %s, %d", s.ID, g.of[s.ID], g.priority[s.ID], want, n)
			}
			size[g.of[s.ID]]++
		}
		if len(size) != len(g.groups) {
			t.Fatalf("groups are %v, shards are in %v", g.groups, size)
		}
		for group, n := range size {
			if n > m {
				t.Fatalf("%s has %d shards of %d", group, n, m)
			}
		}
	})
	named := fleet.Shards{{ID: "red"}, {ID: "green"}, {ID: "blue"}}
	g := groupShards(&fleet.HTTP{Ingress: fleet.Ingress{Kind: fleet.IngressGrouped, Group: 2}}, named)
	if d := cmp.Diff(map[string]string{"red": "g01", "green": "g01", "blue": "g02"}, g.of); d != "" {
		t.Errorf("groups (-want +got):\n%s", d)
	}
	if g := groupShards(nil, named); len(g.groups)+len(g.of) > 0 {
		t.Errorf("shards without HTTP are in %v", g)
	}
}
