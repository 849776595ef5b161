package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// roomy has shards that carry whatever tests put on them.
var roomy = strings.Replace(loose, "capacity: 100", "capacity: 100000", 1)

// weightedFleet has one zone and one shard that is chosen far more often.
var weightedFleet = strings.Replace(roomy, "zones: [a, b, c], shards: 7}",
	"zones: [a], shards: [{id: s01, zone: a, weight: 1000}, {id: s02, zone: a}, {id: s03, zone: a}, {id: s04, zone: a}]}", 1)

// Figures of a formula stand only where it holds: over zones they are those of subsets that are spread, and with
// weights and under bounded/v1 there are none. What was counted stands always.
func TestPlanNoise(t *testing.T) {
	spread := planJSON(t, ExitDone, roomy, planTenants(300), "--cell", "eu-1").Cells[0].Noise
	if spread.Model != "spread" || math.Abs(*spread.MeanOverlap-spread.Shared) > 0.05 || len(spread.Covered) != 3 || spread.Covered[0] != *spread.Identical || spread.AllInOneZone != 0 {
		t.Errorf("%+v, overlap %v", spread, *spread.MeanOverlap)
	}
	uniform := planJSON(t, ExitDone, strings.Replace(roomy, "placement: {", "placement: {scheme: hmac/v1, ", 1), planTenants(300), "--cell", "eu-1").Cells[0].Noise
	if uniform.Model != "uniform" || math.Abs(*uniform.Identical-1.0/21) > 1e-15 || uniform.AllInOneZone == 0 {
		t.Errorf("%+v", uniform)
	}
	weighted := planJSON(t, ExitDone, weightedFleet, planTenants(300), "--cell", "eu-1").Cells[0]
	if n := weighted.Noise; n.Model != "" || n.MeanOverlap != nil || n.Identical != nil || len(n.Overlap) != 0 || n.AllInOneZone != 1 || float64(*n.Overlapping) < 0.9*float64(n.Pairs) {
		t.Errorf("%+v", n)
	}
	status, out, _ := plan(t, weightedFleet, planTenants(300), "--cell", "eu-1")
	if status != ExitDone || !strings.Contains(out, "weights are unequal, so shards are") || strings.Contains(out, "unequal zones") || strings.Contains(out, "zones are unequal") || !strings.Contains(out, "no formula: shards have weights") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// Requests are told for a router that fails over with retries, too, and overload both ways.
func TestPlanRetriesHurt(t *testing.T) {
	requests := planJSON(t, ExitFound, planFleet, planTenants(60)+"whale,90\norca,250\n", "--cell", "eu-1").Cells[0].Requests
	calm, retried := requests[0], requests[1]
	if calm.Router != "failover" || calm.Retries != 0 || retried.Router != "failover" || retried.Retries != 2 {
		t.Fatalf("%+v", requests)
	}
	if retried.Utilisation <= calm.Utilisation || retried.Amplified <= calm.Amplified || retried.ServedFail > calm.ServedFail {
		t.Errorf("retries load nobody: %+v, %+v", calm, retried)
	}
	for _, r := range requests {
		if r.ServedFail > r.Served || r.FailedThen < 1 {
			t.Errorf("shards that fail answer more than those that refuse: %+v", r)
		}
	}
	_, out, _ := plan(t, planFleet, planTenants(60)+"whale,90\norca,250\n", "--cell", "eu-1")
	if !strings.Contains(out, "retries hurt: any member, dead or not, 2 at once, takes 1 shard more down than without") {
		t.Error(out)
	}
}

// A drained shard serves nobody, so that no plan counts it, and who is on an older topology is told.
func TestPlanLeavesDrainedShardsOut(t *testing.T) {
	o := openOffice(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		o.must("tenant", "add", id)
	}
	plan := func() *planReport {
		var r planReport
		if err := json.Unmarshal([]byte(o.must("plan", "--cell", "eu-1", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	if r := plan(); len(r.Cells[0].Shards) != 6 || r.Cells[0].Failures[0].Of != 6 || len(r.Assumed) != 0 {
		t.Errorf("%q, %+v", r.Assumed, r.Cells[0].Shards)
	}
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	if r := plan(); len(r.Cells[0].Shards) != 6 || len(r.Assumed) != 1 || !strings.Contains(r.Assumed[0], "6 tenants of eu-1 are measured where they are, on topologies before the newest, 2") {
		t.Errorf("%q, %+v", r.Assumed, r.Cells[0].Shards)
	}
	o.must("topology", "migrate", "eu-1")
	r := plan()
	if len(r.Cells[0].Shards) != 5 || r.Cells[0].Failures[0].Of != 5 || len(r.Assumed) != 1 || !strings.Contains(r.Assumed[0], "1 shard of eu-1 left out: drained, or in no topology that has tenants: s06") {
		t.Errorf("%q, %+v", r.Assumed, r.Cells[0].Shards)
	}
	if mean := r.Cells[0].Failures[0].Degraded.Tenants.Mean; math.Abs(mean-6*2.0/5) > 1e-9 {
		t.Errorf("%v tenants degraded on average", mean)
	}
	// One that a tenant is pinned to serves.
	o.must("tenant", "pin", "a", "s06", "s01")
	if r := plan(); len(r.Cells[0].Shards) != 6 || len(r.Assumed) != 0 {
		t.Errorf("%q, %+v", r.Assumed, r.Cells[0].Shards)
	}
}

// The plan that README shows is what the example's files give.
func TestReadmePlan(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "$ bin/cellwall plan ")
	block, _, ends := strings.Cut(rest, "```")
	line, shown, _ := strings.Cut(block, "\n")
	if !found || !ends || shown == "" {
		t.Fatal("README shows no plan")
	}
	t.Chdir(filepath.Join("..", ".."))
	status, out, errw := command("", append([]string{"plan"}, strings.Fields(line)...)...)
	if status != ExitFound || !strings.HasPrefix(out, shown) {
		t.Errorf("status %d, %s, not what README shows:\n%s\nbut\n%s", status, errw, shown, out[:min(len(out), 400)])
	}
}

// Nobody is placed in quarantine, so that no plan counts its shards.
func TestPlanLeavesTheQuarantineOut(t *testing.T) {
	with := strings.Replace(planFleet, "zones: [a, b, c], shards: 7}", "zones: [a, b, c], shards: 9, quarantine: [s08, s09]}", 1)
	r := planJSON(t, ExitDone, with, planTenants(63), "--cell", "eu-1")
	want := planJSON(t, ExitDone, planFleet, planTenants(63), "--cell", "eu-1")
	if len(r.Cells[0].Shards) != 7 || !slices.Contains(r.Assumed, "2 shards of eu-1 left out: the quarantine") {
		t.Errorf("%q, %+v", r.Assumed, r.Cells[0].Shards)
	}
	if got, want := r.Cells[0].Failures[0], want.Cells[0].Failures[0]; got.Of != 7 || got.Degraded.Tenants.Mean != want.Degraded.Tenants.Mean {
		t.Errorf("%+v, without a quarantine %+v", got, want)
	}
}
