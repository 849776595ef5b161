package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

func keys(context.Context, string, string) ([]byte, error) { return []byte("a key of the cell"), nil }

// watched is a holder that fails a test when it is told things in the wrong order, and a home that fails
// at a chosen step. A step is a write to either.
type watched struct {
	directory.Home
	directory.Holder
	steps, failAt int
}

var errStep = errors.New("the process ended here")

func (w *watched) step() error {
	if w.steps++; w.steps == w.failAt {
		return errStep
	}
	return nil
}

func (w *watched) Write(ctx context.Context, b directory.Batch) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Home.Write(ctx, b)
}

func (w *watched) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Holder.Hold(ctx, cell, shard, h)
}

func (w *watched) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Holder.Release(ctx, cell, shard, h)
}

// holders is which shards of eu-1 hold the tenant.
func holders(t *testing.T, h directory.Holder, tenant string) []string {
	t.Helper()
	var shards []string
	for i := range 8 {
		shard := fmt.Sprintf("s%02d", i+1)
		if _, ok, err := h.Held(t.Context(), "eu-1", shard, tenant); err != nil {
			t.Fatal(err)
		} else if ok {
			shards = append(shards, shard)
		}
	}
	return shards
}

// served fails unless every shard of the subset holds a tenant that is served, at an epoch not above the
// entry's.
func served(t *testing.T, res *directory.Residence, h directory.Holder, tenant string) directory.Entry {
	t.Helper()
	e, err := res.Get(t.Context(), tenant)
	if errors.Is(err, directory.ErrNotFound) {
		return directory.Entry{}
	}
	if err != nil {
		t.Fatal(err)
	}
	if e.State == directory.Placing {
		return e
	}
	subset, err := res.Subset(t.Context(), e)
	if err != nil || len(subset) == 0 {
		t.Fatalf("subset %v, %v", subset, err)
	}
	for _, shard := range subset {
		held, ok, err := h.Held(t.Context(), e.Cell, shard, tenant)
		if err != nil || !ok || held.Epoch > e.Epoch {
			t.Errorf("the entry has epoch %d, and its shard %s holds it: %t at %d, %v", e.Epoch, shard, ok, held.Epoch, err)
		}
	}
	return e
}

func heldFirst(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	e, err := res.SignUp(t.Context(), directory.SignUp{Tenant: "acme", Load: 1}, change("sign up"))
	if err != nil || e.State != directory.Active || e.Epoch != 2 {
		t.Fatalf("signed up: %+v, %v", e, err)
	}
	served(t, res, h, "acme")
	again, err := res.SignUp(t.Context(), directory.SignUp{Tenant: "acme", Load: 1}, change("sign up"))
	if err != nil || again.Epoch != 2 {
		t.Errorf("repeated: epoch %d, %v", again.Epoch, err)
	}
	pins := e.Clone()
	pins.Pins = []string{"s01", "s08"}
	if e, err = res.Settle(t.Context(), e, pins, change("pin")); err != nil {
		t.Fatal(err)
	}
	if got := holders(t, h, "acme"); !slices.Equal(got, pins.Pins) {
		t.Errorf("after the pins %v hold it, want %v", got, pins.Pins)
	}
	// A change that came too late lets go of what it had hold, also where it took the tenant to be.
	late := e.Clone()
	late.Epoch, late.Pins = 2, []string{"s05", "s04", "s01", "s08"}
	before := late.Clone()
	before.Pins = []string{"s04"}
	_, err = res.Settle(t.Context(), before, late, change("late"))
	wantIs(t, err, directory.ErrStale)
	if got := holders(t, h, "acme"); !slices.Equal(got, pins.Pins) {
		t.Errorf("after the late change %v hold it, want %v", got, pins.Pins)
	}
	outside := e.Clone()
	outside.Pins = []string{"s99"}
	_, err = res.Settle(t.Context(), e, outside, change("outside"))
	wantIs(t, err, directory.ErrInvalid)
	served(t, res, h, "acme")
	_, err = res.Complete(t.Context(), "acme", change("complete"))
	wantIs(t, err, directory.ErrState)
}

// The process ends at each step of a sign-up and of a change of subset. What is served is held at every
// such moment, and repeating what was begun comes to the same end.
func heldAtEveryStep(t *testing.T, r rules) {
	for failAt := 1; ; failAt++ {
		w := &watched{Home: r.home, Holder: directory.NewMemoryHolder(), failAt: failAt}
		d, err := directory.Open(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		res := directory.NewResidence(d, w, keys)
		tenant := fmt.Sprint("t", failAt)
		story := func() error {
			e, err := res.SignUp(t.Context(), directory.SignUp{Tenant: tenant, Load: 1}, change("sign up"))
			if err != nil {
				return err
			}
			if e.Pins != nil { // the last step was done before
				old := e.Clone()
				old.Pins, old.Epoch = nil, 2
				e = old
			}
			pinned := e.Clone()
			pinned.Pins = []string{"s01", "s02", "s03", "s04", "s05"}
			if _, err = res.Settle(t.Context(), e, pinned, change("pin")); err != nil {
				return err
			}
			return nil
		}
		err = story()
		served(t, res, w.Holder, tenant)
		if err == nil {
			if failAt < 9 {
				t.Errorf("only %d steps", failAt-1)
			}
			return
		}
		wantIs(t, err, errStep)
		if err := story(); err != nil {
			t.Fatalf("repeated after step %d: %v", failAt, err)
		}
		e := served(t, res, w.Holder, tenant)
		if e.Epoch != 3 || e.State != directory.Active {
			t.Errorf("after step %d: epoch %d, %s", failAt, e.Epoch, e.State)
		}
		if got := holders(t, w.Holder, tenant); e.Cell == "eu-1" && !slices.Equal(got, e.Pins) {
			t.Errorf("after step %d %v hold it, want %v", failAt, got, e.Pins)
		}
	}
}
