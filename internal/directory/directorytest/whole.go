package directorytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// Clients make changes of every kind at the same time over a bad line, each as it was asked for until its answer
// comes. Afterwards entries, histories, counters, slots and listings agree, and the history has what was told
// done once, and nothing of what was refused.
func whole(t *testing.T, r rules) {
	const clients, calls, tenants = 12, 30, 10
	addCell(t, r.Directory, directory.Cell{Name: "ap-1", Headroom: 30}, 1000)
	publish(t, r.Directory, slotted("ap-1", 1, 16))
	d, err := directory.Open(t.Context(), newFaulty(t, r.home))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	told := make([]map[string]bool, clients) // by tenant and operation: whether it was done
	for client := range clients {
		told[client] = map[string]bool{}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 2))
			for i := range calls {
				c := change(fmt.Sprintf("op-%d-%d", client, i))
				tenant := fmt.Sprint("t", rng.IntN(tenants))
				before, err := d.Get(t.Context(), tenant)
				if err != nil && !errors.Is(err, directory.ErrNotFound) {
					t.Errorf("client %d: %v", client, err)
					return
				}
				load, after := directory.Rate(rng.IntN(10_000)), next(rng, before)
				_, err = persist(func() (directory.Entry, error) {
					if before.Epoch == 0 {
						return d.Place(t.Context(), directory.SignUp{Tenant: tenant, Load: load}, c)
					}
					return d.Replace(t.Context(), before, after, c)
				})
				told[client][tenant+" "+c.Operation] = err == nil
				if err != nil && !errors.Is(err, directory.ErrExists) && !errors.Is(err, directory.ErrStale) && !errors.Is(err, directory.ErrSlotTaken) {
					t.Errorf("client %d: %v", client, err)
				}
			}
		})
	}
	wg.Wait()
	agree(t, r)
	logged := map[string]int{}
	for i := range tenants {
		tenant := fmt.Sprint("t", i)
		lines, err := r.Directory.History(t.Context(), tenant, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			logged[tenant+" "+line.After.Operation]++
		}
	}
	for client := range clients {
		for what, done := range told[client] {
			if n := logged[what]; n > 1 || (n == 1) != done {
				t.Errorf("%s is in the history %d times, and was told done: %t", what, n, done)
			}
		}
	}
}

// next is a change that the diagram allows.
func next(rng *rand.Rand, e directory.Entry) directory.Entry {
	e = e.Clone()
	e.Load = directory.Rate(rng.IntN(10_000))
	switch e.State {
	case directory.Active:
		e.State = []directory.State{directory.Active, directory.Suspended, directory.Moving}[rng.IntN(3)]
		e.Pins = [][]string{nil, {"s01"}, {"s02", "s03"}}[rng.IntN(3)]
	case directory.Moving:
		e.State = directory.Active
		e.Cell = []string{"eu-1", "us-1", "ap-1"}[rng.IntN(3)]
		if e.Topology, e.Slot = 1, 0; e.Cell == "ap-1" {
			e.Slot = rng.Uint64N(200) + 1
		}
	default:
		e.State = directory.Active
	}
	return e
}

// agree fails unless all that is derived from the entries is as the entries say.
func agree(t *testing.T, r rules) {
	t.Helper()
	entries, err := r.Directory.List(t.Context(), "", 1000)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	want := map[string]directory.Cell{}
	slots := map[string]string{}
	for _, e := range entries {
		c := want[e.Cell]
		c.Load += e.Load
		c.Tenants++
		for _, pin := range e.Pins {
			if c.Pinned == nil {
				c.Pinned = map[string]directory.Rate{}
			}
			c.Pinned[pin] += (e.Load + directory.Rate(len(e.Pins)) - 1) / directory.Rate(len(e.Pins))
		}
		want[e.Cell] = c
		if at := fmt.Sprint(e.Cell, e.Slot); e.Slot > 0 {
			if slots[at] != "" {
				t.Errorf("%s and %s have one slot", slots[at], e.Tenant)
			}
			slots[at] = e.Tenant
		}
		lines, err := r.Directory.History(t.Context(), e.Tenant, 0, 1000)
		if err != nil || len(lines) != int(e.Epoch) {
			t.Errorf("%s has epoch %d and %d lines of history, %v", e.Tenant, e.Epoch, len(lines), err)
			continue
		}
		for i, line := range lines {
			if line.After.Epoch != uint64(i+1) || i > 0 && !directory.Step(line.Before.State, line.After.State) {
				t.Errorf("%s, line %d: %+v", e.Tenant, i, line)
			}
		}
		if diff := cmp.Diff(e, lines[len(lines)-1].After); diff != "" {
			t.Errorf("the last line of %s (-entry +line):\n%s", e.Tenant, diff)
		}
	}
	for name, c := range want {
		c.Name = name
		for shard, load := range c.Pinned {
			if load == 0 {
				delete(c.Pinned, shard)
			}
		}
		r.cellIs(t, c)
		byCell, err := r.ListCell(t.Context(), name, "", 1000)
		if err != nil || int64(len(byCell)) != c.Tenants {
			t.Errorf("%d tenants are listed in %s, %v; want %d", len(byCell), name, err, c.Tenants)
		}
	}
}

// Tenants come, change state and change cells while they are listed: whoever stays in a listing's range is
// in it exactly once.
func listedOnce(t *testing.T, r rules) {
	const n = 20
	entries := make([]directory.Entry, n)
	for i := range n {
		entries[i] = r.create(t, entry(fmt.Sprintf("stay%02d", i), directory.Active))
	}
	lists := map[string]func(after string) ([]directory.Entry, error){
		"all":  func(after string) ([]directory.Entry, error) { return r.Directory.List(t.Context(), after, 3) },
		"cell": func(after string) ([]directory.Entry, error) { return r.ListCell(t.Context(), "eu-1", after, 3) },
		"state": func(after string) ([]directory.Entry, error) {
			return r.ListState(t.Context(), directory.Active, after, 3)
		},
	}
	for name, list := range lists {
		seen := map[string]int{}
		for after, page := "", 0; ; page++ {
			got, err := list(after)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got {
				seen[e.Tenant]++
				after = e.Tenant
			}
			if len(got) < 3 {
				break
			}
			// One comes, one that stays changes, and one goes.
			come := r.create(t, entry(fmt.Sprintf("come-%s-%02d", name, page), directory.Active))
			i := page % n
			entries[i] = r.replace(t, entries[i], fmt.Sprintf("pin-%s-%d", name, page), func(e *directory.Entry) { e.Pins = []string{"s01"} })
			come = r.replace(t, come, "begin", func(e *directory.Entry) { e.State = directory.Moving })
			if page%2 == 0 {
				r.replace(t, come, "go", func(e *directory.Entry) { e.State, e.Cell = directory.Active, "us-1" })
			}
		}
		for tenant, times := range seen {
			if times > 1 {
				t.Errorf("%s: %s is listed %d times", name, tenant, times)
			}
		}
		for _, e := range entries {
			if seen[e.Tenant] != 1 {
				t.Errorf("%s: %s is listed %d times, want once", name, e.Tenant, seen[e.Tenant])
			}
		}
	}
}

func named(t *testing.T, r rules) {
	top := topology("eu-1", 4)
	top.Shards = append(top.Shards[1:], directory.Shard{ID: "s09", Weight: 1, State: directory.Drained})
	publish(t, r.Directory, top)
	for v := range uint64(2) {
		if _, err := r.Retire(t.Context(), "eu-1", v+1, change(fmt.Sprint("retire ", v+1))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Named(t.Context(), "eu-1")
	if err != nil || len(got) != 9 {
		t.Fatalf("%v, %v", got, err)
	}
	for shard, versions := range map[string][]uint64{"s01": {3}, "s02": {3, 4}, "s09": {4}} {
		if !slices.Equal(got[shard], versions) {
			t.Errorf("%s is named by %v, want %v", shard, got[shard], versions)
		}
	}
}
