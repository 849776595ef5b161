package directorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

func migrate(t *testing.T, r rules) {
	t.Run("Pages", func(t *testing.T) { migratePages(t, r) })
	t.Run("EndsAtEveryStep", func(t *testing.T) { migrateEnds(t, newMigrants(t, r, "ap-1", 3)) })
	t.Run("Interrupted", func(t *testing.T) { migrateInterrupted(t, newMigrants(t, r, "ap-2", 20)) })
	t.Run("OthersGoOn", func(t *testing.T) { migrateShaky(t, newMigrants(t, r, "ap-3", 20)) })
}

// Tenants come to the new version in pages, also when a page is done twice, with those who cannot left.
func migratePages(t *testing.T, r rules) {
	res, h, _ := r.residence(t)
	const n = 20
	for i := range n {
		e := entry(fmt.Sprintf("t%02d", i), directory.Active)
		if i == 3 {
			e.State = directory.Placing
		}
		if i == 5 {
			e.Pins = []string{"s08"}
		}
		if done, err := res.Enrol(t.Context(), []directory.Entry{e}, change("enrol "+e.Tenant)); err != nil || done.Created != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	moving, err := r.Get(t.Context(), "t04")
	if err != nil {
		t.Fatal(err)
	}
	r.replace(t, moving, "move", func(e *directory.Entry) { e.State = directory.Moving })
	top := slotted("eu-1", 4, 8)
	top.Shards[7].ID = "other"
	publish(t, r.Directory, top)
	skipped := map[string]error{}
	for after, more := "", true; more; {
		var page directory.Migrated
		for range 2 { // the second time as after a crash
			var err error
			if page, err = res.Migrate(t.Context(), directory.Migration{Cell: "eu-1", To: 4}, after, 6, change("migrate")); err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Skipped {
				skipped[s.Tenant] = s.Why
			}
		}
		after, more = page.Next, page.Next != ""
	}
	if len(skipped) != 3 || !errors.Is(skipped["t03"], directory.ErrState) || !errors.Is(skipped["t04"], directory.ErrState) || !errors.Is(skipped["t05"], directory.ErrInvalid) {
		t.Errorf("skipped %v, want t03, t04 and t05", skipped)
	}
	slots := map[uint64]bool{}
	on := 0
	entries, err := r.ListCell(t.Context(), "eu-1", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if skipped[e.Tenant] != nil {
			continue
		}
		on++
		if e.Topology != 4 || e.Slot == 0 || slots[e.Slot] {
			t.Errorf("%s is on topology %d with slot %d", e.Tenant, e.Topology, e.Slot)
		}
		slots[e.Slot] = true
		served(t, res, h, e.Tenant)
	}
	if now, err := r.Topology(t.Context(), "eu-1", 4); err != nil || now.Tenants != int64(on) {
		t.Errorf("topology 4 has %d tenants, %v; want %d", now.Tenants, err, on)
	}
}

func migrateRefuses(t *testing.T, r rules) {
	res, _, e := r.residence(t)
	cell := r.cell(t, e.Cell)
	for name, c := range map[string]struct {
		m    directory.Migration
		want error
	}{
		"state on the shards": {directory.Migration{Cell: e.Cell, To: 2, Stateful: true}, directory.ErrHome},
		"no such version":     {directory.Migration{Cell: e.Cell, To: 9}, directory.ErrUnknownTopology},
	} {
		if _, err := res.Migrate(t.Context(), c.m, "", 10, change("migrate")); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := r.Retire(t.Context(), e.Cell, 2, change("retire")); err != nil {
		t.Fatal(err)
	}
	_, err := res.Migrate(t.Context(), directory.Migration{Cell: e.Cell, To: 2}, "", 10, change("migrate"))
	wantIs(t, err, directory.ErrRetired)
	r.unchanged(t, e, cell)
}

// migrants are tenants of a cell with two topologies, between which their subsets differ.
type migrants struct {
	rules
	cell    string
	tenants []string
	holder  directory.Holder
}

func newMigrants(t *testing.T, r rules, cell string, n int) *migrants {
	t.Helper()
	m := &migrants{rules: r, cell: cell, holder: directory.NewMemoryHolder()}
	addCell(t, r.Directory, directory.Cell{Name: cell, Headroom: 30}, 1000)
	publish(t, r.Directory, topology(cell, 1))
	next := topology(cell, 2)
	next.Shards = next.Shards[4:] // nearly everybody leaves a shard
	publish(t, r.Directory, next)
	res := directory.NewResidence(r.Directory, m.holder, keys)
	var entries []directory.Entry
	for i := range n {
		m.tenants = append(m.tenants, fmt.Sprintf("%s-t%02d", cell, i))
		entries = append(entries, directory.Entry{Tenant: m.tenants[i], Cell: cell, State: directory.Active, Topology: 1})
	}
	if done, err := res.Enrol(t.Context(), entries, change("enrol "+cell)); err != nil || done.Created != n {
		t.Fatalf("enrolled %+v, %v", done, err)
	}
	return m
}

// on fails unless every tenant is served, and counts those on the version who are held by their subset alone.
func (m *migrants) on(t *testing.T, version uint64) (exact int) {
	t.Helper()
	res := directory.NewResidence(m.Directory, m.holder, keys)
	for _, tenant := range m.tenants {
		e := served(t, res, m.holder, tenant)
		subset, err := res.Subset(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		alone := true
		for i := range 8 {
			shard := fmt.Sprintf("s%02d", i+1)
			_, ok, err := m.holder.Held(t.Context(), m.cell, shard, tenant)
			if err != nil {
				t.Fatal(err)
			}
			alone = alone && ok == slices.Contains(subset, shard)
		}
		if alone && e.Topology == version {
			exact++
		}
	}
	return exact
}

// through migrates over a line on which each write is a step.
func (m *migrants) through(ctx context.Context, t *testing.T, to uint64, step func(write func() error) error) (directory.Migrated, error) {
	t.Helper()
	line := &line{m.home, m.holder, step}
	d, err := directory.Open(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	c := change(fmt.Sprintf("migrate %d", time.Now().UnixNano()))
	return directory.NewResidence(d, line, keys).Migrate(ctx, directory.Migration{Cell: m.cell, To: to}, "", 100, c)
}

// line is a home and a holder whose writes go through step.
type line struct {
	directory.Home
	directory.Holder
	step func(write func() error) error
}

func (l *line) Write(ctx context.Context, b directory.Batch) error {
	return l.step(func() error { return l.Home.Write(ctx, b) })
}

func (l *line) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	return l.step(func() error { return l.Holder.Hold(ctx, cell, shard, h) })
}

func (l *line) Release(ctx context.Context, cell, shard string, h directory.Holding) error {
	return l.step(func() error { return l.Holder.Release(ctx, cell, shard, h) })
}

func straight(write func() error) error { return write() }

// The process ends at each step of a migration. Everybody is served at that moment, and the same migration
// under another operation finishes it: nobody is held where they left.
func migrateEnds(t *testing.T, m *migrants) {
	to := uint64(2)
	for failAt := 1; ; failAt++ {
		var mu sync.Mutex
		steps := 0
		got, err := m.through(t.Context(), t, to, func(write func() error) error {
			mu.Lock()
			defer mu.Unlock()
			if steps++; steps >= failAt {
				return errStep
			}
			return write()
		})
		if err != nil || got.Moved+len(got.Failed) != len(m.tenants) {
			t.Fatalf("ended at step %d: %+v, %v", failAt, got, err)
		}
		m.on(t, to)
		if len(got.Failed) == 0 {
			if failAt < len(m.tenants)+3 { // each is written, and some leave shards for others
				t.Errorf("only %d steps", failAt-1)
			}
			return
		}
		for _, f := range got.Failed {
			wantIs(t, f.Why, errStep)
		}
		got, err = m.through(t.Context(), t, to, straight)
		if n := m.on(t, to); err != nil || got.Moved != len(m.tenants) || n != got.Moved {
			t.Fatalf("repeated after step %d: %+v, %v; %d are on the version", failAt, got, err, n)
		}
		to = 3 - to
	}
}

// A migration that is interrupted finishes whom it began and begins nobody else.
func migrateInterrupted(t *testing.T, m *migrants) {
	to := uint64(2)
	for _, cancelAt := range []int{1, 7, 30, 60, 80} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var mu sync.Mutex
		steps := 0
		got, err := m.through(ctx, t, to, func(write func() error) error {
			mu.Lock()
			if steps++; steps == cancelAt {
				cancel(errStep)
			}
			mu.Unlock()
			return write()
		})
		cancel(nil)
		if got.Moved < len(m.tenants) {
			wantIs(t, err, errStep)
		}
		back := m.on(t, 3-to)
		if n := m.on(t, to); n != got.Moved || n+back != len(m.tenants) || len(got.Failed) > 0 || cancelAt == 1 && back == 0 {
			t.Errorf("interrupted at step %d: %+v, and %d are on the version, %d on the one before", cancelAt, got, n, back)
		}
		if got, err = m.through(t.Context(), t, to, straight); err != nil || got.Moved != len(m.tenants) {
			t.Fatalf("given again: %+v, %v", got, err)
		}
		to = 3 - to
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStep)
	if got, err := m.through(ctx, t, to, straight); err == nil || got.Moved > 0 {
		t.Errorf("interrupted before the first: %+v, %v", got, err)
	}
}

// Writes fail by chance, done or not. Those who do not fail are on the version, and repeating comes to an end.
func migrateShaky(t *testing.T, m *migrants) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	entries, err := m.ListCell(t.Context(), "eu-1", "", len(m.tenants)+1)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{} // the order of an index is the home's own
	for i, e := range entries {
		listed[e.Tenant] = i
	}
	var mu sync.Mutex
	failed := 0
	for pass := 1; ; pass++ {
		got, err := m.through(t.Context(), t, 2, func(write func() error) error {
			mu.Lock()
			chance := rng.IntN(10)
			mu.Unlock()
			switch chance {
			case 0:
				return errLost
			case 1:
				return errors.Join(write(), errLost)
			}
			return write()
		})
		if err != nil || got.Moved+len(got.Failed) != len(m.tenants) {
			t.Fatalf("pass %d: %+v, %v", pass, got, err)
		}
		if n := m.on(t, 2); n < got.Moved {
			t.Errorf("pass %d: %d moved, and %d are on the version", pass, got.Moved, n)
		}
		if !slices.IsSortedFunc(got.Failed, func(a, b directory.Left) int { return listed[a.Tenant] - listed[b.Tenant] }) {
			t.Errorf("pass %d: failures are not in the order of the listing: %v", pass, got.Failed)
		}
		if failed += len(got.Failed); len(got.Failed) == 0 {
			break
		}
		if pass == 200 {
			t.Fatalf("still %d fail", len(got.Failed))
		}
	}
	if n := m.on(t, 2); n != len(m.tenants) || failed == 0 {
		t.Errorf("%d of %d are on the version, after %d failures", n, len(m.tenants), failed)
	}
}
