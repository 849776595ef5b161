package localcell

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

// disk is a cell on disk, without processes.
type disk struct {
	*directory.Residence
	t     *testing.T
	items *boltitems.Items
}

func testKeys(context.Context, string, string) ([]byte, error) {
	return []byte(strings.Repeat("k", keyBytes)), nil
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d, err := directory.Open(t.Context(), directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	items, err := boltitems.Create(filepath.Join(t.TempDir(), "items.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	return &disk{directory.NewResidence(d, items.Holds(), testKeys), t, items}
}

func (d *disk) enrol(p Plan, tenants ...string) (Admitted, error) {
	return enrol(d.t.Context(), d.Directory, d.items.Holds(), testKeys, p, tenants, time.Now())
}

func (d *disk) up(p Plan, tenants ...string) Admitted {
	d.t.Helper()
	a, err := d.enrol(p, tenants...)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

func (d *disk) get(tenant string) directory.Entry {
	d.t.Helper()
	e, err := d.Get(d.t.Context(), tenant)
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

// held is by which of the plan's shards the tenant is held.
func (d *disk) held(p Plan, tenant string) []string {
	d.t.Helper()
	var by []string
	for _, shard := range p.Shards() {
		_, held, err := d.items.Holds().Held(d.t.Context(), p.Cell, shard, tenant)
		if err != nil {
			d.t.Fatal(err)
		}
		if held {
			by = append(by, shard)
		}
	}
	return by
}

// residesRightly fails unless the shards of the tenant's subset, and they alone, hold it.
func (d *disk) residesRightly(p Plan, tenant string) {
	d.t.Helper()
	want, err := d.Subset(d.t.Context(), d.get(tenant))
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(want)
	if held := d.held(p, tenant); !slices.Equal(held, want) {
		d.t.Errorf("%s is held by %v; the subset is %v", tenant, held, want)
	}
}

func (d *disk) pin(tenant string, shards ...string) {
	d.t.Helper()
	before := d.get(tenant)
	after := before.Clone()
	after.Pins = shards
	if _, err := d.Settle(d.t.Context(), before, after, testChange("pin "+tenant)); err != nil {
		d.t.Fatal(err)
	}
}

func testChange(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "test"}
}

// TestEnrolHoldsFirst: whom the directory knows, the shards of the subset hold, and nobody else; whoever was
// there before stays where the entry says.
func TestEnrolHoldsFirst(t *testing.T) {
	d, p := newDisk(t), testPlan(t)
	if a := d.up(p, "acme", "beta"); a != (Admitted{Tenants: 2, Topology: 1, AsFleet: true}) {
		t.Errorf("admitted %+v", a)
	}
	d.pin("acme", "s03")
	if a := d.up(p, "acme", "beta", "gamma"); a.Tenants != 1 {
		t.Errorf("admitted %+v", a)
	}
	for _, tenant := range []string{"acme", "beta", "gamma"} {
		d.residesRightly(p, tenant)
	}
}

// TestUpMendsHoldings of a state directory from before shards held tenants.
func TestUpMendsHoldings(t *testing.T) {
	d, p := newDisk(t), testPlan(t)
	tenants := []string{"acme", "beta", "gamma", "delta"}
	d.up(p, tenants...)
	d.pin("acme", "s03")
	suspended := d.get("beta")
	suspended.State = directory.Suspended
	if _, err := d.Replace(t.Context(), d.get("beta"), suspended, testChange("suspend")); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range tenants {
		for _, shard := range p.Shards() {
			if err := d.items.Holds().Forget(t.Context(), p.Cell, shard, directory.Holding{Tenant: tenant, Epoch: 99}); err != nil {
				t.Fatal(err)
			}
		}
		if held := d.held(p, tenant); len(held) > 0 {
			t.Fatalf("%s is held by %v", tenant, held)
		}
	}
	if a := d.up(p, tenants...); a.Tenants != 0 {
		t.Errorf("admitted %+v", a)
	}
	for _, tenant := range tenants {
		d.residesRightly(p, tenant)
		one, ok, err := d.items.Holds().Held(t.Context(), p.Cell, d.held(p, tenant)[0], tenant)
		if err != nil || !ok || one.Epoch > d.get(tenant).Epoch {
			t.Errorf("%s is held at epoch %d, %t, %v; its entry has %d", tenant, one.Epoch, ok, err, d.get(tenant).Epoch)
		}
	}
}

// TestTheFleetMayGrow: shards that the fleet adds run, and place nobody until they are published; one that
// a live topology names must be there.
func TestTheFleetMayGrow(t *testing.T) {
	d, p := newDisk(t), testPlan(t)
	d.up(p, "acme")
	more, fewer, k, other := testPlan(t), testPlan(t), testPlan(t), testPlan(t)
	more.Topology.Shards = append(more.Topology.Shards, inUse("s04"))
	fewer.Topology.Shards = fewer.Topology.Shards[1:]
	k.Topology.KBySize = map[string]int{"": 3}
	other.Cell, other.Topology.Cell = "us-1", "us-1"

	for name, grown := range map[string]Plan{"a shard more": more, "another k": k} {
		a := d.up(grown, "acme", "new with "+name)
		if a != (Admitted{Tenants: 1, Topology: 1}) {
			t.Errorf("%s: admitted %+v", name, a)
		}
		d.residesRightly(p, "new with "+name)
	}
	if _, err := d.enrol(other, "acme"); !errors.Is(err, ErrOtherCell) {
		t.Errorf("another cell: %v", err)
	}
	if _, err := d.enrol(fewer, "acme"); !errors.Is(err, ErrLostShard) || !strings.Contains(err.Error(), `"s01"`) {
		t.Errorf("a shard that is gone: %v", err)
	}
	if cells, err := d.Cells(t.Context()); err != nil || len(cells) != 1 {
		t.Errorf("a refused start changed the cells: %v, %v", cells, err)
	}

	// The way to take a shard away: publish without it, migrate, retire.
	next := fewer.Topology
	next.Version = 2
	if _, err := d.Publish(t.Context(), next, testChange("publish")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.enrol(fewer, "acme"); !errors.Is(err, ErrLostShard) {
		t.Errorf("before the migration: %v", err)
	}
	done, err := d.Migrate(t.Context(), directory.Migration{Cell: p.Cell, To: 2}, "", 100, testChange("migrate"))
	if err != nil || done.Moved != 3 || len(done.Skipped) > 0 {
		t.Fatalf("migrated %+v, %v", done, err)
	}
	if _, err := d.Retire(t.Context(), p.Cell, 1, testChange("retire")); err != nil {
		t.Fatal(err)
	}
	if a := d.up(fewer, "acme", "late"); a != (Admitted{Tenants: 1, Topology: 2, AsFleet: true}) {
		t.Errorf("admitted %+v", a)
	}
	for _, tenant := range []string{"acme", "late"} {
		d.residesRightly(p, tenant)
	}
}

// TestTheCellOnDiskComesUp: another cell that the directory knows, too, keeps the one that lies there from
// nothing, and does not take its place.
func TestTheCellOnDiskComesUp(t *testing.T) {
	d, p, other := newDisk(t), testPlan(t), testPlan(t)
	other.Cell, other.Topology.Cell = "us-1", "us-1"
	d.up(p, "acme")
	if _, err := d.AddCell(t.Context(), directory.Cell{Name: "us-1"}, testChange("add")); err != nil {
		t.Fatal(err)
	}
	if a := d.up(p, "acme", "beta"); a.Tenants != 1 {
		t.Errorf("admitted %+v", a)
	}
	if _, err := d.enrol(other, "acme"); !errors.Is(err, ErrOtherCell) || !strings.Contains(err.Error(), `it is "eu-1"`) {
		t.Errorf("a cell without tenants: %v", err)
	}
}

// TestUpKnowsItsKeyAndService: a cell places by the key and for the service that it began with.
func TestUpKnowsItsKeyAndService(t *testing.T) {
	d, p := newDisk(t), testPlan(t)
	d.up(p, "acme")
	first, err := d.Topology(t.Context(), p.Cell, 1)
	key, _ := testKeys(t.Context(), p.Cell, "1")
	if err != nil || first.KeyCheck != directory.KeyCheck(key) {
		t.Errorf("topology %+v, %v", first, err)
	}
	another := func(context.Context, string, string) ([]byte, error) {
		return []byte(strings.Repeat("x", keyBytes)), nil
	}
	if _, err := enrol(t.Context(), d.Directory, d.items.Holds(), another, p, []string{"acme", "late"}, time.Now()); !errors.Is(err, directory.ErrKey) {
		t.Errorf("by another key: %v", err)
	}
	other := testPlan(t)
	other.Service = "other"
	if _, err := d.enrol(other, "late"); !errors.Is(err, directory.ErrService) {
		t.Errorf("for another service: %v", err)
	}
	if _, err := d.Get(t.Context(), "late"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("a refused start added a tenant: %v", err)
	}
}

// TestEnrolGivesSlots: under bounded/v1 each tenant gets its own slot and keeps it, and one more than there
// are is told so.
func TestEnrolGivesSlots(t *testing.T) {
	d, p := newDisk(t), testPlan(t)
	p.Topology.Scheme, p.Topology.MaxShared, p.Topology.KBySize = placement.BoundedV1, 1, map[string]int{"": 2}
	p.Topology.Shards = nil
	for i, id := range []string{"s01", "s02", "s03", "s04"} {
		s := inUse(id)
		s.Zone = []string{"a", "b"}[i%2]
		p.Topology.Shards = append(p.Topology.Shards, s)
	}
	var err error
	if p.Topology, err = p.Topology.WithSlots(); err != nil || p.Topology.Slots != 4 {
		t.Fatalf("%d slots, %v; want 2², two shards in each stripe", p.Topology.Slots, err)
	}
	d.up(p, "t1", "t2")
	d.up(p, "t3", "t2", "t1", "t4")
	for tenant, slot := range map[string]uint64{"t1": 1, "t2": 2, "t3": 3, "t4": 4} {
		if got := d.get(tenant).Slot; got != slot {
			t.Errorf("%s has slot %d, want %d", tenant, got, slot)
		}
	}
	var full *placement.FullError
	if _, err := d.enrol(p, "t5"); !errors.As(err, &full) || full.Capacity != 4 {
		t.Errorf("a fifth tenant of four slots: %v", err)
	}
}
