package directorytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// Holder is the contract of directory.Holder. open returns one in which nobody holds anybody; cells and
// shards may have any name of 1 to 16 characters.
func Holder(t *testing.T, open func(t *testing.T) directory.Holder) {
	t.Run("HoldRaises", func(t *testing.T) {
		h := open(t)
		for _, step := range []struct{ hold, want uint64 }{{3, 3}, {3, 3}, {2, 3}, {7, 7}} {
			if err := h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: step.hold}); err != nil {
				t.Fatal(err)
			}
			if got, ok, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || !ok || got != (directory.Holding{Tenant: "acme", Epoch: step.want}) {
				t.Errorf("after holding at %d: %+v, %t, %v; want epoch %d", step.hold, got, ok, err, step.want)
			}
		}
	})
	t.Run("ReleaseLeavesLater", func(t *testing.T) {
		h := open(t)
		release := func(epoch uint64, want bool) {
			t.Helper()
			if err := h.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: epoch}); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || ok != want {
				t.Errorf("after release at %d: held %t, %v; want %t", epoch, ok, err, want)
			}
		}
		release(1, false)
		if err := h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 5}); err != nil {
			t.Fatal(err)
		}
		release(4, true)
		release(5, false)
		release(9, false)
	})
	t.Run("LateHold", func(t *testing.T) { lateHold(t, open(t)) })
	t.Run("ListsPastThoseLetGo", func(t *testing.T) { listsPastGone(t, open(t)) })
	t.Run("Forgets", func(t *testing.T) { forgets(t, open(t)) })
	t.Run("ShardsAreApart", func(t *testing.T) {
		h := open(t)
		if err := h.Hold(t.Context(), "ab", "c", directory.Holding{Tenant: "def", Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		for _, other := range [][3]string{{"a", "bc", "def"}, {"ab", "cd", "ef"}, {"ab", "c", "de"}, {"ab", "c", "defg"}, {"abc", "c", "def"}} {
			if _, ok, err := h.Held(t.Context(), other[0], other[1], other[2]); err != nil || ok {
				t.Errorf("%q: held %t, %v", other, ok, err)
			}
		}
		if list, err := h.Holdings(t.Context(), "ab", "cd", "", 10); err != nil || len(list) > 0 {
			t.Errorf("another shard lists %v, %v", list, err)
		}
	})
	t.Run("HoldingsInPages", func(t *testing.T) {
		h := open(t)
		want := map[string]uint64{"ü/€ \n": 3}
		for i := range 24 {
			want[fmt.Sprintf("t%02d", i)] = uint64(i + 1)
		}
		for tenant, epoch := range want {
			if err := h.Hold(t.Context(), "eu-1", "s02", directory.Holding{Tenant: tenant, Epoch: epoch}); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]uint64{}
		for after := ""; ; {
			page, err := h.Holdings(t.Context(), "eu-1", "s02", after, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range page {
				if _, twice := got[one.Tenant]; twice {
					t.Errorf("%q is listed twice", one.Tenant)
				}
				got[one.Tenant], after = one.Epoch, one.Tenant
			}
			if len(page) < 7 {
				break
			}
		}
		for tenant, epoch := range want {
			if got[tenant] != epoch {
				t.Errorf("tenant %q is listed with epoch %d, want %d", tenant, got[tenant], epoch)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d tenants are listed, want %d", len(got), len(want))
		}
		if _, err := h.Holdings(t.Context(), "eu-1", "s02", "", 0); err == nil {
			t.Error("limit 0 is accepted")
		}
	})
	t.Run("AtOnce", func(t *testing.T) {
		h := open(t)
		var wg sync.WaitGroup
		errs := make([]error, 32)
		for i := range errs {
			wg.Go(func() {
				errs[i] = h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: uint64(i + 1)})
			})
		}
		wg.Wait()
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			t.Fatal(errs[i])
		}
		if got, _, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || got.Epoch != 32 {
			t.Errorf("held at %d, %v; want 32", got.Epoch, err)
		}
	})
	t.Run("ChangesAtOnce", func(t *testing.T) { heldAtOnce(t, directory.NewMemory(), open(t)) })
	t.Run("ManyAtOnce", func(t *testing.T) { manyAtOnce(t, open(t)) })
}

// act is one request to a holder of shard eu-1/s01, and the epoch at which acme is held then, 0 when it is not.
type act struct {
	do    func(context.Context, string, string, directory.Holding) error
	epoch uint64
	want  uint64
}

func runActs(t *testing.T, h directory.Holder, acts []act) {
	t.Helper()
	for i, a := range acts {
		if err := a.do(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: a.epoch}); err != nil {
			t.Fatal(err)
		}
		got, ok, err := h.Held(t.Context(), "eu-1", "s01", "acme")
		if err != nil || ok != (a.want > 0) || got.Epoch != a.want {
			t.Errorf("step %d, at epoch %d: held %t at %d, %v; want %d", i+1, a.epoch, ok, got.Epoch, err, a.want)
		}
		list, err := h.Holdings(t.Context(), "eu-1", "s01", "", 10)
		if err != nil || (len(list) > 0) != (a.want > 0) || a.want > 0 && list[0] != (directory.Holding{Tenant: "acme", Epoch: a.want}) {
			t.Errorf("step %d, at epoch %d: lists %v, %v; want epoch %d", i+1, a.epoch, list, err, a.want)
		}
	}
}

// What a shard let go it does not hold again by a word that comes late.
func lateHold(t *testing.T, h directory.Holder) {
	hold, release := h.Hold, h.Release
	if m, ok := h.(directory.ManyHolder); ok {
		hold = func(ctx context.Context, cell, shard string, one directory.Holding) error {
			return m.HoldMany(ctx, cell, shard, []directory.Holding{one})
		}
	}
	runActs(t, h, []act{
		{release, 3, 0}, // of nothing
		{hold, 2, 0}, {hold, 3, 0}, {hold, 4, 4}, {release, 3, 4}, {hold, 4, 4},
		{release, 6, 0}, {release, 5, 0}, {hold, 6, 0}, {h.Hold, 6, 0}, {hold, 7, 7}, {h.Hold, 9, 9}, {release, 9, 0}, {hold, 9, 0},
	})
}

// A shard that forgot holds the tenant at any epoch; one that holds it above the epoch does not forget.
func forgets(t *testing.T, h directory.Holder) {
	f, ok := h.(directory.Forgetter)
	if !ok {
		t.Skip("it cannot forget")
	}
	runActs(t, h, []act{
		{f.Forget, 1, 0}, {h.Hold, 1, 1}, {f.Forget, 1, 0}, {h.Hold, 1, 1}, {h.Hold, 5, 5}, {f.Forget, 4, 5}, {h.Release, 5, 0},
		{f.Forget, 4, 0}, {h.Hold, 5, 0}, {f.Forget, 5, 0}, {h.Hold, 1, 1},
	})
}

// Pages are as long as they can be, though most of those between were let go.
func listsPastGone(t *testing.T, h directory.Holder) {
	var want []directory.Holding
	for i := range 60 {
		one := directory.Holding{Tenant: fmt.Sprintf("t%02d", i), Epoch: 2}
		if err := h.Hold(t.Context(), "eu-1", "s01", one); err != nil {
			t.Fatal(err)
		}
		if i%7 == 3 {
			want = append(want, one)
			continue
		}
		if err := h.Release(t.Context(), "eu-1", "s01", one); err != nil {
			t.Fatal(err)
		}
	}
	var got []directory.Holding
	for after := ""; ; after = got[len(got)-1].Tenant {
		page, err := h.Holdings(t.Context(), "eu-1", "s01", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if len(page) < 3 {
			break
		}
	}
	slices.SortFunc(got, func(a, b directory.Holding) int { return cmp.Compare(a.Tenant, b.Tenant) })
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// A holder that takes many at once treats each as Hold does.
func manyAtOnce(t *testing.T, one directory.Holder) {
	h, ok := one.(directory.ManyHolder)
	if !ok {
		t.Skip("it takes one at a time")
	}
	const n = 130
	hold := func(epoch uint64, more ...directory.Holding) error {
		many := more
		for i := range n {
			many = append(many, directory.Holding{Tenant: fmt.Sprintf("t%03d", i), Epoch: epoch})
		}
		return h.HoldMany(t.Context(), "eu-1", "s01", many)
	}
	want := func(epoch func(i int) uint64) {
		t.Helper()
		list, err := h.Holdings(t.Context(), "eu-1", "s01", "", 2*n)
		if err != nil || len(list) != n {
			t.Fatalf("%d are listed, %v; want %d", len(list), err, n)
		}
		listed := map[string]uint64{}
		for _, l := range list {
			listed[l.Tenant] = l.Epoch
		}
		for i := range n {
			tenant := fmt.Sprintf("t%03d", i)
			if got, _, err := h.Held(t.Context(), "eu-1", "s01", tenant); err != nil || got.Epoch != epoch(i) || listed[tenant] != epoch(i) {
				t.Errorf("%s is held at %d and listed at %d, %v; want %d", tenant, got.Epoch, listed[tenant], err, epoch(i))
			}
		}
	}
	if err := h.HoldMany(t.Context(), "eu-1", "s01", nil); err != nil {
		t.Errorf("nobody: %v", err)
	}
	for _, there := range []directory.Holding{{Tenant: "t007", Epoch: 9}, {Tenant: "t008", Epoch: 1}, {Tenant: "t009", Epoch: 3}} {
		if err := h.Hold(t.Context(), "eu-1", "s01", there); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time, all is done
		if err := hold(3, directory.Holding{Tenant: "t001", Epoch: 5}, directory.Holding{Tenant: "t001", Epoch: 2}); err != nil {
			t.Fatal(err)
		}
		want(func(i int) uint64 { return cmp.Or(map[int]uint64{1: 5, 7: 9}[i], 3) })
	}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for w := range errs { // in any order, the highest stays
		wg.Go(func() { errs[w] = hold(uint64(20 + w)) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		t.Fatal(errs[i])
	}
	want(func(int) uint64 { return 23 })
}
