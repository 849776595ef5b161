package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// 64 writers for each epoch, over a bad line: one wins, and the history has exactly what won.
func oneWinner(t *testing.T, r rules) {
	const writers, epochs = 64, 3
	d, err := directory.Open(t.Context(), newFaulty(t, r.home))
	if err != nil {
		t.Fatal(err)
	}
	before := r.create(t, entry("acme", directory.Active))
	for range epochs {
		winners := make([]directory.Entry, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				after := before.Clone()
				after.Pins = []string{fmt.Sprintf("s%02d", w%8+1)}
				got, err := persist(func() (directory.Entry, error) {
					return d.Replace(t.Context(), before, after, change(fmt.Sprintf("op-%d-%d", before.Epoch, w)))
				})
				if err == nil {
					winners[w] = got
				} else if !errors.Is(err, directory.ErrStale) {
					t.Errorf("writer %d: %v", w, err)
				}
			})
		}
		wg.Wait()
		now, err := r.Get(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		won := 0
		for w, e := range winners {
			if e.Epoch > 0 {
				won++
				if diff := cmp.Diff(now, e); diff != "" {
					t.Errorf("writer %d won, and what stands is (-stands +won):\n%s", w, diff)
				}
			}
		}
		if won != 1 || now.Epoch != before.Epoch+1 {
			t.Fatalf("%d won epoch %d, and %d stands", won, before.Epoch+1, now.Epoch)
		}
		before = now
	}
	lines, err := r.Directory.History(t.Context(), "acme", 0, 100)
	if err != nil || len(lines) != epochs+1 {
		t.Errorf("%d lines of history, %v; want %d", len(lines), err, epochs+1)
	}
}

// A home that is busy is asked again, after a while, and not for ever.
func busyHome(t *testing.T, r rules) {
	home := &busy{Home: r.home, n: 3}
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), entry("acme", directory.Active), change("op")); err != nil || home.tries != 4 {
		t.Errorf("%v after %d tries, want success at the fourth", err, home.tries)
	}
	home.n = 1 << 30
	ctx, cancel := withTimeout(t, 50*time.Millisecond)
	defer cancel()
	if _, err := d.Create(ctx, entry("other", directory.Active), change("op")); err == nil {
		t.Error("success at a home that turns everything away")
	}
	if _, err := r.Get(t.Context(), "other"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the tenant that was turned away: %v", err)
	}
}

// The client loses answers, and repeats what it does not know of or was turned away.
func neverOverfull(t *testing.T, r rules) {
	d, err := directory.Open(t.Context(), newFaulty(t, r.home))
	if err != nil {
		t.Fatal(err)
	}
	signUpsAtOnce(t, r, func(s directory.SignUp, c directory.Change) error {
		_, err := persist(func() (directory.Entry, error) { return d.Place(t.Context(), s, c) })
		return err
	})
}

// The line is bad and records are contended for, and the client asks once: it is never told that the
// directory is busy, or that nobody knows.
func neverOverfullAskedOnce(t *testing.T, r rules) {
	ctx, cancel := withTimeout(t, 10*time.Minute)
	defer cancel()
	signUpsAtOnce(t, r, func(s directory.SignUp, c directory.Change) error {
		_, err := r.Place(ctx, s, c)
		return err
	})
}

// 500 sign-ups at once against three cells with room for 315: no cell is overfull, everybody who was
// told yes is there once, and everybody else was told why.
func signUpsAtOnce(t *testing.T, r rules, place func(directory.SignUp, directory.Change) error) {
	n, times := 500, directory.Rate(5)
	if Brief {
		n, times = 100, 1
	}
	room := 0
	for i, capacity := range []directory.Rate{20 * times, 30 * times, 40 * times} { // less 30 %: 14, 21, 28 tenants of 1/s, or five times as many
		addCell(t, r.Directory, directory.Cell{Name: fmt.Sprintf("c%d", i), Headroom: 30}, capacity)
		room += int(capacity) * 7 / 10
	}
	r.closeAll(t)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			// Every tenth signs up twice at the same time, which is one tenant.
			tenant := fmt.Sprintf("t%03d", i-i%10/9)
			errs[i] = place(directory.SignUp{Tenant: tenant, Load: 1000}, change(fmt.Sprintf("sign-up %d", i)))
		})
	}
	wg.Wait()
	placed := 0
	for i, err := range errs {
		switch {
		case err == nil:
			placed++
		case !errors.Is(err, directory.ErrNoHeadroom) && !errors.Is(err, directory.ErrExists):
			t.Errorf("sign-up %d: %v", i, err)
		}
	}
	if placed != room {
		t.Errorf("%d sign-ups succeeded, with room for %d", placed, room)
	}
	listed := map[string]int{}
	all, err := r.Directory.List(t.Context(), "", 2*n)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		listed[e.Cell]++
	}
	if len(all) != placed {
		t.Errorf("%d tenants are listed, %d sign-ups succeeded", len(all), placed)
	}
	for i := range 3 {
		c := r.cell(t, fmt.Sprintf("c%d", i))
		if c.Load > c.Limit() || c.Load != directory.Rate(listed[c.Name])*1000 || c.Tenants != int64(listed[c.Name]) {
			t.Errorf("cell %s has load %v of at most %v, for %d tenants; %d are listed", c.Name, c.Load, c.Limit(), c.Tenants, listed[c.Name])
		}
	}
}

func (r rules) place(t *testing.T, s directory.SignUp) directory.Entry {
	t.Helper()
	e, err := r.Place(t.Context(), s, change("sign up "+s.Tenant))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mostLeft(t *testing.T, r rules) {
	addCell(t, r.Directory, directory.Cell{Name: "big", Headroom: 10}, 2000)
	addCell(t, r.Directory, directory.Cell{Name: "canary", Internal: true, Headroom: 30}, 10)
	addCell(t, r.Directory, directory.Cell{Name: "closed", Headroom: 30}, 0)
	// Free are 1,800 in big and 700 in eu-1 and us-1; equal ones go by name.
	for i, c := range []struct {
		load directory.Rate
		want string
	}{{1_150_000, "big"}, {10_000, "eu-1"}, {20_000, "us-1"}, {60_000, "eu-1"}, {40_000, "us-1"}, {1_000, "big"}} {
		if e := r.place(t, directory.SignUp{Tenant: fmt.Sprint("t", i), Load: c.load}); e.Cell != c.want || e.State != directory.Placing {
			t.Errorf("tenant %d is %s in %s, want %s", i, e.State, e.Cell, c.want)
		}
	}
	e := r.place(t, directory.SignUp{Tenant: "ours", Load: 1000, Internal: true})
	if e.Cell != "canary" || !e.Internal {
		t.Errorf("an internal tenant is in %s, want canary", e.Cell)
	}
	if e := r.place(t, directory.SignUp{Tenant: "whale", Load: 1, Size: "whale"}); e.Size != "whale" || e.Epoch != 1 {
		t.Errorf("size %q, epoch %d", e.Size, e.Epoch)
	}
}

func signUpRefused(t *testing.T, r rules) {
	addCell(t, r.Directory, directory.Cell{Name: "canary", Internal: true, Headroom: 30}, 10)
	r.create(t, entry("acme", directory.Active))
	cells, err := r.Cells(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s    directory.SignUp
		want error
	}{
		"larger than what is left": {directory.SignUp{Tenant: "new", Load: 701_000}, directory.ErrNoHeadroom},
		"internal, larger":         {directory.SignUp{Tenant: "new", Load: 7_001, Internal: true}, directory.ErrNoHeadroom},
		"there already":            {directory.SignUp{Tenant: "acme", Load: 1}, directory.ErrExists},
		"there already, and large": {directory.SignUp{Tenant: "acme", Load: 701_000}, directory.ErrExists},
		"size that is not there":   {directory.SignUp{Tenant: "new", Load: 1, Size: "shark"}, directory.ErrInvalid},
		"no tenant":                {directory.SignUp{Load: 1}, directory.ErrInvalid},
		"negative load":            {directory.SignUp{Tenant: "new", Load: -1}, directory.ErrInvalid},
	} {
		_, err := r.Place(t.Context(), c.s, change("sign up"))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := r.Get(t.Context(), "new"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the tenant that was refused: %v", err)
	}
	for _, c := range cells {
		r.cellIs(t, c)
	}
}

// A sign-up that is repeated finds what it wrote, though another cell would be chosen now, or none.
func signUpRepeated(t *testing.T, r rules) {
	first := r.place(t, directory.SignUp{Tenant: "acme", Load: 600_000})
	for range 2 {
		again := r.place(t, directory.SignUp{Tenant: "acme", Load: 600_000})
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("repeated (-want +got):\n%s", diff)
		}
		r.place(t, directory.SignUp{Tenant: "other", Load: 600_000}) // now no cell has room
	}
	_, err := r.Place(t.Context(), directory.SignUp{Tenant: "acme", Load: 1}, change("sign up acme"))
	wantIs(t, err, directory.ErrReused)
	if c := r.cell(t, first.Cell); c.Load != 600_000 || c.Tenants != 1 {
		t.Errorf("load %v of %d tenants", c.Load, c.Tenants)
	}
}

// Tenants with state on shards are pinned where most headroom is left, and no shard is overfull.
func stateful(t *testing.T, r rules) {
	if _, err := r.CloseCell(t.Context(), "us-1", change("close")); err != nil {
		t.Fatal(err)
	}
	// Each of 8 shards takes 87.5 of its 125; a tenant of 50 puts 25 on each of two: 3 on a shard, 12 in all.
	for i := range 12 {
		e := r.place(t, directory.SignUp{Tenant: fmt.Sprint("t", i), Load: 50_000, Stateful: true})
		if len(e.Pins) != 2 || e.Pins[0] == e.Pins[1] {
			t.Fatalf("pins %v", e.Pins)
		}
		if i == 3 { // spread before any is used twice
			for shard, load := range r.cell(t, "eu-1").Pinned {
				if load != 25_000 {
					t.Errorf("after four tenants shard %s has %v, want 25", shard, load)
				}
			}
		}
	}
	for shard, load := range r.cell(t, "eu-1").Pinned {
		if load != 75_000 {
			t.Errorf("shard %s has %v, want 75", shard, load)
		}
	}
	_, err := r.Place(t.Context(), directory.SignUp{Tenant: "late", Load: 50_000, Stateful: true}, change("late"))
	wantIs(t, err, directory.ErrNoHeadroom)
}

// A cell that cannot take a tenant as it is does not keep it from another that can, however much room it has.
func signUpPassesBy(t *testing.T, r rules) {
	addCell(t, r.Directory, directory.Cell{Name: "roomy"}, 9000) // and without a topology
	addCell(t, r.Directory, directory.Cell{Name: "no-slots"}, 8000)
	full := slotted("no-slots", 1, 3)
	publish(t, r.Directory, full)
	for i := range full.Slots {
		e := directory.Entry{Tenant: fmt.Sprint("slot ", i), Cell: "no-slots", State: directory.Active, Topology: 1, Slot: i + 1}
		if _, err := r.Create(t.Context(), e, change(e.Tenant)); err != nil {
			t.Fatal(err)
		}
	}
	addCell(t, r.Directory, directory.Cell{Name: "no-whales"}, 7000)
	small := topology("no-whales", 1)
	small.KBySize = map[string]int{"": 2}
	publish(t, r.Directory, small)
	for _, c := range []struct {
		s    directory.SignUp
		cell string
	}{
		{directory.SignUp{Tenant: "any", Load: 1}, "roomy"}, // nothing lies on its shards
		{directory.SignUp{Tenant: "stateful", Load: 1, Stateful: true}, "no-whales"},
		{directory.SignUp{Tenant: "whale", Load: 1, Size: "whale", Stateful: true}, "eu-1"},
	} {
		e, err := r.Place(t.Context(), c.s, change("sign up "+c.s.Tenant))
		if err != nil || e.Cell != c.cell || c.s.Stateful == (len(e.Pins) == 0) {
			t.Errorf("%s is in %q on %v, %v; want %s", c.s.Tenant, e.Cell, e.Pins, err, c.cell)
		}
	}
	// When none takes it, why one cannot is told, and nothing is changed.
	r.closeAll(t)
	for _, cell := range []string{"no-slots", "no-whales"} {
		if _, err := r.CloseCell(t.Context(), cell, change("close "+cell)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Place(t.Context(), directory.SignUp{Tenant: "late", Load: 1, Stateful: true}, change("late"))
	wantIs(t, err, directory.ErrUnknownTopology)
	if _, err := r.Get(t.Context(), "late"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("refused, and there: %v", err)
	}
}

// interrupted is a home where something happens just before the first write.
type interrupted struct {
	directory.Home
	once sync.Once
	do   func()
}

func (i *interrupted) Write(ctx context.Context, b directory.Batch) error {
	i.once.Do(i.do)
	return i.Home.Write(ctx, b)
}

// Between the choice of a cell and the write, the cells are closed, or a shard is filled.
func signUpInterrupted(t *testing.T, r rules) {
	d, err := directory.Open(t.Context(), &interrupted{Home: r.home, do: func() {
		if _, err := r.Create(t.Context(), directory.Entry{Tenant: "first", Cell: "eu-1", State: directory.Active, Topology: 3, Load: 80_000, Pins: []string{"s01"}}, change("first")); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Place(t.Context(), directory.SignUp{Tenant: "second", Load: 50_000, Stateful: true}, change("second"))
	if err != nil || slices.Contains(e.Pins, "s01") && e.Cell == "eu-1" {
		t.Errorf("pinned to %v in %s, %v; s01 of eu-1 is full", e.Pins, e.Cell, err)
	}
	if d, err = directory.Open(t.Context(), &interrupted{Home: r.home, do: func() { r.closeAll(t) }}); err != nil {
		t.Fatal(err)
	}
	_, err = d.Place(t.Context(), directory.SignUp{Tenant: "late", Load: 1}, change("late"))
	wantIs(t, err, directory.ErrNoHeadroom)
	if _, err := r.Get(t.Context(), "late"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("the tenant that came too late: %v", err)
	}
}
