package cli

import (
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/release"
)

// Whoever goes on with a rollout by another fleet's file is told so, and leaves no shard out.
func TestPlannedCells(t *testing.T) {
	const text = `
service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders, claim: tenant_id}
placement: {scheme: rendezvous/v1, perTenant: 2}
shard: {capacity: 1000, lambda: {asset: dist/worker, reservedConcurrency: 20}}
routes: [{path: /*, via: lambda}]
cells:
  - name: eu-1
    account: "222222222222"
    region: eu-west-1
    zones: [a, b]
    shards: [{id: s01, zone: a}, {id: s02, zone: b}, {id: s03, zone: a}, {id: s04, zone: b}]
rollout:
  waves: [{percent: 100, bake: 1h}]
`
	parse := func(text string) *fleet.Fleet {
		t.Helper()
		fl, err := fleet.Parse("fleet.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return fl
	}
	was := parse(text)
	spec, err := release.Plan(was, &release.Assembly{Digest: "sha256:0"}, release.Options{ID: "r-1"})
	if err != nil {
		t.Fatal(err)
	}
	if cells, changed := plannedCells(was, spec); changed != "" || len(cells) != 1 {
		t.Errorf("the very fleet: %d cells, %q changed", len(cells), changed)
	}
	for what, change := range map[string][2]string{
		"a shard is gone":           {", {id: s04, zone: b}", ""},
		"a shard came":              {"{id: s04, zone: b}", "{id: s04, zone: b}, {id: s05, zone: b}"},
		"a shard changed its zone":  {"{id: s03, zone: a}", "{id: s03, zone: b}"},
		"the cell lies elsewhere":   {"region: eu-west-1\n    zones", "region: eu-west-2\n    zones"},
		"the cell has another name": {"name: eu-1", "name: eu-2"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatal(what)
		}
		if _, changed := plannedCells(parse(strings.Replace(text, change[0], change[1], 1)), spec); changed != "eu-1" {
			t.Errorf("%s, and it is not noticed", what)
		}
	}
	// What changes no stage is no reason to refuse; nor is a rollout that was begun before layouts were noted.
	if _, changed := plannedCells(parse(strings.Replace(text, "bake: 1h", "bake: 2h", 1)), spec); changed != "" {
		t.Error("another bake is refused")
	}
	spec.Waves[0].Batches[0][0] = rollout.PlannedCell{Name: "eu-1", Stages: spec.Waves[0].Batches[0][0].Stages}
	if _, changed := plannedCells(was, spec); changed != "" {
		t.Error("a rollout without layouts is refused")
	}
}
