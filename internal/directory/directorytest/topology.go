package directorytest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

func publishRefuses(t *testing.T, r rules) {
	cell := r.cell(t, "eu-1")
	for name, c := range map[string]struct {
		spoil func(*directory.Topology)
		want  error
	}{
		"a shard twice":      {func(t *directory.Topology) { t.Shards[5].ID = "s02" }, directory.ErrInvalid},
		"a zone elsewhere":   {func(t *directory.Topology) { t.Shards[5].Zone = "d" }, directory.ErrInvalid},
		"a nameless shard":   {func(t *directory.Topology) { t.Shards[5].ID = "" }, directory.ErrInvalid},
		"no shard state":     {func(t *directory.Topology) { t.Shards[5].State = "" }, directory.ErrInvalid},
		"a weight of 0":      {func(t *directory.Topology) { t.Shards[5].Weight = 0 }, directory.ErrInvalid},
		"a weight unweighed": {func(t *directory.Topology) { t.Scheme, t.Shards[5].Weight = placement.HMACv1, 2 }, directory.ErrInvalid},
		"slots without use":  {func(t *directory.Topology) { t.Slots = 9 }, directory.ErrInvalid},
		"too many slots":     {func(t *directory.Topology) { *t = slotted("eu-1", 4, 8); t.Slots++ }, directory.ErrInvalid},
		"unequal stripes":    {func(t *directory.Topology) { *t = slotted("eu-1", 4, 8); t.Shards = t.Shards[1:] }, directory.ErrInvalid},
		"a bound unkept":     {func(t *directory.Topology) { t.MaxShared = 1 }, directory.ErrInvalid},
		"a position twice":   {func(t *directory.Topology) { t.Shards[5].Position = "s02" }, directory.ErrInvalid},
		"a long position":    {func(t *directory.Topology) { t.Shards[5].Position = "seventeen-letters" }, directory.ErrInvalid},
		"no shards":          {func(t *directory.Topology) { t.Shards = nil }, directory.ErrInvalid},
		"too few in use":     {func(t *directory.Topology) { t.Shards = drained(t.Shards, 5) }, directory.ErrInvalid},
		"no default size":    {func(t *directory.Topology) { delete(t.KBySize, "") }, directory.ErrInvalid},
		"k of 0":             {func(t *directory.Topology) { t.KBySize["whale"] = 0 }, directory.ErrInvalid},
		"an unknown scheme":  {func(t *directory.Topology) { t.Scheme = "random/v9" }, directory.ErrInvalid},
		"no key version":     {func(t *directory.Topology) { t.KeyVersion = "" }, directory.ErrInvalid},
		"the version before": {func(t *directory.Topology) { t.Version = 3 }, directory.ErrStale},
		"a version too far":  {func(t *directory.Topology) { t.Version = 5 }, directory.ErrStale},
		"a cell elsewhere":   {func(t *directory.Topology) { t.Cell = "nowhere" }, directory.ErrUnknownCell},
	} {
		top := topology("eu-1", 4)
		c.spoil(&top)
		_, err := r.Publish(t.Context(), top, change("publish "+name))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r.cellIs(t, cell)
	if got := r.cell(t, "eu-1").Topology; got != 3 {
		t.Errorf("the cell's topology is %d, want 3", got)
	}
	if all, err := r.Topologies(t.Context(), "eu-1", 0, 10); err != nil || len(all) != 3 {
		t.Errorf("%d topologies, %v; want 3", len(all), err)
	}
}

// Zones come behind those that are there, however often and by however many at once, and no other way.
func zonesGrow(t *testing.T, r rules) {
	next := topology("eu-1", 4)
	next.Shards[5].Zone = "d"
	_, err := r.Publish(t.Context(), next, change("too early"))
	wantIs(t, err, directory.ErrInvalid)
	before := r.cell(t, "eu-1")
	for name, c := range map[string]struct {
		zones []string
		want  error
	}{
		"fewer":         {[]string{"a", "b"}, directory.ErrZones},
		"none":          {nil, directory.ErrZones},
		"another order": {[]string{"b", "a", "c", "d"}, directory.ErrZones},
		"one in front":  {[]string{"d", "a", "b", "c"}, directory.ErrZones},
		"another":       {[]string{"a", "b", "d"}, directory.ErrZones},
		"one twice":     {[]string{"a", "b", "c", "a"}, directory.ErrInvalid},
		"a new twice":   {[]string{"a", "b", "c", "d", "d"}, directory.ErrInvalid},
		"a nameless":    {[]string{"a", "b", "c", ""}, directory.ErrInvalid},
	} {
		if _, err := r.ExtendZones(t.Context(), "eu-1", c.zones, change("zones "+name)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	_, err = r.ExtendZones(t.Context(), "nowhere", []string{"a"}, change("nowhere"))
	wantIs(t, err, directory.ErrUnknownCell)
	if _, err := r.ExtendZones(t.Context(), "eu-1", []string{"a", "b", "c"}, change("no new one")); err != nil {
		t.Error(err)
	}
	r.cellIs(t, before)

	// Two add another zone each at once: one is first, and the other's zones no longer begin with the cell's.
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, zone := range []string{"d", "e"} {
		wg.Go(func() {
			_, errs[i] = r.ExtendZones(t.Context(), "eu-1", []string{"a", "b", "c", zone}, change("add "+zone))
		})
	}
	wg.Wait()
	won := 0
	if errs[0] != nil {
		won = 1
	}
	wantIs(t, errs[1-won], directory.ErrZones)
	zones := []string{"a", "b", "c", []string{"d", "e"}[won]}
	if got := r.cell(t, "eu-1"); errs[won] != nil || !slices.Equal(got.Zones, zones) || got.Open != before.Open || got.Capacity != before.Capacity || got.Topology != before.Topology {
		t.Errorf("%v: cell %+v, want zones %q and the rest of %+v", errs[won], got, zones, before)
	}
	next.Shards[5].Zone = zones[3]
	publish(t, r.Directory, next)
}

func drained(shards []directory.Shard, n int) []directory.Shard {
	for i := range n {
		shards[i].State = directory.Drained
	}
	return shards
}

func immutable(t *testing.T, r rules) {
	before, err := r.Topology(t.Context(), "eu-1", 3)
	if err != nil {
		t.Fatal(err)
	}
	other := topology("eu-1", 3)
	other.Shards = other.Shards[:5]
	_, err = r.Publish(t.Context(), other, change("again"))
	wantIs(t, err, directory.ErrStale)
	// A repetition of the last publication is one.
	if _, err := r.Publish(t.Context(), topology("eu-1", 3), change("publish eu-1 3")); err != nil {
		t.Errorf("repeated: %v", err)
	}
	e := r.create(t, entry("acme", directory.Active))
	publish(t, r.Directory, topology("eu-1", 4))
	_, err = r.Retire(t.Context(), "eu-1", 3, change("retire"))
	wantIs(t, err, directory.ErrInUse)
	_, err = r.Retire(t.Context(), "eu-1", 4, change("retire newest"))
	wantIs(t, err, directory.ErrInUse)
	_, err = r.Retire(t.Context(), "eu-1", 9, change("retire nothing"))
	wantIs(t, err, directory.ErrUnknownTopology)
	e = r.replace(t, e, "migrate", func(e *directory.Entry) { e.Topology = 4 })
	for range 2 {
		after, err := r.Retire(t.Context(), "eu-1", 3, change("retire at last"))
		if err != nil || !after.Retired {
			t.Fatalf("retired %t, %v", after.Retired, err)
		}
		after.Retired = false
		if diff := cmp.Diff(before, after, empty); diff != "" {
			t.Errorf("the topology changed (-before +after):\n%s", diff)
		}
	}
	back := e.Clone()
	back.Topology = 3
	_, err = r.Replace(t.Context(), e, back, change("back"))
	wantIs(t, err, directory.ErrRetired)
	_, err = r.Create(t.Context(), entry("late", directory.Active), change("late"))
	wantIs(t, err, directory.ErrRetired)
}

// Tenants leave and come while a topology is being retired: at the end it is retired and empty, or not
// retired.
func retireRace(t *testing.T, r rules) {
	publish(t, r.Directory, topology("eu-1", 4))
	var wg sync.WaitGroup
	var mu sync.Mutex
	came := 0
	for i := range 16 {
		wg.Go(func() {
			_, err := r.Create(t.Context(), entry(fmt.Sprint("t", i), directory.Active), change("come"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				came++
			} else if !errors.Is(err, directory.ErrRetired) {
				t.Errorf("come: %v", err)
			}
		})
	}
	var retireErr error
	wg.Go(func() { _, retireErr = r.Retire(t.Context(), "eu-1", 3, change("retire")) })
	wg.Wait()
	top, err := r.Topology(t.Context(), "eu-1", 3)
	if err != nil {
		t.Fatal(err)
	}
	if retireErr != nil && !errors.Is(retireErr, directory.ErrInUse) {
		t.Errorf("retire: %v", retireErr)
	}
	if top.Retired != (retireErr == nil) || top.Tenants != int64(came) || top.Retired && came > 0 {
		t.Errorf("retired %t (%v) with %d tenants, and %d came", top.Retired, retireErr, top.Tenants, came)
	}
}

// Enrolling is creating, many at a time, and leaves those alone who are there.
func enrol(t *testing.T, r rules) {
	const n = 250
	there := r.create(t, entry("t007", directory.Active))
	other := entry("t100", directory.Suspended)
	r.create(t, other)
	var all []directory.Entry
	for i := range n {
		e := entry(fmt.Sprintf("t%03d", i), directory.Active)
		if i%2 == 1 && i != 7 {
			e.Cell, e.Pins = "us-1", []string{"s01"}
		}
		all = append(all, e)
	}
	got, err := r.Enrol(t.Context(), all, change("import"))
	if err != nil || got.Created != n-2 || got.Present != 1 || len(got.Differ) != 1 || got.Differ[0].Tenant != "t100" {
		t.Fatalf("%d created, %d present, %d differ, %v", got.Created, got.Present, len(got.Differ), err)
	}
	cells := []directory.Cell{r.cell(t, "eu-1"), r.cell(t, "us-1")}
	if cells[0].Tenants+cells[1].Tenants != n || cells[0].Load+cells[1].Load != n*1500 || cells[1].Pinned["s01"] != 124*1500 {
		t.Errorf("cells %+v", cells)
	}
	again := change("import again")
	again.At = at.Add(time.Hour)
	if got, err = r.Enrol(t.Context(), all, again); err != nil || got.Created != 0 || got.Present != n-1 || len(got.Differ) != 1 {
		t.Errorf("repeated: %d created, %d present, %d differ, %v", got.Created, got.Present, len(got.Differ), err)
	}
	r.unchanged(t, there, cells[0])
	lines, err := r.Directory.History(t.Context(), "t200", 0, 10)
	if err != nil || len(lines) != 1 || lines[0].After.Operation != "import" {
		t.Errorf("history %+v, %v", lines, err)
	}
	h := directory.NewMemoryHolder()
	res := directory.NewResidence(r.Directory, h, keys)
	moved, held := all[200], entry("held", directory.Active)
	moved.Pins = []string{"s08"}
	if got, err := res.Enrol(t.Context(), []directory.Entry{moved, held}, change("held")); err != nil || got.Created != 1 || len(got.Differ) != 1 {
		t.Errorf("%d created, %d differ, %v", got.Created, len(got.Differ), err)
	}
	served(t, res, h, "held")
	if got := holders(t, h, moved.Tenant); len(got) > 0 {
		t.Errorf("%v hold a tenant whose entry differs", got)
	}
	bad := entry("bad", directory.Active)
	bad.Cell = "nowhere"
	_, err = r.Enrol(t.Context(), []directory.Entry{bad}, change("bad"))
	wantIs(t, err, directory.ErrUnknownCell)
	twice := []directory.Entry{entry("twice", directory.Active), entry("twice", directory.Suspended)}
	got, err = r.Enrol(t.Context(), twice, change("twice"))
	if err != nil || got.Created != 1 || got.Present != 0 || len(got.Differ) != 1 || got.Differ[0].State != directory.Suspended {
		t.Errorf("a tenant named twice, otherwise: %+v, %v", got, err)
	}
	if e, err := r.Get(t.Context(), "twice"); err != nil || e.State != directory.Active || e.Epoch != 1 {
		t.Errorf("a tenant named twice is %+v, %v", e, err)
	}
}

func access(t *testing.T, r rules) {
	var want []directory.Access
	for i := range 5 {
		c := change(fmt.Sprint("read ", i))
		c.At = at.Add(time.Duration(i) * time.Millisecond)
		for range 2 { // noted once, however often it is repeated
			if err := r.NoteAccess(t.Context(), "acme", "tenant show", c); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, directory.Access{Tenant: "acme", By: "ann", What: "tenant show", Why: "because", At: c.At, Operation: c.Operation})
		c.By = "bob"
		c.Operation += " by bob"
		if err := r.NoteAccess(t.Context(), "other", "tenant show", c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Accesses(t.Context(), "acme", time.Time{}, 100)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("by tenant: %v (-want +got):\n%s", err, diff)
	}
	if got, err = r.Accesses(t.Context(), "acme", want[3].At, 100); err != nil || len(got) != 2 {
		t.Errorf("%d from the fourth on, %v", len(got), err)
	}
	r.create(t, entry("acme", directory.Active))
	var byAnn []directory.Access
	changes, cells := 0, 0
	for mark := (directory.Mark{}); ; {
		done, next, err := r.DoneBy(t.Context(), "ann", mark, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Accesses)+len(done.Changes)+len(done.Cells) == 0 {
			break
		}
		byAnn = append(byAnn, done.Accesses...)
		changes += len(done.Changes)
		cells += len(done.Cells)
		mark = next
	}
	if diff := cmp.Diff(want, byAnn); diff != "" {
		t.Errorf("by operator (-want +got):\n%s", diff)
	}
	// Fill added, opened and published three topologies in two cells.
	if changes != 1 || cells != 10 {
		t.Errorf("%d changes of tenants and %d of cells, want 1 and 10", changes, cells)
	}
	wantIs(t, r.NoteAccess(t.Context(), "", "tenant show", change("op")), directory.ErrInvalid)
	listing(t, r)
	wantIs(t, r.NoteAccess(t.Context(), "acme", "tenant show", directory.Change{Operation: "op"}), directory.ErrInvalid)
}

// A listing is one record, of the operator and of no tenant.
func listing(t *testing.T, r rules) {
	c := change("list")
	c.By = "eve"
	for range 2 { // noted once, however often it is repeated
		if err := r.NoteListing(t.Context(), "tenant list --cell eu-1", c); err != nil {
			t.Fatal(err)
		}
	}
	want := []directory.Access{{By: "eve", What: "tenant list --cell eu-1", Why: "because", At: c.At, Operation: "list"}}
	done, mark, err := r.DoneBy(t.Context(), "eve", directory.Mark{}, 10)
	if diff := cmp.Diff(want, done.Accesses); err != nil || diff != "" {
		t.Errorf("by operator: %v (-want +got):\n%s", err, diff)
	}
	if done, _, err = r.DoneBy(t.Context(), "eve", mark, 10); err != nil || len(done.Accesses) > 0 {
		t.Errorf("after the listing: %+v, %v", done.Accesses, err)
	}
	if of, err := r.Accesses(t.Context(), "eve", time.Time{}, 10); err != nil || len(of) > 0 {
		t.Errorf("accesses to the tenant of that name: %+v, %v", of, err)
	}
	wantIs(t, r.NoteListing(t.Context(), "", c), directory.ErrInvalid)
	wantIs(t, r.NoteListing(t.Context(), "\xff", c), directory.ErrInvalid)
	wantIs(t, r.NoteListing(t.Context(), "tenant list", directory.Change{Operation: "op"}), directory.ErrInvalid)
}

func news(t *testing.T, r rules) {
	_, cursor, err := r.Changes(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	e := r.create(t, entry("acme", directory.Active))
	e = r.replace(t, e, "suspend", func(e *directory.Entry) { e.State = directory.Suspended })
	publish(t, r.Directory, topology("us-1", 4))
	var entries []directory.Entry
	var topologies []directory.Topology
	for page := 0; len(topologies) == 0 && page < 100; page++ {
		got, next, err := r.Changes(t.Context(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		entries, topologies, cursor = append(entries, got.Entries...), append(topologies, got.Topologies...), next
	}
	if len(entries) == 0 || len(topologies) == 0 {
		t.Fatalf("%d entries and %d topologies", len(entries), len(topologies))
	}
	if diff := cmp.Diff(e, entries[len(entries)-1]); diff != "" {
		t.Errorf("the last entry (-want +got):\n%s", diff)
	}
	if top := topologies[0]; top.Cell != "us-1" || top.Version != 4 {
		t.Errorf("topology %d of %s", top.Version, top.Cell)
	}
	served := e.Serving()
	if served.Load != 0 || served.Operation != "" || !served.Updated.IsZero() || served.Epoch != 2 || served.Topology != 3 {
		t.Errorf("what a router gets: %+v", served)
	}
}
