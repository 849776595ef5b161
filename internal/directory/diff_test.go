package directory_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

func placer(t *testing.T, scheme placement.Scheme, shards int) *directory.Placer {
	t.Helper()
	top := directory.Topology{Cell: "eu-1", Version: 1, Scheme: scheme, KBySize: map[string]int{"": 2, "whale": 4}, KeyVersion: "1"}
	for i := range shards {
		top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Weight: 1, State: directory.InUse})
	}
	p, err := top.Placer([]byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func people(n int) func(func(directory.Entry, error) bool) {
	return func(yield func(directory.Entry, error) bool) {
		for i := range n {
			e := directory.Entry{Tenant: fmt.Sprint("t", i)}
			switch i % 10 {
			case 0:
				e.Size = "whale"
			case 1:
				e.Pins = []string{"s03"}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Against the closed form: one shard more of n takes k/(n+1) of each tenant's seats, which rendezvous
// moves and no more; hmac draws all subsets anew.
func TestDiffAgainstTheMinimum(t *testing.T) {
	const n, tenants = 8, 20_000
	seats := tenants * (8*2 + 1*4 + 1) / 10
	minimum := float64(tenants) * (8*2.0/(n+1) + 4.0/(n+1)) / 10
	for scheme, share := range map[placement.Scheme]float64{placement.RendezvousV1: 1, placement.HMACv1: 5} {
		moves := 0
		sum, err := directory.Diff(placer(t, scheme, n), placer(t, scheme, n+1), people(tenants), func(m directory.Move) {
			moves++
			if slices.Equal(m.From, m.To) {
				t.Errorf("%s moves from %v to %v", m.Tenant, m.From, m.To)
			}
		})
		if err != nil || sum.Tenants != tenants || sum.Seats != seats || sum.Moving != moves {
			t.Errorf("%s: %+v and %d moves, %v", scheme, sum, moves, err)
		}
		if math.Abs(sum.Minimum-minimum) > 1e-6*minimum {
			t.Errorf("%s: minimum %v, want %v", scheme, sum.Minimum, minimum)
		}
		// Five standard deviations of so many seats, each moved by chance.
		slack := 5 * math.Sqrt(minimum)
		if moved := float64(sum.Moved); share == 1 && math.Abs(moved-minimum) > slack || share > 1 && moved < share*minimum {
			t.Errorf("%s moves %v seats, with a minimum of %v", scheme, moved, minimum)
		}
	}
}

func TestDiffOfTheSame(t *testing.T) {
	p := placer(t, placement.RendezvousV1, 8)
	sum, err := directory.Diff(p, p, people(1000), func(m directory.Move) { t.Errorf("%+v", m) })
	if err != nil || sum.Moved != 0 || sum.Minimum != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestDiffOfWhatCannotBePlaced(t *testing.T) {
	p := placer(t, placement.RendezvousV1, 8)
	_, err := directory.Diff(p, placer(t, placement.RendezvousV1, 4), func(yield func(directory.Entry, error) bool) {
		yield(directory.Entry{Tenant: "t", Pins: []string{"s08"}}, nil)
	}, func(directory.Move) {})
	if err == nil {
		t.Error("a pin on a shard that is gone is placed")
	}
}
