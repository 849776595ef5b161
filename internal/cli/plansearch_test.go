package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/fleet"
)

// bruteForce places tenants on every pair of n and k, in its own way, and measures as plan does what fleets are: the
// first that keeps the budget is the smallest.
func bruteForce(t *testing.T, text, tenants string, step, mostN, mostK int) planPair {
	t.Helper()
	people, err := readColumns(strings.NewReader(tenants), "tenants", placementID, planColumns)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := step; n <= mostN; n += step {
		for k := 1; k <= min(n, mostK); k++ {
			cell := f.Cells[0]
			cell.Shards = nil
			for i := range n {
				cell.Shards = append(cell.Shards, fleet.ShardSpec{ID: fleet.CountedShard(i), Zone: cell.Zones[i%len(cell.Zones)], Weight: 1})
			}
			f.Placement.PerTenant = k
			in := &planInput{tenants: people, seconds: 1, loads: true}
			c, err := in.add(f, cell, exampleKey())
			if err != nil {
				continue
			}
			if err := in.deal(); err != nil {
				t.Fatal(err)
			}
			p, err := in.collect(c)
			if err != nil {
				continue
			}
			b := f.BudgetOf(cell)
			m := &cellMeasure{
				in: in, f: f, c: c, p: p, budget: lossBudget(b), sampling: planSampling, failed: min(b.ConcurrentFailures, n), capacity: float64(f.Shard.Capacity),
				out: &planned{Kept: true, PerTenant: k},
			}
			for _, step := range []func() error{m.failures, m.load, m.lines} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			if m.out.Kept && n > m.failed {
				return planPair{n, k}
			}
		}
	}
	return planPair{}
}

// No smaller pair than the answer keeps the budget, and the answer does: against every fleet with up to 24 shards and
// k up to 6, with random loads, budgets, schemes and failures, from a fleet that breaks it and from one that keeps it.
func TestPlanFindsTheSmallest(t *testing.T) {
	const seed = 20261130
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	answers := map[bool]int{}
	for round := range 30 {
		tenants := &strings.Builder{}
		tenants.WriteString("tenant,load\n")
		all, largest := 0, 0
		people := 20 + rng.IntN(40)
		if round%3 == 2 {
			people = 6 + rng.IntN(18) // that bounded/v1 has room for
		}
		for i := range people {
			load := 1 + rng.IntN(10)
			if rng.IntN(10) == 0 {
				load *= 8
			}
			all, largest = all+load, max(largest, load)
			fmt.Fprintf(tenants, "t%03d,%d\n", i, load)
		}
		failed := 1 + rng.IntN(2)
		degraded := 30 + rng.IntN(71)
		if round%5 == 0 {
			degraded = 100 // and the smallest that is possible at all does
		}
		budget := fmt.Sprintf("{concurrentFailures: %d, degradedTenants: %d%%, capacityLoss: %d%%, fullyDown: %d%%}", failed, degraded, 40+rng.IntN(61), 5*rng.IntN(3))
		scheme, step := "scheme: rendezvous/v1", 3
		switch round % 3 {
		case 1:
			scheme, step = "scheme: hmac/v1", 1
		case 2:
			scheme = "scheme: bounded/v1, maxShared: 1"
		}
		capacity := max(all/8, largest) + rng.IntN(50)
		if round%2 == 0 { // what is lost decides, and what is possible at all
			capacity = 2 * all
		}
		if round%4 == 1 { // one tenant is too big for a shard
			capacity = largest * 6 / 10
		}
		describe := func(n, k int) string {
			f := strings.Replace(loose, "perTenant: 2, sizes: {whale: {perTenant: 4}}", fmt.Sprintf("%s, perTenant: %d", scheme, k), 1)
			f = strings.Replace(f, "{concurrentFailures: 1, degradedTenants: 100%, capacityLoss: 50%, fullyDown: 0%}", budget, 1)
			f = strings.Replace(f, "capacity: 100", fmt.Sprintf("capacity: %d", capacity), 1)
			f = f[:strings.Index(f, "  - {name: eu-canary")] + f[strings.Index(f, "  - {name: eu-1"):]
			return strings.Replace(f, "shards: 7", fmt.Sprintf("shards: %d", n), 1)
		}
		want := bruteForce(t, describe(9, 2), tenants.String(), step, 24, 6)
		now := planPair{[]int{12, 15, 24, 27}[rng.IntN(4)], 2}
		status, _, errw := plan(t, describe(now.n, now.k), tenants.String(), "--cell", "eu-1")
		if status == ExitUsage { // bounded/v1 has no room there
			continue
		}
		ch := planJSON(t, status, describe(now.n, now.k), tenants.String(), "--cell", "eu-1").Cells[0].Choice
		got := planPair{ch.Shards, ch.PerTenant}
		answers[ch.Found]++
		if ch.Cut || ch.Now.Kept != (status == ExitDone) {
			t.Errorf("round %d: cut %v, kept %v, status %d: %s", round, ch.Cut, ch.Now.Kept, status, errw)
		}
		// Today's may have a number of shards, or a k, that brute force does not go through.
		smaller := func(a, b planPair) bool { return a.n < b.n || a.n == b.n && a.k < b.k }
		switch {
		case want.n > 0 && !ch.Found, want.n > 0 && smaller(want, got):
			t.Errorf("round %d, %s, %s: %v, and %v keeps it\n%s", round, scheme, budget, got, want, ch.Refused)
		case ch.Found && smaller(got, want) && got.k <= 6 && got.n%step == 0:
			t.Errorf("round %d, %s, %s: %v, brute force says %v", round, scheme, budget, got, want)
		}
		if ch.Found {
			if status, out, errw := plan(t, describe(got.n, got.k), tenants.String(), "--cell", "eu-1"); status != ExitDone {
				t.Errorf("round %d: %v is not kept: %s%s", round, got, out, errw)
			}
			if i := slices.IndexFunc(ch.Neighbours, func(n planTried) bool { return n.Shards == got.n && n.PerTenant == got.k }); i < 0 || !ch.Neighbours[i].Kept {
				t.Errorf("round %d: %v is not in its own table", round, got)
			}
		}
	}
	if answers[true] < 20 {
		t.Errorf("%v", answers)
	}
}
