package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

func TestCells(t *testing.T) {
	o := newOffice(t)
	for words, args := range map[string][]string{
		"--capacity must be given":        {"open", "eu-1"},
		"--capacity 0: a cell that":       {"open", "eu-1", "--capacity", "0"},
		"want a number in decimal":        {"open", "eu-1", "--capacity", "-3"},
		"headroom 91 %":                   {"open", "eu-1", "--capacity", "1", "--keep-free", "91"},
		`cell "eu-9" is not in the fleet`: {"open", "eu-9", "--capacity", "1"},
		"accepts 1 arg":                   {"open", "--capacity", "1"},
	} {
		code, out, errs := o.run(append([]string{"cell"}, args...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, strings.TrimSpace(words)) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want %d and %q", args, code, out, errs, ExitUsage, words)
		}
	}
	// A cell that was added and not opened is closed.
	o.must("topology", "publish", "us-1")
	if got := lines[cellReport](o, o.must("cell", "headroom", "us-1", "--json")); len(got) != 1 || got[0].Open || got[0].Left != 0 {
		t.Errorf("a stamped cell: %+v", got)
	}
	o.refused(ExitFound, "no cell has headroom", "tenant", "add", "acme")

	if code, _, errs := o.run("cell", "open", "eu-1", "--capacity", "100"); code != ExitDone || !strings.Contains(errs, "no topology yet") {
		t.Errorf("status %d, stderr %q", code, errs)
	}
	o.must("cell", "open", "us-1", "--capacity", "100", "--keep-free", "0")
	o.must("tenant", "add", "acme", "--load", "80")
	got := lines[cellReport](o, o.must("cell", "headroom", "--json"))
	if len(got) != 2 || got[0].Limit != 70_000 || got[0].Left != 70_000 || got[1].Cell != "us-1" || got[1].Reserved != 80_000 || got[1].Left != 20_000 || got[1].Tenants != 1 {
		t.Errorf("headroom %+v", got)
	}
	o.must("cell", "close", "us-1")
	out := strings.Join(strings.Fields(o.must("cell", "headroom", "us-1")), " ")
	if !strings.Contains(out, "us-1 closed any 100 0 % 100 80 0 1 1") {
		t.Errorf("headroom %s", out)
	}
	o.refused(ExitUsage, "eu-9", "cell", "headroom", "eu-9")
	o.refused(ExitUsage, "eu-9", "cell", "close", "eu-9")
	o.must("cell", "open", "us-1", "--capacity", "10") // below what is reserved
	if got := lines[cellReport](o, o.must("cell", "headroom", "us-1", "--json"))[0]; got.Left != 0 {
		t.Errorf("left %v of a cell that is too full", got.Left)
	}
}

// write writes a file into the office.
func (o *office) write(name, text string) {
	o.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
}

func TestTopologyPublish(t *testing.T) {
	o := newOffice(t)
	if out := o.must("topology", "publish", "eu-1"); !strings.Contains(out, "2, whale 3") || strings.Count(out, "active") != 6 {
		t.Errorf("stdout %s", out)
	}
	o.refused(ExitFound, "nothing is published", "topology", "publish", "eu-1")
	o.refused(ExitUsage, `"eu-9" is not in the fleet`, "topology", "publish", "eu-9")
	o.refused(ExitUsage, "no such shard", "topology", "publish", "eu-1", "--drain", "s09")
	o.refused(ExitUsage, "no such shard", "topology", "publish", "eu-1", "--without", "s09")
	o.refused(ExitUsage, "bad.json", "topology", "publish", "eu-1", "--file", "bad.json")

	const shape = `{"scheme":"rendezvous/v1","kBySize":{"":2},"keyVersion":"1","shards":[%s]}`
	shard := func(id, zone string) string {
		return fmt.Sprintf(`{"id":%q,"zone":%q,"weight":1,"state":"active"}`, id, zone)
	}
	for words, shards := range map[string]string{
		`both name shard "s01"`:                      shard("s01", "a") + "," + shard("s02", "b") + "," + shard("s01", "b"),
		`zone "c", and the cell has`:                 shard("s01", "a") + "," + shard("s02", "c"),
		`shard "s07", which the fleet does not have`: shard("s01", "a") + "," + shard("s07", "b"),
		"2 of 1 shards":                              shard("s01", "a"),
		`and the fleet has it in "b"`:                shard("s01", "a") + "," + shard("s02", "a"),
	} {
		o.write("t.json", fmt.Sprintf(shape, shards))
		o.refused(ExitUsage, words, "topology", "publish", "eu-1", "--file", "t.json")
	}
	o.write("t.json", `{"cell":"us-1"}`)
	o.refused(ExitUsage, `of cell "us-1", not "eu-1"`, "topology", "publish", "eu-1", "--file", "t.json")

	o.write("t.json", fmt.Sprintf(shape, shard("s02", "b")+","+shard("s01", "a")))
	o.must("topology", "publish", "eu-1", "--file", "t.json")
	if out := o.must("topology", "show", "eu-1"); strings.Count(out, "live") != 2 {
		t.Errorf("stdout %s", out)
	}
	got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "2", "--json"))
	if len(got) != 1 || len(got[0].Shards) != 2 || got[0].Shards[0].ID != "s02" || got[0].KBySize[""] != 2 {
		t.Errorf("topology %+v", got)
	}
	// What show prints can be published again.
	o.write("again.json", o.must("topology", "show", "eu-1", "1", "--json"))
	o.must("topology", "publish", "eu-1", "--file", "again.json")
	if got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "3", "--json")); len(got[0].Shards) != 6 {
		t.Errorf("topology %+v", got)
	}
	o.refused(ExitUsage, "publish it first", "topology", "show", "eu-1", "9")
	o.refused(ExitUsage, "no version", "topology", "show", "eu-1", "first")
	o.refused(ExitUsage, "eu-9", "topology", "show", "eu-9")
}

// TestAShardLeaves goes the whole way: drain, see who moves, migrate, retire, take it out of the fleet.
func TestAShardLeaves(t *testing.T) {
	o := openOffice(t)
	const tenants = 60
	for i := range tenants {
		o.must("tenant", "add", fmt.Sprintf("t%02d", i))
	}
	o.must("tenant", "pin", "t00", "s01", "s02")
	before := strings.Fields(o.heldBy("eu-1/s06"))
	if len(before) == 0 {
		t.Fatal("nobody is on s06")
	}
	// What would move, by the fleet, by versions, and by a file of tenants.
	sum := func(args ...string) diffSum {
		all := lines[diffSum](o, o.must(append([]string{"topology", "diff", "eu-1", "--sum", "--json"}, args...)...))
		return all[len(all)-1]
	}
	if got := sum(); got.Moving != 0 || got.Tenants != tenants || got.Minimum != 0 {
		t.Errorf("nothing changes: %+v", got)
	}
	want := sum("--without", "s06")
	if want.Moving != len(before) || want.Moved != len(before) || want.Seats != 2*tenants || want.Minimum < 10 || want.Minimum > 30 || want.From != 1 || want.To != 2 {
		t.Errorf("without s06, on which %d tenants are: %+v", len(before), want)
	}
	o.write("people.csv", "tenant,load\np1,1\np2,2\np3,3\n")
	if got := sum("--without", "s06", "--population", "people.csv"); got.Tenants != 3 {
		t.Errorf("of a file: %+v", got)
	}
	all := lines[diffMove](o, o.must("topology", "diff", "eu-1", "--without", "s06", "--json"))
	for _, m := range all[:len(all)-1] {
		if strings.Contains(strings.Join(m.To, " "), "s06") || !strings.Contains(strings.Join(m.From, " "), "s06") {
			t.Errorf("move %+v", m)
		}
	}

	smaller := strings.Replace(directoryFleet, "shards: 6}", "shards: 5}", 1)
	o.write("fleet.yaml", smaller)
	o.refused(ExitFound, `shard "s06" is not in the fleet's cell "eu-1" any more, and topology 1 names it`, "topology", "publish", "eu-1")
	if code, _, errs := o.run("fleet", "validate"); code != ExitFound || !strings.Contains(errs, `"s06"`) {
		t.Errorf("fleet validate: status %d, stderr %q", code, errs)
	}
	o.write("fleet.yaml", directoryFleet)

	o.must("topology", "publish", "eu-1", "--without", "s06")
	o.refused(ExitFound, "60 tenants are left on it", "topology", "retire", "eu-1", "1")
	o.refused(ExitFound, "is the newest", "topology", "retire", "eu-1", "2")
	for range 2 { // the second time there is nothing left to do
		if out := o.must("topology", "migrate", "eu-1", "--batch", "7"); out != "cell eu-1: 60 tenants brought to topology 2 or found there, 0 skipped; now 60 are on it and 0 are not\n" {
			t.Errorf("stdout %q", out)
		}
	}
	if got := o.heldBy("eu-1/s06"); got != "" {
		t.Errorf("s06 still holds %s", got)
	}
	if s := o.show("t00"); s.Entry.Topology != 2 || s.Subset[0].Shard != "s01" {
		t.Errorf("a pinned tenant: %+v", s)
	}
	if out := o.must("topology", "retire", "eu-1", "1"); !strings.Contains(out, "retired") {
		t.Errorf("stdout %s", out)
	}
	o.must("topology", "retire", "eu-1", "1") // done
	o.refused(ExitFound, "retired", "topology", "migrate", "eu-1", "--to", "1")
	o.write("fleet.yaml", smaller)
	if code, _, errs := o.run("fleet", "validate"); code != ExitDone {
		t.Errorf("fleet validate: status %d, stderr %q", code, errs)
	}
	o.refused(ExitFound, "nothing is published", "topology", "publish", "eu-1")
}

// A version between, to which nobody has gone yet, does not hide that tenants are drawn anew.
func TestTopologyRemapIsAskedOfAll(t *testing.T) {
	o := openOffice(t)
	for i := range 5 {
		o.must("tenant", "add", fmt.Sprintf("t%02d", i))
	}
	o.inFleet("shards: 6}", "shards: 7}")
	o.must("topology", "publish", "eu-1")
	o.write("fleet.yaml", strings.NewReplacer("shards: 6}", "shards: 7}", "placement: {", "placement: {scheme: hmac/v1, ").Replace(directoryFleet))
	o.refused(ExitFound, "other than topology 1: nearly all of the 5 tenants on that would move", "topology", "publish", "eu-1")
	o.must("topology", "publish", "eu-1", "--accept-remap")
}

func TestTopologyMigrateLeavesSome(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "pinned")
	o.must("tenant", "pin", "pinned", "s06")
	o.must("tenant", "add", "other")
	withDirectory(t, func(ctx context.Context, d *directory.Directory) error {
		_, err := d.Place(ctx, directory.SignUp{Tenant: "placing"}, directory.Change{Operation: "half", By: "ann"})
		return err
	})
	o.must("topology", "publish", "eu-1", "--without", "s06")
	code, out, errs := o.run("topology", "migrate", "eu-1", "--json")
	if code != ExitFound || !strings.Contains(errs, "2 tenants could not be migrated") || !strings.Contains(errs, `no shard "s06"`) || !strings.Contains(errs, "it is placing") {
		t.Errorf("status %d, stderr %q", code, errs)
	}
	if got := lines[migrateReport](o, out); len(got) != 1 || got[0].Placed != 1 || len(got[0].Skipped) != 2 {
		t.Errorf("report %+v", got)
	}
	for words, args := range map[string][]string{
		"publish it first":    {"migrate", "eu-1", "--to", "7"},
		"--batch 0":           {"migrate", "eu-1", "--batch", "0"},
		"publish one first":   {"migrate", "us-1"},
		"has no topology yet": {"diff", "us-1"},
		"eu-9":                {"migrate", "eu-9"},
		"publish it first ":   {"diff", "eu-1", "--to", "7"},
		"no such file":        {"diff", "eu-1", "--population", "none.csv"},
	} {
		if args[1] == "us-1" {
			o.must("cell", "open", "us-1", "--capacity", "1")
		}
		o.refused(ExitUsage, strings.TrimSpace(words), append([]string{"topology"}, args...)...)
	}
}

func TestShardTenants(t *testing.T) {
	o := openOffice(t)
	for i := range 3 {
		id := fmt.Sprint("t", i)
		o.must("tenant", "add", id)
		o.must("tenant", "pin", id, "s01")
	}
	for _, shard := range []string{"eu-1/s01", "eu-1/1", "eu-1/01"} {
		if out := o.must("shard", "tenants", shard); strings.Count(out, "\n") != 3 || !strings.HasPrefix(out, "t0\t") {
			t.Errorf("%s: stdout %q", shard, out)
		}
	}
	for words, shard := range map[string]string{
		"write CELL/SHARD": "eu-1", "write CELL/SHARD ": "/s01", "write CELL/SHARD  ": "eu-1/",
		`names shard "s99"`: "eu-1/s99", `names shard "99"`: "eu-1/99", `names shard "0"`: "eu-1/0", "does not know this cell": "eu-9/s01",
	} {
		o.refused(ExitUsage, strings.TrimSpace(words), "shard", "tenants", shard)
	}
}

// A zone that the fleet adds at the end is the cell's with the next topology; no other change of zones is.
func TestZonesGrowWithTheFleet(t *testing.T) {
	o := openOffice(t)
	const was = "{name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 6}"
	fleetHas := func(zones string, shards int) {
		now := strings.Replace(was, "[a, b], shards: 6", fmt.Sprintf("%s, shards: %d", zones, shards), 1)
		o.write("fleet.yaml", strings.Replace(directoryFleet, was, now, 1))
	}
	for _, zones := range []string{"[a]", "[b, a]", "[c, a, b]", "[a, c, b]"} {
		fleetHas(zones, 6)
		o.refused(ExitFound, "another order", "topology", "publish", "eu-1", "--drain", "s06")
		o.refused(ExitFound, "another order", "cell", "open", "eu-1", "--capacity", "50")
	}
	fleetHas("[a, b, c]", 7)
	if out := o.must("topology", "publish", "eu-1"); !strings.Contains(out, "s07") {
		t.Errorf("published %s", out)
	}
	has := func(want string) {
		t.Helper()
		withDirectory(t, func(ctx context.Context, d *directory.Directory) error {
			c, err := d.Cell(ctx, "eu-1")
			if got := strings.Join(c.Zones, " "); got != want {
				t.Errorf("the cell has zones %s, want %s", got, want)
			}
			return err
		})
	}
	has("a b c")
	fleetHas("[a, b, c, d]", 7)
	o.must("cell", "open", "eu-1", "--capacity", "50")
	has("a b c d")
}

// Under bounded/v1 the fleet's bound and the slots that its shards make come to the topology; who signs up gets a
// slot, and plan places by it.
func TestTopologyPlacesBySlot(t *testing.T) {
	o := newOffice(t)
	o.write("fleet.yaml", strings.NewReplacer(
		"placement: {perTenant: 2, sizes: {whale: {perTenant: 3}}}", "placement: {scheme: bounded/v1, perTenant: 2, maxShared: 1}", "shards: 6", "shards: 10").Replace(directoryFleet))
	o.must("cell", "open", "eu-1", "--capacity", "100")
	published := lines[shownTopology](o, o.must("topology", "publish", "eu-1", "--json"))[0]
	if published.MaxShared != 1 || published.Slots != 25 {
		t.Errorf("%+v", published)
	}
	// Slots go in the order of sign-up, which is not that of the directory.
	for _, tenant := range []string{"c", "b", "a"} {
		o.must("tenant", "add", tenant)
	}
	r := lines[planReport](o, o.must("plan", "--cell", "eu-1", "--json"))[0]
	want := map[string]int{}
	for _, tenant := range []string{"a", "b", "c"} {
		for _, s := range o.show(tenant).Subset {
			want[s.Shard]++
		}
	}
	for _, s := range r.Cells[0].Shards {
		if s.Tenants != want[s.ID] {
			t.Errorf("%s has %d tenants, want %d", s.ID, s.Tenants, want[s.ID])
		}
	}
	o.refused(ExitUsage, "stripes", "topology", "publish", "eu-1", "--drain", "s01")
}

// A change of a cell that is repeated under its operation is found done, whatever came after it.
func TestCellChangesRepeated(t *testing.T) {
	o := openOffice(t)
	publish := []string{"topology", "publish", "eu-1", "--drain", "s06", "--operation", "P1", "--json"}
	first := o.must(publish...)
	open := []string{"cell", "open", "eu-1", "--capacity", "80", "--operation", "C1"}
	o.must(open...)
	o.must("cell", "close", "eu-1", "--operation", "C2")
	if out := o.must(publish...); out != first {
		t.Errorf("published again, after other changes:\n%s\nwant\n%s", out, first)
	}
	o.must("topology", "publish", "eu-1", "--without", "s06")
	o.must("topology", "publish", "eu-1", "--replace", "s01=s03", "--operation", "P3")
	before := o.everything()
	if out := o.must(publish...); out != first {
		t.Errorf("published again, after another topology:\n%s\nwant\n%s", out, first)
	}
	if got := lines[shownTopology](o, o.must("topology", "publish", "eu-1", "--replace", "s01=s03", "--operation", "P3", "--json")); got[0].Version != 4 {
		t.Errorf("a replacement, published again: version %d, want 4", got[0].Version)
	}
	for _, args := range [][]string{open, {"cell", "close", "eu-1", "--operation", "C2"}} {
		code, out, errs := o.run(args...)
		if later := strings.Contains(errs, "was done before, and the cell was changed since"); code != ExitDone || out == "" || !later {
			t.Errorf("%v again: status %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
	if after := o.everything(); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
	for _, args := range [][]string{
		{"topology", "publish", "eu-1", "--drain", "s05", "--operation", "P1"},
		{"topology", "publish", "eu-1", "--operation", "C1"},
		{"cell", "open", "eu-1", "--capacity", "81", "--operation", "C1"},
		{"cell", "close", "eu-1", "--operation", "P1"},
	} {
		o.refused(ExitFound, "the operation id was used for another change", args...)
	}
}

// A suspension that was lifted is found done, with the placement key and without.
func TestSuspendRepeated(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	suspend := []string{"tenant", "suspend", "acme", "--operation", "S1"}
	o.must(suspend...)
	o.must("tenant", "resume", "acme")
	before := o.everything()
	const want = "suspended at epoch 3, and changed since"
	if out := o.must(suspend...); !strings.Contains(out, want) {
		t.Errorf("again: %q, want %q", out, want)
	}
	if code, out, errs := o.bare(append(suspend, fileArg, "--by=ann")...); code != ExitDone || !strings.Contains(out, want) {
		t.Errorf("again, without a key: status %d, stdout %q, stderr %q", code, out, errs)
	}
	o.refused(ExitFound, "the operation id was used for another change", "tenant", "resume", "acme", "--operation", "S1")
	if after := o.everything(); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
}
