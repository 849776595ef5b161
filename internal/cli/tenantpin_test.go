package cli

import (
	"strings"
	"testing"
)

// With state on the shards, other pins would leave it behind.
func TestPinsStayWhereTheStateIs(t *testing.T) {
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	o.must("topology", "publish", "eu-1")
	o.must("tenant", "add", "computed")
	home := strings.Replace(directoryFleet, "  lambda: {asset: dist/worker, reservedConcurrency: 20}", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  state: {mode: home}\n  table: {}\n  capacity: 100", 1)
	o.write("fleet.yaml", home)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	o.must("tenant", "add", "acme")
	pins := o.entry("acme").Pins
	if len(pins) != 2 {
		t.Fatalf("pinned to %v; want the two shards that its state will lie on", pins)
	}
	o.refused(ExitFound, "each needs a move", "tenant", "pin", "acme", "s05", "s06")
	o.refused(ExitFound, "each needs a move", "tenant", "pin", "acme", pins[0])
	o.refused(ExitFound, "each needs a move", "tenant", "pin", "computed", "s01", "s02", "s03", "s04", "s05", "s06")
	o.refused(ExitUsage, `no shard "s99"`, "tenant", "pin", "acme", "s99")
	o.must("tenant", "pin", "acme", pins[1], pins[0]) // another order leaves nothing behind
	o.must("tenant", "suspend", "acme")
	o.refused(ExitFound, "each needs a move", "tenant", "pin", "acme", "s05", "s06") // its state is there all the same
	o.must("tenant", "pin", "computed", o.subset("computed")[0], o.subset("computed")[1])
	o.must("tenant", "unpin", "computed")
	if computed := o.subset("computed"); len(computed) != 2 {
		t.Errorf("computed: %v", computed)
	}
	// To where the scheme would have it otherwise.
	away := "s05 s06"
	if got := strings.Join(o.subset("computed"), " "); got == "s05 s06" || got == "s06 s05" {
		away = "s01 s02"
	}
	o.write("fleet.yaml", directoryFleet)
	o.must(append([]string{"tenant", "pin", "computed"}, strings.Fields(away)...)...)
	o.write("fleet.yaml", home)
	o.refused(ExitFound, "each needs a move", "tenant", "unpin", "computed")
}

// A pin as it stands is no change, unless it is the repetition of one.
func TestSamePins(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "pin", "acme", "s01", "s02", "--operation", "one")
	o.refused(ExitFound, "pinned to s01 s02 already", "tenant", "pin", "acme", "s01", "s02")
	o.must("tenant", "pin", "acme", "s01", "s02", "--operation", "one")
	if e := o.entry("acme"); e.Epoch != 3 {
		t.Errorf("epoch %d; want 3: placing, active, pinned once", e.Epoch)
	}
}

// Pins go before the topology: that they keep a drained shard in use is said wherever it comes up.
func TestPinsOnDrainedShards(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "add", "k6")
	o.must("tenant", "pin", "k6", "s06")
	if out := o.must("topology", "diff", "eu-1", "--drain", "s06"); !strings.Contains(out, "pinned to shards that topology 2 drains, and staying there: 1 tenant;") {
		t.Errorf("diff says %s", out)
	}
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	code, out, errs := o.run("topology", "migrate", "eu-1")
	if code != ExitDone || !strings.Contains(errs, "that topology 2 drains, and staying there: 1 tenant, of whom the first is k6") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	if got := lines[migrateReport](o, o.must("topology", "migrate", "eu-1", "--json")); got[0].On != 2 || got[0].Others != 0 || len(got[0].Drained) != 1 || got[0].Drained[0] != "k6" {
		t.Errorf("reported %+v", got)
	}
	if code, _, errs := o.run("tenant", "pin", "acme", "s01", "s06"); code != ExitDone || !strings.Contains(errs, "topology 2 drains s06") {
		t.Errorf("status %d, %s", code, errs)
	}
	if code, _, errs := o.run("tenant", "pin", "acme", "s01", "s02"); code != ExitDone || strings.Contains(errs, "drains") {
		t.Errorf("status %d, %s", code, errs)
	}
}

// What was done long ago is found done, and what stands now is told.
func TestRepeatedAfterOthers(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "suspend", "acme", "--operation", "one")
	o.must("tenant", "resume", "acme")
	code, out, errs := o.run("tenant", "suspend", "acme", "--operation", "one")
	if code != ExitDone || out != "suspended at epoch 3, and changed since: acme: cell eu-1, active, epoch 4\n" || !strings.Contains(errs, "the tenant was changed since") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}
