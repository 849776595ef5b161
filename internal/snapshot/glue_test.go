package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

type store func(cell string, version uint64) (directory.Topology, error)

func (s store) Topology(_ context.Context, cell string, version uint64) (directory.Topology, error) {
	return s(cell, version)
}

// The snapshot answers first, and what it lacks is asked for.
func TestKeysAndTopologies(t *testing.T) {
	h := NewHolder("eu-1")
	var err error
	asked := 0
	keys := h.Keys(func(context.Context, string, string) ([]byte, error) { asked++; return []byte("next"), err })
	topologies := h.Topologies(store(func(cell string, version uint64) (directory.Topology, error) {
		asked++
		return directory.Topology{Cell: cell, Version: version, KeyVersion: "next"}, err
	}))
	check := func(what, cell, version string, number uint64, wantKey, wantTopology string, wantAsked int) {
		t.Helper()
		asked = 0
		key, keyErr := keys(t.Context(), cell, version)
		topology, topologyErr := topologies.Topology(t.Context(), cell, number)
		if keyErr == nil && !strings.HasPrefix(string(key), wantKey) || topologyErr == nil && topology.KeyVersion != wantTopology || asked != wantAsked {
			t.Errorf("%s: key %q, topology's key %q, asked %d times", what, string(key), topology.KeyVersion, asked)
		}
		for _, e := range []error{keyErr, topologyErr} {
			if (e != nil) != (err != nil && wantAsked > 0) || e != nil && (!errors.Is(e, err) || !strings.Contains(e.Error(), "snapshot")) {
				t.Errorf("%s: %v", what, e)
			}
		}
	}
	check("no snapshot", "eu-1", "1", 1, "next", "next", 2)
	err = errDown
	check("no snapshot, stores down", "eu-1", "1", 1, "", "", 2)
	s := plainSnapshot(t, "eu-1", 1, epoch0)
	s.Topologies = []directory.Topology{{Cell: "eu-1", Version: 1, KeyVersion: "1"}}
	if err := h.Take(s); err != nil {
		t.Fatal(err)
	}
	check("stores down", "eu-1", "1", 1, "kkk", "1", 0)
	check("stores down, a new version", "eu-1", "2", 2, "", "", 2)
	err = nil
	check("a new version", "eu-1", "2", 2, "next", "next", 2)
	check("another cell's", "eu-2", "1", 1, "next", "next", 2)
}

func TestHealthForgetsSilentSources(t *testing.T) {
	h := NewHolder("eu-1")
	if _, _, ok := h.Health(); ok {
		t.Error("an empty holder knows of health")
	}
	s := plainSnapshot(t, "eu-1", 1, epoch0)
	full := Report{Shard: "s01", Healthy: 1, Targets: 2, Throttled: 3, QueueAge: 4, Drained: true}
	s.Health = []Report{full}
	s.Times = Times{Targets: epoch0.Add(-time.Minute), Throttles: epoch0.Add(-forgotten), Queues: epoch0.Add(-forgotten - 1), Drained: epoch0.Add(-24 * time.Hour)}
	if err := h.Take(s); err != nil {
		t.Fatal(err)
	}
	want := full
	want.QueueAge = 0
	taken, reports, ok := h.Health()
	if !ok || !taken.Equal(epoch0.Add(-forgotten)) || len(reports) != 1 || reports[0] != want || s.Health[0] != full {
		t.Errorf("%v, %+v, %t", taken, reports, ok)
	}
	s2 := plainSnapshot(t, "eu-1", 2, epoch0)
	s2.Health = []Report{full}
	if err := h.Take(s2); err != nil {
		t.Fatal(err)
	}
	if taken, reports, _ := h.Health(); !taken.Equal(epoch0) || reports[0] != (Report{Shard: "s01", Drained: true}) {
		t.Errorf("nothing was ever observed: %v, %+v", taken, reports)
	}
}
