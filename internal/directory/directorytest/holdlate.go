package directorytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// A change that is repeated after another one, and one whose word comes late, bring no stay back that is over.
func heldByNobodyWhoLeft(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	in := []directory.Entry{entry("acme", directory.Active)}
	if _, err := res.Enrol(t.Context(), in, change("import")); err != nil {
		t.Fatal(err)
	}
	pin := func(shard, operation string, expect uint64) {
		t.Helper()
		if _, err := res.Pin(t.Context(), "acme", []string{shard}, expect, change(operation)); err != nil {
			t.Error(err)
		}
	}
	alone := func(what, shard string) {
		t.Helper()
		if got := holders(t, h, "acme"); !slices.Equal(got, []string{shard}) {
			t.Errorf("%s: %v hold it, want %s", what, got, shard)
		}
	}
	pin("s01", "first", 1)
	pin("s02", "second", 2)
	pin("s01", "first", 1)
	alone("a pin repeated after another", "s02")
	if got, err := res.Enrol(t.Context(), in, change("import")); err != nil || len(got.Differ) != 1 || got.Created > 0 {
		t.Errorf("an import repeated after a pin: %+v, %v", got, err)
	}
	alone("an import repeated", "s02")

	// The word of a change that lost against the second pin comes late: it was to succeed the same entry.
	if err := h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	alone("a hold of a change that lost", "s02")

	// A repetition has those let go that should have long ago, at whichever epoch they hold by now.
	if err := errors.Join(
		h.Forget(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 3}),
		h.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "acme", Epoch: 3}),
	); err != nil {
		t.Fatal(err)
	}
	pin("s01", "first", 1)
	alone("a pin repeated that nobody finished", "s02")

	// Another pins the tenant away, right before the first hold of a pin that then ends.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := &slowHolder{Holder: h, before: func() { pin("s01", "third", 3); pin("s03", "fourth", 4) }, after: cancel}
	if _, err := directory.NewResidence(r.Directory, slow, keys).Pin(ctx, "acme", []string{"s01"}, 3, change("slow")); err == nil {
		t.Error("a pin that came late succeeded")
	}
	alone("a pin that came late and ended", "s03")
}

// A change that loses to another from the same entry has its shards let go, and touches none of the other's.
func heldByWhoWon(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	if _, err := directory.NewResidence(r.Directory, h, keys).Enrol(t.Context(), []directory.Entry{entry("acme", directory.Active)}, change("import")); err != nil {
		t.Fatal(err)
	}
	var others []string // those that do not hold it yet
	old := holders(t, h, "acme")
	for i := range 8 {
		if shard := fmt.Sprintf("s%02d", i+1); !slices.Contains(old, shard) {
			others = append(others, shard)
		}
	}
	lost, won := []string{others[0], others[2]}, []string{others[1], others[2]}
	home := &peeking{Home: r.home}
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	home.look = func() { // the loser's shards hold the tenant
		home.look = nil
		if _, err := directory.NewResidence(r.Directory, h, keys).Pin(t.Context(), "acme", won, 1, change("won")); err != nil {
			t.Error(err)
		}
	}
	_, err = directory.NewResidence(d, h, keys).Pin(t.Context(), "acme", lost, 1, change("lost"))
	wantIs(t, err, directory.ErrStale)
	if got := holders(t, h, "acme"); !slices.Equal(got, won) {
		t.Errorf("%v hold it, want the winner's %v", got, won)
	}
}

// slowHolder does things around its first Hold.
type slowHolder struct {
	directory.Holder
	before, after func()
}

func (s *slowHolder) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	if s.before != nil {
		s.before()
		s.before = nil
	}
	defer s.after()
	return s.Holder.Hold(context.WithoutCancel(ctx), cell, shard, h)
}

// peeking runs look before each write.
type peeking struct {
	directory.Home
	look func()
}

func (p *peeking) Write(ctx context.Context, b directory.Batch) error {
	if p.look != nil {
		p.look()
	}
	return p.Home.Write(ctx, b)
}

// An import holds nobody who is there already, at no moment, and nobody when it is refused.
func enrolHolds(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	home := &peeking{Home: r.home}
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	res := directory.NewResidence(d, h, keys)
	if _, err := res.Enrol(t.Context(), []directory.Entry{entry("acme", directory.Active)}, change("import")); err != nil {
		t.Fatal(err)
	}
	if _, err := res.Pin(t.Context(), "acme", []string{"s02"}, 0, change("pin")); err != nil {
		t.Fatal(err)
	}
	other, beta := entry("acme", directory.Active), entry("beta", directory.Active)
	other.Pins = []string{"s01"}
	home.look = func() {
		if got := holders(t, h, "acme"); !slices.Equal(got, []string{"s02"}) {
			t.Errorf("in the middle of an import %v hold the tenant that is there", got)
		}
	}
	got, err := res.Enrol(t.Context(), []directory.Entry{other, beta}, change("another import"))
	if err != nil || got.Created != 1 || len(got.Differ) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	home.look = nil
	if _, err := r.Retire(t.Context(), "eu-1", 1, change("retire")); err != nil {
		t.Fatal(err)
	}
	late := entry("late", directory.Active)
	late.Topology = 1
	_, err = res.Enrol(t.Context(), []directory.Entry{entry("gamma", directory.Active), late}, change("refused"))
	wantIs(t, err, directory.ErrRetired)
	for _, tenant := range []string{"gamma", "late"} {
		if got := holders(t, h, tenant); len(got) > 0 {
			t.Errorf("%v hold %s, whom a refused import named", got, tenant)
		}
		if _, err := r.Get(t.Context(), tenant); !errors.Is(err, directory.ErrNotFound) {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

// Two tenants of one import do not get one slot, a slot that is taken is refused before anybody is held, and one
// that has rested can be imported.
func enrolSlots(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	addCell(t, r.Directory, directory.Cell{Name: "ap-1"}, 0)
	publish(t, r.Directory, slotted("ap-1", 1, 3))
	in := func(tenant string, slot uint64) directory.Entry {
		return directory.Entry{Tenant: tenant, Cell: "ap-1", State: directory.Active, Topology: 1, Slot: slot}
	}
	for what, enrol := range map[string]func(context.Context, []directory.Entry, directory.Change) (directory.Enrolled, error){
		"directory": r.Enrol, "residence": res.Enrol,
	} {
		_, err := enrol(t.Context(), []directory.Entry{in("a", 7), in("b", 7)}, change("twice "+what))
		wantIs(t, err, directory.ErrSlotTaken)
	}
	if got, err := res.Enrol(t.Context(), []directory.Entry{in("a", 7), in("b", 8)}, change("import")); err != nil || got.Created != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err := res.Enrol(t.Context(), []directory.Entry{in("c", 1), in("d", 7)}, change("taken"))
	wantIs(t, err, directory.ErrSlotTaken)
	for i := range 9 {
		if _, ok, err := h.Held(t.Context(), "ap-1", []string{"s01", "s02", "s03", "s04", "s05", "s06", "s07", "s08", "s09"}[i], "c"); ok || err != nil {
			t.Errorf("a refused import has c held, %v", err)
		}
	}
	a, err := r.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	a = r.replace(t, a, "begin", func(e *directory.Entry) { e.State = directory.Moving })
	r.replace(t, a, "go", func(e *directory.Entry) { e.State, e.Cell, e.Slot, e.Topology = directory.Active, "us-1", 0, 1 })
	_, err = r.Create(t.Context(), in("e", 7), change("early"))
	wantIs(t, err, directory.ErrSlotTaken)
	rested := change("rested")
	rested.At = at.Add(directory.SlotQuarantine)
	if got, err := res.Enrol(t.Context(), []directory.Entry{in("e", 7)}, rested); err != nil || got.Created != 1 {
		t.Errorf("a slot that rested is imported: %+v, %v", got, err)
	}
	agree(t, r)
}

// A slot rests from the tenant's last change on at least, though the change that gives it back says another time.
func slotsRestWhatever(t *testing.T, r rules) {
	r.closeAll(t)
	addCell(t, r.Directory, directory.Cell{Name: "ap-1", Headroom: 0}, 10)
	publish(t, r.Directory, slotted("ap-1", 1, 3))
	e, err := r.Create(t.Context(), directory.Entry{Tenant: "acme", Cell: "ap-1", State: directory.Active, Topology: 1, Slot: 5}, change("create"))
	if err != nil {
		t.Fatal(err)
	}
	e = r.replace(t, e, "begin", func(e *directory.Entry) { e.State = directory.Moving })
	after := e.Clone()
	after.State, after.Cell, after.Slot, after.Topology = directory.Active, "eu-1", 0, 3
	c := change("go")
	c.At = time.Time{}
	_, err = r.Replace(t.Context(), e, after, c)
	wantIs(t, err, directory.ErrInvalid)
	c.At = at.Add(-2 * directory.SlotQuarantine)
	if _, err = r.Replace(t.Context(), e, after, c); err != nil {
		t.Fatal(err)
	}
	_, err = r.Create(t.Context(), directory.Entry{Tenant: "next", Cell: "ap-1", State: directory.Active, Topology: 1, Slot: 5}, change("next"))
	wantIs(t, err, directory.ErrSlotTaken)
}

// A migration that is refused, and cannot let go of what it had held, is reported as failed and not as skipped.
func undoneInVain(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	e := entry("acme", directory.Active)
	e.Topology = 1
	if _, err := res.Enrol(t.Context(), []directory.Entry{e}, change("import")); err != nil {
		t.Fatal(err)
	}
	next := topology("eu-1", 4)
	next.Shards = drained(next.Shards, 4)
	publish(t, r.Directory, next)
	home := &peeking{Home: r.home}
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	home.look = func() { // when the shards hold it, another change is faster, and the tenant moves
		home.look = nil
		now, err := r.Get(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		r.replace(t, now, "move", func(e *directory.Entry) { e.State = directory.Moving })
	}
	got, err := directory.NewResidence(d, keeps{h}, keys).Migrate(t.Context(), directory.Migration{Cell: "eu-1", To: 4}, "", 10, change("migrate"))
	if err != nil || len(got.Skipped) > 0 || len(got.Failed) != 1 {
		t.Errorf("%+v, %v; want it failed", got, err)
	}
}

// keeps is a holder that cannot let go.
type keeps struct{ directory.Holder }

func (keeps) Release(context.Context, string, string, directory.Holding) error { return errStep }

// What ended half-way is brought in step; what may be on its way is told.
func reconcile(t *testing.T, r rules) {
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	var in []directory.Entry
	for _, tenant := range []string{"fine", "missing", "superfluous", "pending"} {
		e := entry(tenant, directory.Active)
		e.Pins = []string{"s01", "s02"}
		in = append(in, e)
	}
	if _, err := res.Enrol(t.Context(), in, change("import")); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.Forget(t.Context(), "eu-1", "s02", directory.Holding{Tenant: "missing", Epoch: 1}))
	must(h.Hold(t.Context(), "eu-1", "s03", directory.Holding{Tenant: "superfluous", Epoch: 1}))
	must(h.Hold(t.Context(), "eu-1", "s04", directory.Holding{Tenant: "pending", Epoch: 2}))
	must(h.Hold(t.Context(), "eu-1", "s05", directory.Holding{Tenant: "nobody", Epoch: 1}))
	must(h.Hold(t.Context(), "eu-1", "s06", directory.Holding{Tenant: "fine", Epoch: 9}))
	for i, c := range []struct {
		touch, absent bool
		want          map[directory.Mismatch]int
		left          int
	}{
		{false, false, map[directory.Mismatch]int{directory.Missing: 1, directory.Superfluous: 1, directory.Pending: 1, directory.Absent: 1, directory.Ahead: 1, directory.Unreachable: 1}, 4},
		{true, true, map[directory.Mismatch]int{directory.Pending: 1, directory.Absent: 1, directory.Ahead: 1, directory.Unreachable: 1}, 2},
		{false, false, map[directory.Mismatch]int{directory.Ahead: 1, directory.Unreachable: 1}, 2},
	} {
		o := directory.Reconciling{Cell: "eu-1", Shards: []string{"s01", "s02", "s03", "s04", "s05", "s06", "s07"}, Touch: c.touch, Absent: c.absent}
		told := map[directory.Mismatch]int{}
		got, err := directory.NewResidence(r.Directory, partly{h}, keys).Reconcile(t.Context(), o, change("reconcile "+string(rune('a'+i))), func(f directory.Finding) { told[f.What]++ }, func(directory.Reconciled) {})
		if err != nil || !maps.Equal(got.Found, c.want) || !maps.Equal(told, c.want) || got.Left != c.left || got.Tenants != 4 {
			t.Errorf("pass %d: %+v, told %v, %v; want %v, %d left", i+1, got, told, err, c.want, c.left)
		}
		for _, e := range in {
			served(t, res, h, e.Tenant)
			if now := holders(t, h, e.Tenant); e.Tenant != "fine" && (c.touch || e.Tenant != "pending" || i > 1) && !slices.Equal(now, e.Pins) {
				t.Errorf("pass %d: %v hold %s", i+1, now, e.Tenant)
			}
		}
	}
	if got := holders(t, h, "nobody"); len(got) > 0 {
		t.Errorf("%v hold who is not in the directory", got)
	}
	_, err := res.Reconcile(t.Context(), directory.Reconciling{Cell: "nowhere"}, change("x"), func(directory.Finding) {}, func(directory.Reconciled) {})
	wantIs(t, err, directory.ErrUnknownCell)
}

// partly is a holder that does not reach s07.
type partly struct{ *directory.MemoryHolder }

func (p partly) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if shard == "s07" {
		return nil, errStep
	}
	return p.MemoryHolder.Holdings(ctx, cell, shard, after, limit)
}
