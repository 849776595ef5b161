package directorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// Sign-ups, single entries and imports at once for more slots than there are, over a bad line: each slot goes
// to one tenant, whoever is told a slot has it, and a sign-up is refused only when none is left.
func slotsUnique(t *testing.T, r rules) {
	const q, slots = 8, 64
	r.closeAll(t)
	addCell(t, r.Directory, directory.Cell{Name: "ap-1", Headroom: 0}, 10_000)
	publish(t, r.Directory, slotted("ap-1", 1, q))
	d, err := directory.Open(t.Context(), newFaulty(t, r.home))
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed of the slots %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	entry := func(tenant string) directory.Entry {
		return directory.Entry{Tenant: tenant, Cell: "ap-1", State: directory.Active, Topology: 1, Slot: 1 + rng.Uint64N(slots), Load: 1}
	}
	var mu sync.Mutex
	told := map[string]uint64{} // slots by tenant, of those who were told that they have one
	refused := 0
	var wg sync.WaitGroup
	begin := func(what string, refusal error, do func() ([]directory.Entry, error)) {
		wg.Go(func() {
			all, err := persist(do)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				for _, e := range all {
					told[e.Tenant] = e.Slot
				}
			case errors.Is(err, refusal):
				refused++
			default:
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	for i := range slots + 10 {
		tenant := fmt.Sprint("t", i)
		begin(tenant, directory.ErrNoSlot, func() ([]directory.Entry, error) {
			e, err := d.Place(t.Context(), directory.SignUp{Tenant: tenant, Load: 1}, change(tenant))
			return []directory.Entry{e}, err
		})
		if i%4 != 0 {
			continue
		}
		one := entry(fmt.Sprint("created", i))
		begin(one.Tenant, directory.ErrSlotTaken, func() ([]directory.Entry, error) {
			e, err := d.Create(t.Context(), one, change(one.Tenant))
			return []directory.Entry{e}, err
		})
		some := []directory.Entry{entry(fmt.Sprint("first of ", i)), entry(fmt.Sprint("second of ", i))}
		begin(some[0].Tenant, directory.ErrSlotTaken, func() ([]directory.Entry, error) {
			got, err := d.Enrol(t.Context(), some, change(some[0].Tenant))
			if err == nil && (got.Created+got.Present != len(some) || len(got.Differ) > 0) {
				t.Errorf("enrolled %+v", got)
			}
			return some, err
		})
	}
	wg.Wait()
	have := map[string]uint64{}
	taken := map[uint64]string{}
	entries, err := r.Directory.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[byte]int{}
	for _, e := range entries {
		if taken[e.Slot] != "" || e.Slot < 1 || e.Slot > slots {
			t.Errorf("%s has slot %d, like %q", e.Tenant, e.Slot, taken[e.Slot])
		}
		taken[e.Slot], have[e.Tenant] = e.Tenant, e.Slot
		kinds[e.Tenant[0]]++
	}
	for tenant, slot := range told {
		if have[tenant] != slot {
			t.Errorf("%s was told slot %d, and has %d", tenant, slot, have[tenant])
		}
	}
	if len(taken) != slots || refused == 0 || kinds['t'] == 0 {
		t.Errorf("%d slots are taken by %v and %d were refused; want %d", len(taken), kinds, refused, slots)
	}
	agree(t, r)
}

// thief takes the slots of the first writes that take one, just before them, as often as it is to.
type thief struct {
	directory.Home
	times int
	steal func(slot string) error
}

func (h *thief) Write(ctx context.Context, b directory.Batch) error {
	i := slices.IndexFunc(b.Ops, func(op directory.Op) bool { return op.Key.Family() == "SLOT" })
	if i >= 0 && h.times > 0 {
		h.times--
		_, slot, _ := strings.Cut(b.Ops[i].Key.Sort, "#")
		if err := h.steal(slot); err != nil {
			return err
		}
	}
	return h.Home.Write(ctx, b)
}

// A migration that loses its slot takes another. Where it had the tenant held for the slots that it lost, the
// shards let go.
func slotLost(t *testing.T, r rules) {
	const lost = 3
	for _, times := range []int{1, lost} {
		cell := fmt.Sprint("ap-", times)
		h := directory.NewMemoryHolder()
		addCell(t, r.Directory, directory.Cell{Name: cell}, 1000)
		publish(t, r.Directory, topology(cell, 1))
		to := slotted(cell, 2, 8)
		publish(t, r.Directory, to)
		mover := "mover of " + cell
		first := directory.Entry{Tenant: mover, Cell: cell, State: directory.Active, Topology: 1, Load: 1}
		if _, err := directory.NewResidence(r.Directory, h, keys).Enrol(t.Context(), []directory.Entry{first}, change("import "+cell)); err != nil {
			t.Fatal(err)
		}
		stolen := 0
		d, err := directory.Open(t.Context(), &thief{r.home, times, func(slot string) error {
			stolen++
			e := directory.Entry{Tenant: fmt.Sprint("thief ", cell, stolen), Cell: cell, State: directory.Active, Topology: 2}
			if _, err := fmt.Sscan(strings.TrimLeft(slot, "0"), &e.Slot); err != nil {
				return err
			}
			_, err := r.Create(t.Context(), e, change(e.Tenant))
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		res := directory.NewResidence(d, h, keys)
		got, err := res.Migrate(t.Context(), directory.Migration{Cell: cell, To: 2}, "", 10, change("migrate"))
		e, getErr := r.Get(t.Context(), mover)
		if err != nil || getErr != nil || len(got.Failed)+len(got.Skipped) > 0 || e.Topology != 2 || stolen != times {
			t.Fatalf("%d stolen: %+v, %v; %+v, %v", stolen, got, err, e, getErr)
		}
		want, err := res.Subset(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		var held []string
		for _, s := range to.Shards {
			if _, ok, err := h.Held(t.Context(), cell, s.ID, mover); err != nil {
				t.Fatal(err)
			} else if ok {
				held = append(held, s.ID)
			}
		}
		slices.Sort(want)
		if !slices.Equal(held, want) {
			t.Errorf("after %d lost slots %v hold the tenant, want %v", times, held, want)
		}
	}
}
