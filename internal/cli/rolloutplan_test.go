package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// rolloutPlan is what rollout plan --json prints.
func (o *office) rolloutPlan(run func(...string) (int, string, string), args ...string) rolloutReport {
	o.Helper()
	code, out, errs := run(append([]string{"rollout", "plan", "--json"}, args...)...)
	var r rolloutReport
	if err := json.Unmarshal([]byte(out), &r); code != ExitDone || err != nil {
		o.Fatalf("status %d, %v\n%s%s", code, err, out, errs)
	}
	return r
}

const rolloutWaves = "rollout: {waves: [{cells: [eu-canary], bake: 1h}, {percent: 60, bake: 12h}, {percent: 100, bake: 90m}]}\n"

func TestRolloutPlanByShards(t *testing.T) {
	o := newOffice(t)
	o.write("fleet.yaml", directoryFleet+rolloutWaves)
	r := o.rolloutPlan(o.bare)
	if r.Service != "orders" || r.Sizes != "shards" || r.Tenants != nil || r.AtOnce != 1 || r.Shards != 16 || r.Key != "" {
		t.Errorf("%+v", r)
	}
	if want := 2 * (1 + 12 + 1.5) * 3600; r.Bakes != want { // two zones, and so two stages, a cell
		t.Errorf("bakes take %v s, want %v", r.Bakes, want)
	}
	var cells [][]string
	for _, w := range r.Waves {
		cells = append(cells, w.Cells)
	}
	if want := [][]string{{"eu-canary"}, {"eu-1"}, {"us-1"}}; !reflect.DeepEqual(cells, want) || r.Waves[0].Reached != 25 || r.Waves[2].Reached != 100 {
		t.Errorf("%v, want %v; %+v", cells, want, r.Waves)
	}
	if s := r.Waves[0].Stages; len(s) != 2 || s[0].Zone != "eu-west-1a" || !reflect.DeepEqual(s[0].Shards, []string{"s01", "s03"}) || s[0].Whole != nil || s[0].Twice != nil {
		t.Errorf("%+v", s)
	}
	code, out, errs := o.bare("rollout", "plan")
	for _, want := range []string{"at most 1 cell at once", "2 of 12h0m0s", "24h0m0s", "The bakes take 29h0m0s. How long the deployments take is not known", "percents count shards"} {
		if code != ExitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is missing:\n%s%s", code, want, out, errs)
		}
	}
}

// One wave of seven cells goes two at a time, and each batch bakes after the stages of its longest cell.
func TestRolloutPlanInBatches(t *testing.T) {
	o := newOffice(t)
	file, _, _ := strings.Cut(directoryFleet, "cells:\n")
	file += "accounts: {\"111111111111\": {lambdaConcurrency: 3000}}\ncells:\n"
	for i := range 7 {
		zones := []string{"a, b", "a, b, c"}[i/6] // the last cell has three
		file += fmt.Sprintf("  - {name: c%d, account: %q, region: eu-west-1, zones: [%s], shards: 3}\n", i, "111111111111", zones)
	}
	o.write("fleet.yaml", file+"rollout: {waves: [{percent: 100, bake: 1h}]}\n")
	w := o.rolloutPlan(o.bare).Waves[0]
	if want := [][]string{{"c0"}, {"c1", "c2"}, {"c3", "c4"}, {"c5", "c6"}}; !reflect.DeepEqual(w.Batches, want) {
		t.Errorf("%v, want %v", w.Batches, want)
	}
	if w.Steps != 2+2+2+3 || w.Total != 9*3600 {
		t.Errorf("%d bakes, %v s", w.Steps, w.Total)
	}
}

// With a directory percents count tenants, and each stage those who are whole on the new version, or have two
// shards in it.
func TestRolloutPlanByTenants(t *testing.T) {
	o := openOffice(t)
	o.write("fleet.yaml", directoryFleet+rolloutWaves)
	if r := o.rolloutPlan(o.run); r.Sizes != "shards" || *r.Tenants != 0 || r.Key != "file" {
		t.Errorf("without tenants: %+v", r)
	}
	for _, tenant := range []string{"a", "b", "c", "d"} {
		o.must("tenant", "add", tenant)
	}
	o.must("tenant", "add", "orca", "--size", "whale") // three shards in two zones
	o.must("tenant", "pin", "a", "s01", "s03")         // both in zone a
	o.must("shard", "drain", "eu-1/s06")
	r := o.rolloutPlan(o.run)
	if r.Sizes != "tenants" || *r.Tenants != 5 || len(r.Waves) != 3 || *r.Waves[1].Tenants != 5 || *r.Waves[2].Tenants != 0 {
		t.Fatalf("%+v", r)
	}
	// All tenants are in eu-1, which is above 60 %, and goes alone.
	if r.Waves[0].Reached != 0 || r.Waves[1].Reached != 100 || !reflect.DeepEqual(r.Waves[1].Cells, []string{"eu-1"}) {
		t.Errorf("%+v", r.Waves)
	}
	a, b := r.Waves[1].Stages[0], r.Waves[1].Stages[1]
	if *a.Whole != 1 || *b.Whole != 5 || *a.Twice+*b.Twice != 2 || *a.Twice < 1 || len(a.Shards) != 3 || len(b.Shards) != 3 {
		t.Errorf("%d and %d whole, %d and %d twice", *a.Whole, *b.Whole, *a.Twice, *b.Twice)
	}
	if code, _, errs := o.bare("rollout", "plan", fileArg, "--by=ann"); code != ExitDone || !strings.Contains(errs, "example key") {
		t.Errorf("without a key: status %d, %s", code, errs)
	}
	if code, out, errs := o.run("rollout", "plan"); code != ExitDone || strings.Contains(out, "unknown") {
		t.Errorf("status %d: %s%s", code, out, errs)
	}
	o.write("fleet.yaml", strings.Replace(directoryFleet, "eu-west-1, zones: [a, b], shards: 6", "eu-west-1, zones: [a, b], shards: 5", 1))
	o.refused(ExitFound, `shard "s06" is not in the fleet's cell "eu-1" any more`, "rollout", "plan")
	o.write("fleet.yaml", strings.Replace(directoryFleet, "service: orders", "service: bills", 1))
	if code, out, errs := o.run("rollout", "plan"); code != ExitUsage || out != "" {
		t.Errorf("another service's directory: status %d, %s%s", code, out, errs)
	}
}

func TestRolloutPlanRefuses(t *testing.T) {
	o := newOffice(t)
	for _, c := range []struct{ waves, words string }{
		{"{cells: [eu-9]}, {percent: 100}", `did you mean eu-1?`},
		{"{cells: [eu-1]}", "no wave reaches eu-canary, us-1"},
		{"{cells: [eu-1]}, {cells: [eu-1]}, {percent: 100}", `"eu-1" again`},
	} {
		o.write("fleet.yaml", directoryFleet+"rollout: {waves: ["+c.waves+"]}\n")
		if code, out, errs := o.bare("rollout", "plan"); code != ExitUsage || out != "" || !strings.Contains(errs, c.words) {
			t.Errorf("%s: status %d, %s%s", c.waves, code, out, errs)
		}
	}
	if code, _, _ := o.bare("rollout", "plan", "eu-1"); code != ExitUsage {
		t.Errorf("an argument: status %d", code)
	}
	if got := bakeText(1e12); got != "2.78e+08h" {
		t.Errorf("many bakes are %s", got)
	}
}
