package directorytest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// residence signs up acme, whose entry has epoch 2 then.
func (r rules) residence(t *testing.T) (*directory.Residence, directory.Holder, directory.Entry) {
	t.Helper()
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	e, err := res.SignUp(t.Context(), directory.SignUp{Tenant: "acme", Load: 1000}, change("sign up"))
	if err != nil {
		t.Fatal(err)
	}
	return res, h, e
}

// verb is one change by hand.
type verb struct {
	name string
	do   func(context.Context, uint64, directory.Change) (directory.Entry, error)
	want func(directory.Entry) bool
}

func verbs(res *directory.Residence) []verb {
	return []verb{
		{"pin", func(ctx context.Context, expect uint64, c directory.Change) (directory.Entry, error) {
			return res.Pin(ctx, "acme", []string{"s03", "s01"}, expect, c)
		}, func(e directory.Entry) bool { return slices.Equal(e.Pins, []string{"s03", "s01"}) }},
		{"suspend", func(ctx context.Context, expect uint64, c directory.Change) (directory.Entry, error) {
			return res.Suspend(ctx, "acme", expect, c)
		}, func(e directory.Entry) bool { return e.State == directory.Suspended }},
		{"resume", func(ctx context.Context, expect uint64, c directory.Change) (directory.Entry, error) {
			return res.Resume(ctx, "acme", expect, c)
		}, func(e directory.Entry) bool { return e.State == directory.Active }},
		{"unpin", func(ctx context.Context, expect uint64, c directory.Change) (directory.Entry, error) {
			return res.Unpin(ctx, "acme", expect, c)
		}, func(e directory.Entry) bool { return e.Pins == nil }},
		{"resize", func(ctx context.Context, expect uint64, c directory.Change) (directory.Entry, error) {
			return res.Resize(ctx, "acme", "whale", 5000, expect, c)
		}, func(e directory.Entry) bool { return e.Size == "whale" && e.Load == 5000 }},
	}
}

func operate(t *testing.T, r rules) {
	res, h, e := r.residence(t)
	for i, v := range verbs(res) {
		expect := uint64(0)
		if i%2 == 1 {
			expect = e.Epoch
		}
		got, err := v.do(t.Context(), expect, change(v.name))
		if err != nil || !v.want(got) || got.Epoch != e.Epoch+1 {
			t.Fatalf("%s: %+v, %v", v.name, got, err)
		}
		e = got
		served(t, res, h, "acme")
		subset, err := res.Subset(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(subset)
		if held := holders(t, h, "acme"); e.Cell == "eu-1" && !slices.Equal(held, subset) {
			t.Errorf("after %s %v hold it, want %v", v.name, held, subset)
		}
	}
}

// Each verb is found done when it is repeated at once and after all others, with or without an epoch.
func operateRepeated(t *testing.T, r rules) {
	res, _, e := r.residence(t)
	done := []directory.Entry{}
	for _, v := range verbs(res) {
		first, err := v.do(t.Context(), e.Epoch, change(v.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, expect := range []uint64{0, e.Epoch} {
			again, err := v.do(t.Context(), expect, change(v.name))
			if diff := cmp.Diff(first, again); err != nil || diff != "" {
				t.Errorf("%s repeated, expecting %d: %v (-want +got):\n%s", v.name, expect, err, diff)
			}
		}
		done = append(done, first)
		e = first
	}
	for i, v := range verbs(res) {
		for _, expect := range []uint64{0, done[i].Epoch - 1} {
			again, err := v.do(t.Context(), expect, change(v.name))
			if diff := cmp.Diff(done[i], again); err != nil || diff != "" {
				t.Errorf("%s repeated after all, expecting %d: %v (-want +got):\n%s", v.name, expect, err, diff)
			}
		}
		_, err := v.do(t.Context(), done[i].Epoch, change(v.name)) // it did not find that epoch
		wantIs(t, err, directory.ErrReused)
		other := change(v.name)
		other.By = "bob"
		_, err = v.do(t.Context(), 0, other)
		wantIs(t, err, directory.ErrReused)
	}
	if now, err := r.Get(t.Context(), "acme"); err != nil || now.Epoch != e.Epoch {
		t.Errorf("epoch %d, %v; want %d", now.Epoch, err, e.Epoch)
	}
	_, err := res.Suspend(t.Context(), "acme", 0, change("resize"))
	wantIs(t, err, directory.ErrReused)
}

// A change that was undone by others is found done, and not done again.
func operateRepeatedAfterOthers(t *testing.T, r rules) {
	res, h, e := r.residence(t)
	ctx := t.Context()
	do := func(name string, change func() (directory.Entry, error)) directory.Entry {
		t.Helper()
		got, err := change()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return got
	}
	suspend := func() (directory.Entry, error) { return res.Suspend(ctx, "acme", 0, change("op 1")) }
	resize := func() (directory.Entry, error) { return res.Resize(ctx, "acme", "", 10, 0, change("op 3")) }
	pin := func(expect uint64) func() (directory.Entry, error) {
		return func() (directory.Entry, error) { return res.Pin(ctx, "acme", []string{"s01"}, expect, change("op 5")) }
	}
	suspended := do("suspend", suspend)
	do("resume", func() (directory.Entry, error) { return res.Resume(ctx, "acme", 0, change("op 2")) })
	resized := do("resize", resize)
	unpinned := do("resize otherwise", func() (directory.Entry, error) { return res.Resize(ctx, "acme", "", 20, 0, change("op 4")) })
	pinned := do("pin", pin(0))
	last := do("pin elsewhere", func() (directory.Entry, error) { return res.Pin(ctx, "acme", []string{"s02"}, 0, change("op 6")) })
	cell := r.cell(t, e.Cell)
	for name, c := range map[string]struct {
		repeat func() (directory.Entry, error)
		want   directory.Entry
	}{
		"suspend": {suspend, suspended}, "resize": {resize, resized}, "pin": {pin(0), pinned}, "pin with the epoch": {pin(unpinned.Epoch), pinned},
	} {
		if diff := cmp.Diff(c.want, do(name, c.repeat)); diff != "" {
			t.Errorf("%s again (-want +got):\n%s", name, diff)
		}
		r.unchanged(t, last, cell)
		if held := holders(t, h, "acme"); !slices.Equal(held, []string{"s02"}) {
			t.Errorf("after %s again %v hold it, want s02 alone", name, held)
		}
	}
	// A change without an operator's verb is recognised by the same record.
	after := last.Clone()
	after.Pins = nil
	_, err := r.Replace(ctx, last, after, change("op 5"))
	wantIs(t, err, directory.ErrReused)
	// The operation that created the tenant is none of the verbs.
	_, err = res.Suspend(ctx, "acme", 0, change("sign up"))
	wantIs(t, err, directory.ErrReused)
	r.create(t, entry("other", directory.Active))
	_, err = res.Suspend(ctx, "other", 0, change("create other"))
	wantIs(t, err, directory.ErrReused)
	r.unchanged(t, last, r.cell(t, e.Cell))
	once(t, r, "acme")
}

func operateRefuses(t *testing.T, r rules) {
	res, h, e := r.residence(t)
	held := holders(t, h, "acme")
	cell := r.cell(t, e.Cell)
	c := change("op")
	try := func(name string, want error, do func() (directory.Entry, error)) {
		t.Helper()
		if _, err := do(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		r.unchanged(t, e, cell)
		if got := holders(t, h, "acme"); !slices.Equal(got, held) {
			t.Errorf("%s: %v hold it, want %v", name, got, held)
		}
	}
	ctx := t.Context()
	try("pins outside", directory.ErrInvalid, func() (directory.Entry, error) { return res.Pin(ctx, "acme", []string{"s01", "s09"}, 0, c) })
	try("no pins", directory.ErrInvalid, func() (directory.Entry, error) { return res.Pin(ctx, "acme", nil, 0, c) })
	try("a pin twice", directory.ErrInvalid, func() (directory.Entry, error) { return res.Pin(ctx, "acme", []string{"s01", "s01"}, 0, c) })
	try("a size that is not there", directory.ErrInvalid, func() (directory.Entry, error) { return res.Resize(ctx, "acme", "shark", 1, 0, c) })
	try("an epoch behind", directory.ErrStale, func() (directory.Entry, error) { return res.Suspend(ctx, "acme", 1, c) })
	try("an epoch ahead", directory.ErrStale, func() (directory.Entry, error) { return res.Suspend(ctx, "acme", 3, c) })
	try("not suspended", directory.ErrState, func() (directory.Entry, error) { return res.Resume(ctx, "acme", 0, c) })
	try("not pinned", directory.ErrState, func() (directory.Entry, error) { return res.Unpin(ctx, "acme", 0, c) })
	try("nobody", directory.ErrNotFound, func() (directory.Entry, error) { return res.Suspend(ctx, "nobody", 0, c) })
	try("not by anyone", directory.ErrInvalid, func() (directory.Entry, error) { return res.Suspend(ctx, "acme", 0, directory.Change{Operation: "op"}) })
}
