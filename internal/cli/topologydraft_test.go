package cli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// inFleet replaces a part of the office's fleet file.
func (o *office) inFleet(was, now string) {
	o.Helper()
	if !strings.Contains(directoryFleet, was) {
		o.Fatalf("the fleet has no %q", was)
	}
	o.write("fleet.yaml", strings.Replace(directoryFleet, was, now, 1))
}

// subset is the tenant's shards, in preference order.
func (o *office) subset(tenant string) []string {
	o.Helper()
	var ids []string
	for _, s := range o.show(tenant).Subset {
		ids = append(ids, s.Shard)
	}
	return ids
}

const cellOfSix = "region: eu-west-1, zones: [a, b], shards: 6}"

// A version that moves nearly everybody is published, and migrated to, only by those who say so.
func TestRemapIsAccepted(t *testing.T) {
	for name, change := range map[string]struct{ placement, cell string }{
		"hmac/v1 with a shard more":        {"placement: {scheme: hmac/v1, perTenant: 2, sizes: {whale: {perTenant: 3}}}", "shards: 7}"},
		"bounded/v1 with other shards":     {"placement: {scheme: bounded/v1, maxShared: 1, perTenant: 2}", "shards: 8}"},
		"bounded/v1 from any other scheme": {"", "shards: 6}"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			const was = "placement: {perTenant: 2, sizes: {whale: {perTenant: 3}}}"
			if change.placement != "" {
				o.inFleet(was, change.placement)
			}
			o.must("cell", "open", "eu-1", "--capacity", "100")
			o.must("topology", "publish", "eu-1")
			o.must("tenant", "add", "acme")
			o.must("tenant", "add", "globex")
			next := strings.Replace(directoryFleet, cellOfSix, strings.Replace(cellOfSix, "shards: 6}", change.cell, 1), 1)
			if change.placement != "" {
				next = strings.Replace(next, was, change.placement, 1)
			} else {
				next = strings.Replace(next, was, "placement: {scheme: bounded/v1, maxShared: 1, perTenant: 2}", 1)
			}
			o.write("fleet.yaml", next)
			o.refused(ExitFound, "--accept-remap", "topology", "publish", "eu-1")
			if out := o.must("topology", "diff", "eu-1"); !strings.Contains(out, "--accept-remap") {
				t.Errorf("diff says %s", out)
			}
			if got := lines[diffSum](o, o.must("topology", "diff", "eu-1", "--sum", "--json")); !got[0].Anew || got[0].Tenants != 2 {
				t.Errorf("diff says %+v", got)
			}
			o.must("topology", "publish", "eu-1", "--accept-remap")
			o.refused(ExitFound, "--accept-remap", "topology", "migrate", "eu-1")
			o.must("topology", "migrate", "eu-1", "--accept-remap")
			o.must("topology", "migrate", "eu-1") // nobody is left to move
			for _, tenant := range []string{"acme", "globex"} {
				if e := o.entry(tenant); e.Topology != 2 {
					t.Errorf("%s is on topology %d", tenant, e.Topology)
				}
			}
		})
	}
}

// rendezvous/v1 moves a few when a shard comes, and asks nobody.
func TestGrowthNeedsNoAccepting(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.inFleet(cellOfSix, strings.Replace(cellOfSix, "shards: 6}", "shards: 7}", 1))
	if got := lines[diffSum](o, o.must("topology", "diff", "eu-1", "--sum", "--json")); got[0].Anew {
		t.Errorf("diff says %+v", got)
	}
	o.must("topology", "publish", "eu-1")
	o.must("topology", "migrate", "eu-1")
}

// A bounded/v1 cell is published from the fleet, gives every tenant a slot of its own, and says when it is full.
func TestBoundedFromTheFleet(t *testing.T) {
	o := newOffice(t)
	o.inFleet("placement: {perTenant: 2, sizes: {whale: {perTenant: 3}}}", "placement: {scheme: bounded/v1, maxShared: 1, perTenant: 2}")
	o.must("cell", "open", "eu-1", "--capacity", "1000")
	o.must("topology", "publish", "eu-1")
	if got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "1", "--json")); got[0].Slots != 9 || got[0].MaxShared != 1 {
		t.Fatalf("topology %+v; want 3² slots, three shards in each of two zones", got)
	}
	slots := map[uint64]bool{}
	for i := range 9 {
		id := fmt.Sprint("t", i)
		o.must("tenant", "add", id)
		slots[o.entry(id).Slot] = true
	}
	if len(slots) != 9 || slots[0] {
		t.Errorf("nine tenants have the slots %v", slots)
	}
	o.refused(ExitFound, "slot", "tenant", "add", "one-more")
}

// A new shard takes the position of an old one: its tenants come, nobody else moves, and the next version
// that is published from the fleet keeps it so.
func TestReplaceAShard(t *testing.T) {
	o := openOffice(t)
	const tenants = 40
	for i := range tenants {
		o.must("tenant", "add", fmt.Sprintf("t%02d", i))
	}
	before := map[string][]string{}
	for i := range tenants {
		id := fmt.Sprintf("t%02d", i)
		before[id] = o.subset(id)
	}
	o.inFleet(cellOfSix, "region: eu-west-1, zones: [a, b], shards: [{id: s01}, {id: s02}, {id: s03}, {id: s04}, {id: s05}, {id: s06}, {id: s07, zone: b}, {id: s08, zone: a}]}")
	for words, pair := range map[string]string{
		"write OLD=NEW": "s02", "write OLD=NEW ": "s02=s02", "only one of the shards": "s02=s99", "of the same zone": "s02=s08",
	} {
		o.refused(ExitUsage, strings.TrimSpace(words), "topology", "publish", "eu-1", "--replace", pair)
	}
	if code, _, errs := o.run("topology", "publish", "eu-1", "--without", "s08", "--replace", "s02=s07"); code != ExitDone {
		t.Fatal(errs)
	}
	o.must("topology", "migrate", "eu-1")
	moved := 0
	for id, was := range before {
		want := slices.Clone(was)
		for i := range want {
			if want[i] == "s02" {
				want[i] = "s07"
				moved++
			}
		}
		if got := o.subset(id); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", id, got, want)
		}
	}
	if moved == 0 {
		t.Error("nobody was on s02")
	}
	o.refused(ExitFound, "nothing is published", "topology", "publish", "eu-1", "--without", "s08")
	if out := o.must("topology", "show", "eu-1", "2"); !strings.Contains(out, "drained") {
		t.Errorf("topology %s", out)
	}
}

// A variable of a script that is not set means nothing, and what is said twice or against itself is no draft.
func TestNamesOfADraft(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	for words, args := range map[string][]string{
		"a name in it is empty":    {"topology", "publish", "eu-1", "--without", ""},
		"a name in it is empty ":   {"topology", "publish", "eu-1", "--drain", "s01,"},
		"a name in it is empty  ":  {"topology", "diff", "eu-1", "--without="},
		"a name in it is empty   ": {"topology", "publish", "eu-1", "--replace", ""},
		`"s01" stands twice`:       {"topology", "publish", "eu-1", "--without", "s01,s01"},
		`"s01" stands twice `:      {"topology", "publish", "eu-1", "--drain", "s01", "--drain", "s01"},
		"it cannot be both":        {"topology", "publish", "eu-1", "--without", "s01", "--drain", "s01"},
		"argument 1 is empty":      {"tenant", "export", ""},
		"argument 1 is empty ":     {"cell", "headroom", ""},
		"argument 2 is empty":      {"topology", "show", "eu-1", ""},
		"argument 1 is empty  ":    {"tenant", "history", "", "--operator", "ann"},
		"argument 3 is empty":      {"tenant", "pin", "acme", "s01", ""},
		"is a JSON string, which":  {"topology", "publish", "eu-1", "--file", "type.json"},
		"is no time: write one":    {"topology", "publish", "eu-1", "--file", "time.json"},
		"ends too early":           {"topology", "publish", "eu-1", "--file", "empty.json"},
		"that is another kind of":  {"topology", "publish", "eu-1", "--file", "/dev/zero"},
	} {
		o.write("type.json", `{"version":"one"}`)
		o.write("time.json", `{"published":"yesterday"}`)
		o.write("empty.json", "")
		o.refused(ExitUsage, strings.TrimSpace(words), args...)
	}
	if err := os.WriteFile("endless", bytes.Repeat([]byte{'0'}, maxSmallFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readKeyFile("endless"); statusOf(err) != ExitUsage || !strings.Contains(err.Error(), "another kind of file") {
		t.Errorf("a key of a megabyte: %v", err)
	}
	if _, _, errs := o.run("topology", "publish", "eu-1", "--file", "type.json"); strings.Contains(errs, "Go ") {
		t.Errorf("names of this program's types: %s", errs)
	}
}

// The directory hears no more of a capacity than was measured, and of each cell once.
func TestCapacityIsNotRoundedUp(t *testing.T) {
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100.12389")
	if got := lines[cellReport](o, o.must("cell", "headroom", "eu-1", "eu-1", "--json")); len(got) != 1 || got[0].Capacity != 100_123 {
		t.Errorf("%+v", got)
	}
}

// A size class or a pin that the next topology lacks keeps nobody else out of the diff.
func TestDiffTellsWhoIsLeft(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "add", "moby", "--size", "whale")
	o.must("tenant", "add", "k6")
	o.must("tenant", "pin", "k6", "s06")
	o.inFleet("sizes: {whale: {perTenant: 3}}", "sizes: {}")
	out := o.must("topology", "diff", "eu-1", "--without", "s06")
	for _, words := range []string{"moby\tis left: ", `no size class "whale"`, "k6\tis left: ", `no shard "s06"`, "of 3 tenants move", "2 tenants cannot be placed by topology 2"} {
		if !strings.Contains(out, words) {
			t.Errorf("diff says %s, and not %q", out, words)
		}
	}
	all := lines[diffSum](o, o.must("topology", "diff", "eu-1", "--without", "s06", "--sum", "--json"))
	if all[0].Left != 2 || all[0].Tenants != 3 || all[0].Minimum > all[0].Moved {
		t.Errorf("%+v", all)
	}
}

// A cell that was stamped again has another key under another name: its next topology is by that one, and one of
// before is never taken for it.
func TestDraftOfAGeneration(t *testing.T) {
	o := openOffice(t)
	second := strings.Repeat("ab", 32)
	o.write("key", `{"1":"`+keyHex+`","2":"`+second+`","g1-1":"`+second+`"}`)
	show := func(version string) directory.Topology {
		t.Helper()
		return lines[shownTopology](o, o.must("topology", "show", "eu-1", version, "--json"))[0].Topology
	}
	o.inFleet("region: eu-west-1, zones: [a, b], shards: 6}", "region: eu-west-1, zones: [a, b], shards: 6, generation: 1}")
	o.must("topology", "publish", "eu-1") // nobody is there, so that nobody is drawn anew
	if got := show("2"); got.KeyVersion != "g1-1" || got.KeyCheck == show("1").KeyCheck || got.KeyCheck == "" {
		t.Errorf("the topology of generation 1 is by version %q, %q", got.KeyVersion, got.KeyCheck)
	}
	o.refused(ExitFound, "nothing is published", "topology", "publish", "eu-1")

	// Whoever is there stays by the key that placed them.
	o.must("tenant", "add", "acme")
	o.inFleet("region: eu-west-1, zones: [a, b], shards: 6}", "region: eu-west-1, zones: [a, b], shards: 6, generation: 2}")
	o.refused(ExitFound, "draws the subsets of all tenants anew", "topology", "publish", "eu-1")
	o.refused(ExitUsage, `no key of version "g2-1"`, "topology", "publish", "eu-1", "--accept-remap")
	o.refused(ExitFound, "nothing is published", "topology", "publish", "eu-1", "--key-version", "g1-1")
	o.refused(ExitUsage, "keyVersion", "topology", "publish", "eu-1", "--key-version", strings.Repeat("x", 17))
	o.must("topology", "publish", "eu-1", "--key-version", "2", "--accept-remap")
	if got := show("3"); got.KeyVersion != "2" {
		t.Errorf("the topology is by version %q", got.KeyVersion)
	}
}
