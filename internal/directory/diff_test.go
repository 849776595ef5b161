package directory_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
		if math.Abs(sum.Expected-minimum) > 1e-6*minimum {
			t.Errorf("%s: %v expected, want %v", scheme, sum.Expected, minimum)
		}
		// The new shard's seats, which come from elsewhere, and none of the others has more than before.
		if sum.Minimum > sum.Moved || math.Abs(float64(sum.Minimum)-minimum) > 5*math.Sqrt(minimum) {
			t.Errorf("%s: minimum %d of %d that move, about %v expected", scheme, sum.Minimum, sum.Moved, minimum)
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

// Whom a topology cannot place is told with the reason, and the others are counted all the same.
func TestDiffOfWhatCannotBePlaced(t *testing.T) {
	entries := func(yield func(directory.Entry, error) bool) {
		for _, e := range []directory.Entry{{Tenant: "pinned", Pins: []string{"s08"}}, {Tenant: "huge", Size: "huge"}, {Tenant: "t"}} {
			if !yield(e, nil) {
				return
			}
		}
	}
	left := map[string]string{}
	sum, err := directory.Diff(placer(t, placement.RendezvousV1, 8), placer(t, placement.RendezvousV1, 4), entries, func(m directory.Move) {
		if m.Why != nil {
			left[m.Tenant] = m.Why.Error()
		}
	})
	if err != nil || sum.Tenants != 3 || sum.Left != 2 || sum.Seats != 2 || !strings.Contains(left["pinned"], `no shard "s08"`) || !strings.Contains(left["huge"], `no size class "huge"`) {
		t.Errorf("%+v, %v, left %v", sum, err, left)
	}
}

// Few tenants lie far from an even spread: what any scheme must move is counted over them, and is never above
// what this one does.
func TestMinimumIsProved(t *testing.T) {
	for _, scheme := range []placement.Scheme{placement.RendezvousV1, placement.HMACv1} {
		for n := 5; n < 17; n++ {
			for tenants := range 40 {
				sum, err := directory.Diff(placer(t, scheme, n), placer(t, scheme, n+1), people(tenants), func(directory.Move) {})
				if err != nil || sum.Minimum > sum.Moved || sum.Minimum < 0 {
					t.Fatalf("%s, %d shards, %d tenants: %+v, %v", scheme, n, tenants, sum, err)
				}
				// All that rendezvous moves comes to the new shard, and none could be spared.
				if scheme == placement.RendezvousV1 && sum.Minimum != sum.Moved {
					t.Fatalf("%d shards, %d tenants: minimum %d, and %d move", n, tenants, sum.Minimum, sum.Moved)
				}
				// A seat on the shard that goes is forced, too.
				back, err := directory.Diff(placer(t, scheme, n+1), placer(t, scheme, n), people(tenants), func(directory.Move) {})
				if err != nil || back.Minimum > back.Moved || back.Minimum != back.Moved && scheme == placement.RendezvousV1 {
					t.Fatalf("%s, back to %d shards, %d tenants: %+v, %v", scheme, n, tenants, back, err)
				}
			}
		}
	}
}

// Pins go before the topology, so that a drained shard keeps those who are pinned to it.
func TestDiffTellsPinsOnDrainedShards(t *testing.T) {
	top := directory.Topology{Cell: "eu-1", Version: 1, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2, "whale": 4}, KeyVersion: "1"}
	for i := range 8 {
		top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Weight: 1, State: directory.InUse})
	}
	next := top
	next.Shards = slices.Clone(top.Shards)
	next.Shards[2].State = directory.Drained
	sum, err := directory.Diff(prepared(t, top), prepared(t, next), people(100), func(directory.Move) {})
	if err != nil || sum.Drained != 10 || sum.Minimum > sum.Moved {
		t.Errorf("%+v, %v; ten of a hundred are pinned to s03", sum, err)
	}
}

// A shard takes over the position of another: its tenants move to it, in the same places, and nobody else
// moves, whatever the scheme.
func TestPositionTakenOver(t *testing.T) {
	for _, scheme := range []placement.Scheme{placement.HMACv1, placement.RendezvousV1, placement.BoundedV1} {
		top := directory.Topology{Cell: "eu-1", Version: 1, Scheme: scheme, KBySize: map[string]int{"": 2}, KeyVersion: "1"}
		for i := range 16 {
			top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "ab"[i%2 : i%2+1], Weight: 1, State: directory.InUse})
		}
		if scheme == placement.BoundedV1 {
			top.MaxShared, top.Slots = 1, 64
		}
		next := top
		next.Version = 2
		next.Shards = append(slices.Clone(top.Shards), directory.Shard{ID: "s17", Zone: "a", Weight: 1, State: directory.InUse, Position: "s03"})
		next.Shards[2].State = directory.Drained
		for _, x := range []directory.Topology{top, next} {
			if err := x.Check([]string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
		}
		from, to := prepared(t, top), prepared(t, next)
		sum, err := directory.Diff(from, to, func(yield func(directory.Entry, error) bool) {
			for i := range 64 {
				e := directory.Entry{Tenant: fmt.Sprint("t", i)}
				if scheme == placement.BoundedV1 {
					e.Slot = uint64(i) + 1
				}
				if !yield(e, nil) {
					return
				}
			}
		}, func(m directory.Move) {
			at := slices.Index(m.From, "s03")
			if want := slices.Clone(m.From); at < 0 {
				t.Errorf("%s: %s moves from %v to %v", scheme, m.Tenant, m.From, m.To)
			} else if want[at] = "s17"; !slices.Equal(m.To, want) {
				t.Errorf("%s: %s moves from %v to %v, want %v", scheme, m.Tenant, m.From, m.To, want)
			}
		})
		// Each of 16 shards has 2/16 of the tenants, and what moves is the least that can.
		if err != nil || sum.Moving == 0 || math.Abs(sum.Expected-64*2.0/16) > 1e-9 || sum.Minimum != sum.Moved || from.Anew(to) {
			t.Errorf("%s: %+v, %v, anew %v", scheme, sum, err, from.Anew(to))
		}
	}
}

func prepared(t *testing.T, top directory.Topology) *directory.Placer {
	t.Helper()
	p, err := top.Placer([]byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Tenants come from a scheme without slots to one with: they are counted as if they had slots, up to the
// last one.
func TestDiffToSlots(t *testing.T) {
	top := directory.Topology{Cell: "eu-1", Version: 2, Scheme: placement.BoundedV1, KBySize: map[string]int{"": 2}, KeyVersion: "1", MaxShared: 1, Slots: 25}
	for i := range 10 {
		top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "ab"[i%2 : i%2+1], Weight: 1, State: directory.InUse})
	}
	from, to := placer(t, placement.RendezvousV1, 10), prepared(t, top)
	var left error
	count := func(n int) (directory.DiffSum, error) {
		return directory.Diff(from, to, func(yield func(directory.Entry, error) bool) {
			for i := range n {
				if !yield(directory.Entry{Tenant: fmt.Sprint("t", i)}, nil) {
					return
				}
			}
		}, func(m directory.Move) {
			if m.Why != nil {
				left = m.Why
			}
		})
	}
	if sum, err := count(25); err != nil || sum.Tenants != 25 || sum.Moving < 15 || sum.Expected > 1e-9 || sum.Minimum > sum.Moved || !from.Anew(to) {
		t.Errorf("%+v, %v", sum, err)
	}
	if sum, err := count(26); err != nil || sum.Left != 1 || !errors.Is(left, directory.ErrNoSlot) {
		t.Errorf("one more than there are slots: %+v, %v, left with %v", sum, err, left)
	}
}
