package directorytest

import (
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
}
