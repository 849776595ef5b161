package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// stage is a cell with one tenant, over whom changes come together.
type stage struct {
	t      *testing.T
	home   directory.Home
	holder directory.Holder
	res    *directory.Residence // which takes no steps
	floor  map[string]uint64    // by shard, the highest epoch of a stay there whose requests were refused
}

const raced = "acme" // the tenant

// newStage has topologies 1 and 3 of shards s01 to s08, of which 2 leaves s05 to s08.
func newStage(t *testing.T, home directory.Home, h directory.Holder) *stage {
	t.Helper()
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	addCell(t, d, directory.Cell{Name: "eu-1"}, 1000)
	for v := range uint64(3) {
		top := topology("eu-1", v+1)
		if v == 1 {
			top.Shards = drained(top.Shards, 4)
		}
		publish(t, d, top)
	}
	return &stage{t, home, h, directory.NewResidence(d, h, keys), map[string]uint64{}}
}

func (s *stage) must(_ any, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// history is the tenant's entries, oldest first, and their subsets where it is held.
func (s *stage) history() (entries []directory.Entry, subsets [][]string) {
	s.t.Helper()
	lines, err := s.res.History(s.t.Context(), raced, 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range lines {
		subset := []string{}
		if l.After.State != directory.Placing {
			if subset, err = s.res.Subset(s.t.Context(), l.After); err != nil {
				s.t.Fatal(err)
			}
		}
		entries, subsets = append(entries, l.After), append(subsets, subset)
	}
	return entries, subsets
}

// always fails unless what holds at every moment does: the shards of the entry's subset hold the tenant at an
// epoch that is not above the entry's, and a request of an older entry that a shard refused, it refuses for
// ever.
func (s *stage) always() {
	s.t.Helper()
	entries, subsets := s.history()
	if len(entries) == 0 {
		return
	}
	now := entries[len(entries)-1]
	for i := range 8 {
		shard := fmt.Sprintf("s%02d", i+1)
		h, live, err := s.holder.Held(s.t.Context(), "eu-1", shard, raced)
		if err != nil {
			s.t.Fatal(err)
		}
		if slices.Contains(subsets[len(subsets)-1], shard) && (!live || h.Epoch > now.Epoch) {
			s.t.Errorf("the entry is %s at epoch %d on %v, and %s holds it: %t at %d", now.State, now.Epoch, subsets[len(subsets)-1], shard, live, h.Epoch)
		}
		for j, e := range entries {
			if !slices.Contains(subsets[j], shard) {
				continue
			}
			taken := live && h.Epoch <= e.Epoch
			if taken && e.Epoch <= s.floor[shard] {
				s.t.Errorf("%s takes requests of epoch %d again, which it refused", shard, e.Epoch)
			}
			if !taken {
				s.floor[shard] = max(s.floor[shard], e.Epoch)
			}
		}
	}
}

// settled fails unless no shard outside the subset takes a request of an entry that stood.
func (s *stage) settled() {
	s.t.Helper()
	entries, subsets := s.history()
	if len(entries) == 0 {
		return
	}
	for i := range 8 {
		shard := fmt.Sprintf("s%02d", i+1)
		if slices.Contains(subsets[len(subsets)-1], shard) {
			continue
		}
		h, live, err := s.holder.Held(s.t.Context(), "eu-1", shard, raced)
		if err != nil {
			s.t.Fatal(err)
		}
		for j, e := range entries {
			if live && h.Epoch <= e.Epoch && slices.Contains(subsets[j], shard) {
				s.t.Errorf("the tenant is on %v at epoch %d, and %s, which it left, takes requests of epoch %d", subsets[len(subsets)-1], entries[len(entries)-1].Epoch, shard, e.Epoch)
			}
		}
	}
}

// exact reconciles, and fails unless the holdings are what the entry says, and a second time finds nothing.
func (s *stage) exact() {
	s.t.Helper()
	shards := []string{}
	for i := range 8 {
		shards = append(shards, fmt.Sprintf("s%02d", i+1))
	}
	for again := range 2 {
		o := directory.Reconciling{Cell: "eu-1", Shards: shards, Touch: true, Absent: true}
		got, err := s.res.Reconcile(s.t.Context(), o, change(fmt.Sprint("reconcile ", again)), func(f directory.Finding) {
			if again > 0 && f.What != directory.Pending { // a sign-up that is not through
				s.t.Errorf("found again: %+v", f)
			}
		}, func(directory.Reconciled) {})
		if err != nil || got.Left > got.Found[directory.Pending] {
			s.t.Errorf("reconciled: %+v, %v", got, err)
		}
	}
	entries, subsets := s.history()
	if len(entries) > 0 && entries[len(entries)-1].State == directory.Placing {
		return // what is held for when it is through stays
	}
	subsets = append([][]string{nil}, subsets...)
	want := slices.Sorted(slices.Values(subsets[len(subsets)-1]))
	if got := holders(s.t, s.holder, raced); !slices.Equal(got, want) {
		s.t.Errorf("reconciled, %v hold the tenant, want %v", got, want)
	}
}

// deed is a change by one client. It is the same change whenever it is done.
type deed struct {
	name string
	do   func(context.Context, *directory.Residence) error
}

func deeds(names ...string) []deed { return deedsAs("", names...) }

// deedsAs is deeds whose operations end so.
func deedsAs(suffix string, names ...string) []deed {
	change := func(operation string) directory.Change { return change(operation + suffix) }
	act := func(f func(context.Context, *directory.Residence, directory.Change) (directory.Entry, error), op string) func(context.Context, *directory.Residence) error {
		return func(ctx context.Context, r *directory.Residence) error { _, err := f(ctx, r, change(op)); return err }
	}
	pin := func(shards ...string) func(context.Context, *directory.Residence, directory.Change) (directory.Entry, error) {
		return func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.Pin(ctx, raced, shards, 0, c)
		}
	}
	enrol := func(op string, pins ...string) func(context.Context, *directory.Residence) error {
		return func(ctx context.Context, r *directory.Residence) error {
			_, err := r.Enrol(ctx, []directory.Entry{imported(pins...)}, change(op))
			return err
		}
	}
	migrate := func(to uint64) func(context.Context, *directory.Residence) error {
		return func(ctx context.Context, r *directory.Residence) error {
			got, err := r.Migrate(ctx, directory.Migration{Cell: "eu-1", To: to}, "", 10, change(fmt.Sprint("migrate ", to)))
			for _, left := range slices.Concat(got.Skipped, got.Failed) {
				err = errors.Join(err, left.Why)
			}
			return err
		}
	}
	all := []deed{
		{"complete", act(func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.Complete(ctx, raced, c)
		}, "complete")},
		{"sign up", act(func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.SignUp(ctx, directory.SignUp{Tenant: raced, Load: 1000}, c)
		}, "sign up")},
		{"suspend", act(func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.Suspend(ctx, raced, 0, c)
		}, "suspend")},
		{"resume", act(func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.Resume(ctx, raced, 0, c)
		}, "resume")},
		{"pin 1 2", act(pin("s01", "s02"), "pin 1 2")},
		{"pin 2 8", act(pin("s02", "s08"), "pin 2 8")},
		{"unpin", act(func(ctx context.Context, r *directory.Residence, c directory.Change) (directory.Entry, error) {
			return r.Unpin(ctx, raced, 0, c)
		}, "unpin")},
		{"migrate 2", migrate(2)},
		{"migrate 3", migrate(3)},
		{"pin 5 6", act(pin("s05", "s06"), "pin 5 6")},
		{"retire 2", func(ctx context.Context, r *directory.Residence) error {
			_, err := r.Retire(ctx, "eu-1", 2, change("retire 2"))
			return err
		}},
		{"import", enrol("import")},
		{"import again", enrol("import again")},
		{"import pinned", enrol("import pinned", "s01", "s03")},
	}
	var some []deed
	for _, name := range names {
		some = append(some, all[slices.IndexFunc(all, func(d deed) bool { return d.name == name })])
	}
	return some
}

// imported is the tenant as a file has it.
func imported(pins ...string) directory.Entry {
	return directory.Entry{Tenant: raced, Cell: "eu-1", State: directory.Active, Topology: 1, Load: 1000, Pins: pins}
}

// scene is a way to begin, with the changes that may come then, two at once.
type scene struct {
	name  string
	begin func(*stage)
	deeds []deed
}

func enrolled(s *stage) {
	s.must(s.res.Enrol(s.t.Context(), []directory.Entry{imported()}, change("import")))
}

func scenes() []scene {
	return []scene{
		{"absent", func(*stage) {}, deeds("import", "import again", "import pinned", "sign up")},
		{"placing", func(s *stage) {
			s.must(s.res.Place(s.t.Context(), directory.SignUp{Tenant: raced, Load: 1000}, change("sign up")))
		}, deeds("sign up", "complete", "suspend", "pin 1 2", "import")},
		{"active", enrolled, deeds("suspend", "pin 1 2", "pin 2 8", "migrate 2", "migrate 3", "retire 2", "import pinned")},
		{"pinned", func(s *stage) {
			enrolled(s)
			s.must(s.res.Pin(s.t.Context(), raced, []string{"s01", "s02"}, 0, change("pinned before")))
		}, deeds("unpin", "pin 2 8", "suspend", "migrate 2", "import")},
	}
}

// HoldSchedules runs every two changes of one tenant, by two clients that share nothing but the home and the
// shards, in every order of their steps, over memory, also with one of the clients ending behind each of its
// writes; and some with a third change anywhere between. What must hold always is checked after each step.
func HoldSchedules(t *testing.T) {
	for _, scene := range scenes() {
		t.Run(scene.name, func(t *testing.T) {
			orders := 0
			for i, a := range scene.deeds {
				for j, b := range scene.deeds {
					if j >= i {
						orders += everyOrder(t, scene.begin, 0, a, b)
					}
					for ends := 1; !t.Failed(); ends++ {
						n := everyOrder(t, scene.begin, ends, a, b)
						if orders += n; n == 0 {
							break
						}
					}
					if t.Failed() {
						t.Fatalf("%s beside %s", a.name, b.name)
					}
				}
			}
			t.Logf("%d orders", orders)
		})
	}
	for _, three := range [][]deed{
		deeds("pin 1 2", "pin 2 8", "pin 5 6"), deeds("pin 5 6", "migrate 2", "retire 2"), deeds("suspend", "pin 1 2", "pin 2 8"),
	} {
		t.Run(three[0].name+", "+three[1].name+", "+three[2].name, func(t *testing.T) {
			t.Logf("%d orders", everyOrder(t, enrolled, 0, three...))
		})
	}
}

// everyOrder runs the first two step by step and a third, if there is one, whole. The first ends behind its
// write of that number, counted from 1, when that is not 0. It returns the number of orders, 0 when the first
// has not so many writes.
func everyOrder(t *testing.T, begin func(*stage), ends int, some ...deed) (orders int) {
	t.Helper()
	ended := false
	for made, more := []choice{}, true; more; {
		s := newStage(t, directory.NewMemory(), directory.NewMemoryHolder())
		begin(s)
		var clients []*client
		var work []func(*client) error
		for i, d := range some {
			clients = append(clients, newClient(s.home, s.holder))
			work = append(work, func(c *client) error {
				if i == 2 {
					c.step("write")
					return d.do(t.Context(), s.res)
				}
				dir, err := directory.Open(t.Context(), c)
				if err != nil {
					return err
				}
				return d.do(t.Context(), directory.NewResidence(dir, c, keys))
			})
		}
		clients[0].ends = ends
		all, errs, fresh := run(made, clients, work, s.always)
		if fresh {
			orders++
			ended = ended || clients[0].over
			if !clients[0].over {
				s.settled()
			}
			s.exact()
			s.always()
			for i, err := range errs {
				if err != nil && !expected(err) && !errors.Is(err, errStep) {
					t.Errorf("%s: %v", some[i].name, err)
				}
			}
		}
		if t.Failed() {
			for _, at := range all {
				t.Logf("%s: %s", some[at.taken].name, at.next[at.taken])
			}
			return orders
		}
		made, more = another(all)
	}
	if ends > 0 && !ended {
		return 0
	}
	return orders
}

// expected says whether an error is how a change is told that another was first, or that it cannot be.
func expected(err error) bool {
	for _, is := range []error{
		directory.ErrStale, directory.ErrState, directory.ErrExists, directory.ErrRetired, directory.ErrInUse,
		directory.ErrReused, directory.ErrSlotTaken, directory.ErrNoSlot, directory.ErrNotFound, directory.ErrInvalid,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
