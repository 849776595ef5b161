package directorytest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// Brief is for a home on which the suite takes minutes: of what many do at once there is the linearizability of tenants' records,
// and the sign-up of a fifth of the tenants, both over the bad line alone; and nothing is repeated at its every step.
var Brief bool

var notBrief = []string{"Whole", "OneWinner", "Linearizable", "SlotsUnique", "NeverOverfull", "RepeatableAnyTime", "RepeatableCells", "Migrate"}

// Directory runs the suite of the rules above a home.
func Directory(t *testing.T, open func(t *testing.T) directory.Home) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, rules)
	}{
		{"Repeatable", repeatable},
		{"RepeatableAnyTime", repeatedAnyTime},
		{"RepeatableInFlight", repeatedInFlight},
		{"RepeatableCells", cellsRepeatedAnyTime},
		{"ConflictOfTheEntryAlone", conflictOfTheEntryAlone},
		{"Diagram", diagram},
		{"History", history},
		{"ListCellAndState", listCellAndState},
		{"Listed", listedOnce},
		{"Whole", whole},
		{"Named", named},
		{"OneWinner", oneWinner},
		{"Linearizable", linearizable},
		{"BusyHome", busyHome},
		{"NeverOverfull", neverOverfull},
		{"SignUpGoesWhereMostIsLeft", mostLeft},
		{"SignUpRefused", signUpRefused},
		{"SignUpRepeated", signUpRepeated},
		{"SignUpOfStateful", stateful},
		{"CountersFollowTheTenant", countersFollow},
		{"MostPins", mostPins},
		{"CellChanges", cellChanges},
		{"CellChangesRepeated", cellChangesRepeated},
		{"SlotsUnique", slotsUnique},
		{"SlotLost", slotLost},
		{"SignUpInterrupted", signUpInterrupted},
		{"SignUpPassesCellsBy", signUpPassesBy},
		{"LastSlot", lastSlot},
		{"SlotsRest", slotsRest},
		{"PublishRefuses", publishRefuses},
		{"ZonesGrow", zonesGrow},
		{"Immutable", immutable},
		{"RetireRace", retireRace},
		{"Enrol", enrol},
		{"Access", access},
		{"News", news},
		{"HeldFirst", heldFirst},
		{"HeldAtEveryStep", heldAtEveryStep},
		{"HeldByNobodyWhoLeft", heldByNobodyWhoLeft},
		{"HeldByWhoWon", heldByWhoWon},
		{"EnrolHoldsThoseWhoCome", enrolHolds},
		{"EnrolSlots", enrolSlots},
		{"SlotsRestWhateverTheTime", slotsRestWhatever},
		{"UndoneInVain", undoneInVain},
		{"Reconcile", reconcile},
		{"Unknown", unknown},
		{"Operate", operate},
		{"OperateRepeated", operateRepeated},
		{"OperateRepeatedAfterOthers", operateRepeatedAfterOthers},
		{"OperateRefuses", operateRefuses},
		{"Migrate", migrate},
		{"MigrateRefuses", migrateRefuses},
		{"Notes", notes},
		{"LetGo", letGo},
	}
	for _, test := range tests {
		if Brief && slices.Contains(notBrief, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			home := open(t)
			test.run(t, rules{Fill(t, home), home})
		})
	}
	t.Run("HeldAtOnce", func(t *testing.T) { heldAtOnce(t, open(t), directory.NewMemoryHolder()) })
	t.Run("LinearizableIsChecked", checkerRefuses)
	t.Run("NewerFormat", func(t *testing.T) { newerFormat(t, open(t)) })
}

type rules struct {
	*directory.Directory
	home directory.Home
}

func entry(tenant string, state directory.State) directory.Entry {
	return directory.Entry{Tenant: tenant, Cell: "eu-1", State: state, Topology: 3, Load: 1500}
}

func (r rules) create(t *testing.T, e directory.Entry) directory.Entry {
	t.Helper()
	got, err := r.Create(t.Context(), e, change("create "+e.Tenant))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (r rules) replace(t *testing.T, before directory.Entry, operation string, edit func(*directory.Entry)) directory.Entry {
	t.Helper()
	after := before.Clone()
	edit(&after)
	got, err := r.Replace(t.Context(), before, after, change(operation))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// unchanged fails when a tenant's entry or its cell's figures are not as they were.
func (r rules) unchanged(t *testing.T, e directory.Entry, cell directory.Cell) {
	t.Helper()
	got, err := r.Get(t.Context(), e.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	r.cellIs(t, cell)
}

func (r rules) cellIs(t *testing.T, want directory.Cell) {
	t.Helper()
	got := r.cell(t, want.Name)
	if got.Load != want.Load || got.Tenants != want.Tenants || !cmp.Equal(got.Pinned, want.Pinned, empty) {
		t.Errorf("cell %s has load %v of %d tenants, pinned %v; want %v of %d, %v", want.Name, got.Load, got.Tenants, got.Pinned, want.Load, want.Tenants, want.Pinned)
	}
}

func (r rules) cell(t *testing.T, name string) directory.Cell {
	t.Helper()
	c, err := r.Cell(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A change is recognised under its operation id however much later it is repeated, and takes effect once.
func repeatable(t *testing.T, r rules) {
	later := change("create acme")
	later.At = at.Add(time.Hour)
	first := r.create(t, entry("acme", directory.Active))
	pinned := r.replace(t, first, "pin", func(e *directory.Entry) { e.Pins = []string{"s01"} })
	last := r.replace(t, pinned, "suspend", func(e *directory.Entry) { e.State = directory.Suspended })
	cell := r.cell(t, "eu-1")
	again, err := r.Create(t.Context(), entry("acme", directory.Active), later)
	if err != nil {
		t.Fatalf("repeated create: %v", err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeated create (-want +got):\n%s", diff)
	}
	after := first.Clone()
	after.Pins = []string{"s01"}
	if again, err = r.Replace(t.Context(), first, after, change("pin")); err != nil {
		t.Fatalf("repeated change: %v", err)
	}
	if diff := cmp.Diff(pinned, again); diff != "" {
		t.Errorf("repeated change (-want +got):\n%s", diff)
	}
	r.unchanged(t, last, cell)

	after.Pins = []string{"s02"}
	_, err = r.Replace(t.Context(), first, after, change("pin"))
	wantIs(t, err, directory.ErrReused)
	wantIs(t, err, directory.ErrStale)
	_, err = r.Create(t.Context(), entry("acme", directory.Suspended), change("create acme"))
	wantIs(t, err, directory.ErrReused)
	wantIs(t, err, directory.ErrExists)
	other := change("create acme")
	other.By = "bob"
	_, err = r.Create(t.Context(), entry("acme", directory.Active), other)
	wantIs(t, err, directory.ErrReused)
	r.unchanged(t, last, cell)
}

// Every pair of states, against the arrows of the diagram.
func diagram(t *testing.T, r rules) {
	const p, a, s, m = directory.Placing, directory.Active, directory.Suspended, directory.Moving
	arrows := map[[2]directory.State]bool{
		{"", p}: true, {"", a}: true, {"", s}: true, {p, a}: true, {a, a}: true, {a, s}: true, {a, m}: true,
		{s, s}: true, {s, a}: true, {m, a}: true,
	}
	paths := map[directory.State][]directory.State{"": nil, p: {p}, a: {a}, s: {s}, m: {a, m}}
	for from, path := range paths {
		for _, to := range []directory.State{p, a, s, m} {
			tenant := fmt.Sprintf("from %s to %s", from, to)
			before := directory.Entry{}
			for i, state := range path {
				if i == 0 {
					before = r.create(t, entry(tenant, state))
					continue
				}
				before = r.replace(t, before, fmt.Sprint(i), func(e *directory.Entry) { e.State = state })
			}
			cell := r.cell(t, "eu-1")
			var err error
			if from == "" {
				_, err = r.Create(t.Context(), entry(tenant, to), change("op"))
			} else {
				after := before.Clone()
				after.State = to
				_, err = r.Replace(t.Context(), before, after, change("op"))
			}
			if arrows[[2]directory.State{from, to}] {
				if err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
				continue
			}
			wantIs(t, err, directory.ErrState)
			if from != "" {
				r.unchanged(t, before, cell)
			} else if _, err := r.Get(t.Context(), tenant); !errors.Is(err, directory.ErrNotFound) {
				t.Errorf("%s: the tenant is there, %v", tenant, err)
			}
			if from == m || from == "" || to == "" {
				continue
			}
			after := before.Clone()
			after.Cell = "us-1"
			_, err = r.Replace(t.Context(), before, after, change("another cell"))
			wantIs(t, err, directory.ErrState)
			r.unchanged(t, before, cell)
		}
	}
}

func history(t *testing.T, r rules) {
	const changes = 7
	entries := []directory.Entry{r.create(t, entry("acme", directory.Active))}
	r.create(t, entry("acme2", directory.Active))
	for i := range changes - 1 {
		entries = append(entries, r.replace(t, entries[i], fmt.Sprintf("op-%d", i), func(e *directory.Entry) {
			e.Pins = []string{fmt.Sprintf("s%02d", i+1)}
		}))
	}
	for after := range uint64(changes + 2) {
		for _, limit := range []int{1, 3, 100} {
			got, err := r.Directory.History(t.Context(), "acme", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			want := []directory.Logged{}
			for i := after; i < changes && len(want) < limit; i++ {
				line := directory.Logged{By: "ann", Why: "because", After: entries[i]}
				if i > 0 {
					line.Before = &entries[i-1]
				}
				want = append(want, line)
			}
			if diff := cmp.Diff(want, got, empty); diff != "" {
				t.Errorf("after %d, limit %d (-want +got):\n%s", after, limit, diff)
			}
		}
	}
	if lines, err := r.Directory.History(t.Context(), "nobody", 0, 10); err != nil || len(lines) != 0 {
		t.Errorf("nobody's history has %d lines, %v", len(lines), err)
	}
}

func listCellAndState(t *testing.T, r rules) {
	want := map[string]int{}
	for i := range 20 {
		e := entry(fmt.Sprintf("t%02d", i), directory.Active)
		if i%2 == 1 {
			e.Cell = "us-1"
		}
		if i%5 == 0 {
			e.State = directory.Suspended
		}
		e = r.create(t, e)
		if i%4 == 0 && e.State == directory.Active {
			e = r.replace(t, e, "move", func(e *directory.Entry) { e.State = directory.Moving })
		}
		want[e.Cell]++
		want[string(e.State)]++
	}
	count := func(what string, list func(after string) ([]directory.Entry, error), in func(directory.Entry) bool) {
		n, after := 0, ""
		for {
			page, err := list(after)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				if !in(e) {
					t.Errorf("%s: lists %+v", what, e)
				}
				n++
				after = e.Tenant
			}
			if len(page) < 3 {
				break
			}
		}
		if n != want[what] {
			t.Errorf("%s: %d entries, want %d", what, n, want[what])
		}
	}
	for _, cell := range []string{"eu-1", "us-1", "ap-1"} {
		count(cell, func(after string) ([]directory.Entry, error) { return r.ListCell(t.Context(), cell, after, 3) },
			func(e directory.Entry) bool { return e.Cell == cell })
	}
	for _, state := range []directory.State{directory.Placing, directory.Active, directory.Suspended, directory.Moving} {
		count(string(state), func(after string) ([]directory.Entry, error) { return r.ListState(t.Context(), state, after, 3) },
			func(e directory.Entry) bool { return e.State == state })
	}
}

func newerFormat(t *testing.T, home directory.Home) {
	if _, err := directory.Open(t.Context(), home); err != nil {
		t.Fatalf("an empty home: %v", err)
	}
	Fill(t, home)
	if _, err := directory.Open(t.Context(), home); err != nil {
		t.Fatalf("a directory of this version: %v", err)
	}
	err := home.Write(t.Context(), directory.Batch{Operation: "newer", Ops: []directory.Op{
		directory.Put(key("META", "FORMAT"), 1, fmt.Appendf(nil, `{"format":%d}`, directory.Format+1)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = directory.Open(t.Context(), home)
	wantIs(t, err, directory.ErrNewer)
}
