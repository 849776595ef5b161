package main

import (
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
)

// TestLearn: a new snapshot's drains and suspects reach the trackers and the watch.
func TestLearn(t *testing.T) {
	entries, err := snapshot.Pack("eu-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	h, now := snapshot.NewHolder("eu-1"), time.Now()
	trackers := map[string]*health.Tracker{routing.ViaHTTP: health.New(health.Config{Lambda: true})}
	watch := poison.New(poison.Config{Lambda: true})
	learn(h, trackers, watch) // there is none
	err = h.Take(&snapshot.Snapshot{
		Cell: "eu-1", Generation: 1, Taken: now, Entries: entries, Health: []snapshot.Report{{Shard: "s01", Drained: true}},
		Suspects: []snapshot.Suspect{{Tenant: "acme", Until: now.Add(time.Minute)}, {Tenant: "mended", Until: now.Add(-time.Minute)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	learn(h, trackers, watch)
	if !trackers[routing.ViaHTTP].State("s01").Drained {
		t.Error("the drain is not learned")
	}
	if !watch.Suspect("acme") || watch.Suspect("mended") || watch.Suspect("other") {
		t.Errorf("suspects: acme %t, mended %t, other %t", watch.Suspect("acme"), watch.Suspect("mended"), watch.Suspect("other"))
	}
}
