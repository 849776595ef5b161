package directorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// A change of a cell is found done whatever came after it, and does not undo that.
func cellChangesRepeated(t *testing.T, r rules) {
	open := func(operation string) (directory.Cell, error) {
		return r.OpenCell(t.Context(), "eu-1", 500_000, 0, 10, change(operation))
	}
	first, err := open("open")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, r.Directory, topology("eu-1", 4))
	if _, err := r.CloseCell(t.Context(), "eu-1", change("close")); err != nil {
		t.Fatal(err)
	}
	publish(t, r.Directory, topology("eu-1", 5))
	if _, err := r.ExtendZones(t.Context(), "eu-1", []string{"a", "b", "c", "d"}, change("d")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ExtendZones(t.Context(), "eu-1", []string{"a", "b", "c", "d", "e"}, change("e")); err != nil {
		t.Fatal(err)
	}
	r.create(t, entry("acme", directory.Active))
	before, err := r.CellHistory(t.Context(), "eu-1", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	again, err := open("open")
	if err != nil || !again.Open || again.Capacity != first.Capacity || again.Topology != 3 || again.Tenants != 1 || again.Load != 1500 {
		t.Errorf("opened again: %+v, %v; want it as it was opened, with what is reserved now", again, err)
	}
	for name, do := range map[string]func() error{
		"add": func() error {
			_, err := r.AddCell(t.Context(), directory.Cell{Name: "eu-1", Headroom: directory.DefaultHeadroom, Zones: []string{"a", "b", "c"}}, change("add eu-1"))
			return err
		},
		"zones": func() error {
			_, err := r.ExtendZones(t.Context(), "eu-1", []string{"a", "b", "c", "d"}, change("d"))
			return err
		},
		"close": func() error { _, err := r.CloseCell(t.Context(), "eu-1", change("close")); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s repeated: %v", name, err)
		}
	}
	for _, version := range []uint64{4, 6} { // a caller may have counted on
		got, err := r.Publish(t.Context(), topology("eu-1", version), change("publish eu-1 4"))
		if err != nil || got.Version != 4 {
			t.Errorf("published again as %d: version %d, %v", version, got.Version, err)
		}
	}
	for operation, want := range map[string]uint64{"publish eu-1 4": 4, "publish eu-1 5": 5, "nothing": 0} {
		if got, err := r.Published(t.Context(), "eu-1", operation); err != nil || got != want {
			t.Errorf("%s published version %d, %v; want %d", operation, got, err, want)
		}
	}
	_, err = r.Published(t.Context(), "eu-1", "close")
	wantIs(t, err, directory.ErrReused)

	// Another change under one of these operations is refused.
	other := topology("eu-1", 4)
	other.Shards = other.Shards[:4]
	_, err = r.Publish(t.Context(), other, change("publish eu-1 4"))
	wantIs(t, err, directory.ErrReused)
	other.Version = 6
	_, err = r.Publish(t.Context(), other, change("publish eu-1 4"))
	wantIs(t, err, directory.ErrReused)
	_, err = r.CloseCell(t.Context(), "eu-1", change("open"))
	wantIs(t, err, directory.ErrReused)
	_, err = r.OpenCell(t.Context(), "eu-1", 500_001, 0, 10, change("open"))
	wantIs(t, err, directory.ErrReused)
	after, err := r.CellHistory(t.Context(), "eu-1", 0, 100)
	if err != nil || len(after) != len(before) || r.cell(t, "eu-1").Open {
		t.Errorf("%d changes, %v; want %d, and the cell closed", len(after), err, len(before))
	}
}

// Operators change a cell over a line that loses answers and lets writes arrive late, and repeat their changes at
// any later time: each is in the history at most once, and is told what the history says.
func cellsRepeatedAnyTime(t *testing.T, r rules) {
	const steps = 100
	line := newLate(t, r.home)
	d, err := directory.Open(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(line.roll(1<<30)), 1))
	at := func(operation string) *directory.LoggedCell {
		lines, err := r.CellHistory(t.Context(), "eu-1", 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		var found *directory.LoggedCell
		for i, l := range lines {
			if l.Operation != operation {
				continue
			}
			if found != nil {
				t.Errorf("%s is in the history twice, as %q and %q", operation, found.After.Did, l.After.Did)
			}
			found = &lines[i]
		}
		return found
	}
	next := func(i int) func(directory.Change) (directory.Cell, error) {
		capacity, version := directory.Rate(500_000+i), r.cell(t, "eu-1").Topology+1
		return []func(directory.Change) (directory.Cell, error){
			func(c directory.Change) (directory.Cell, error) {
				return d.OpenCell(t.Context(), "eu-1", capacity, 0, 10, c)
			},
			func(c directory.Change) (directory.Cell, error) { return d.CloseCell(t.Context(), "eu-1", c) },
			func(c directory.Change) (directory.Cell, error) {
				top := topology("eu-1", version)
				top.Shards[0].Weight = i + 1
				got, err := d.Publish(t.Context(), top, c)
				if err == nil && got.Shards[0].Weight != i+1 {
					t.Errorf("%s is told that topology %d is its own", c.Operation, got.Version)
				}
				return directory.Cell{Topology: got.Version}, err
			},
		}[rng.IntN(3)]
	}
	type asked struct {
		operation string
		do        func(directory.Change) (directory.Cell, error)
	}
	var all []asked
	done := 0
	for i := range steps {
		if len(all) == 0 || rng.IntN(2) == 0 {
			all = append(all, asked{fmt.Sprint("op-", i), next(i)})
		}
		a := all[len(all)-1]
		if rng.IntN(2) == 0 {
			a = all[rng.IntN(len(all))]
		}
		before := at(a.operation)
		got, err := a.do(change(a.operation))
		after := at(a.operation)
		switch {
		case before != nil && err != nil:
			t.Errorf("%s, which was done as %q: %v", a.operation, before.After.Did, err)
		case err == nil && after == nil:
			t.Errorf("%s is told %+v, and is not in the history", a.operation, got)
		case err == nil:
			done++
			if got.Topology != after.After.Topology || got.Name != "" && (got.Did != after.After.Did || got.Open != after.After.Open || got.Capacity != after.After.Capacity) {
				t.Errorf("%s is told %+v, and the history has %+v", a.operation, got, after.After)
			}
		case errors.Is(err, errLost): // nobody knows
		case !errors.Is(err, directory.ErrStale) || after != nil:
			t.Errorf("%s: %v, and the history has %+v", a.operation, err, after)
		}
	}
	if done < steps/4 {
		t.Errorf("%d of %d calls had success: too few to say anything", done, steps)
	}
}

// entryAlone is a home whose conflicts name the first condition alone, as a cancelled transaction may.
type entryAlone struct{ directory.Home }

func (h entryAlone) Write(ctx context.Context, b directory.Batch) error {
	err := h.Home.Write(ctx, b)
	if conflict := (*directory.Conflict)(nil); errors.As(err, &conflict) {
		return &directory.Conflict{Failed: conflict.Failed[:1]}
	}
	return err
}

// A success is one's own also when the conflict does not name what shows it.
func conflictOfTheEntryAlone(t *testing.T, r rules) {
	d, err := directory.Open(t.Context(), entryAlone{r.home})
	if err != nil {
		t.Fatal(err)
	}
	first := r.create(t, entry("acme", directory.Active))
	if got, err := d.Create(t.Context(), entry("acme", directory.Active), change("create acme")); err != nil || got.Epoch != 1 {
		t.Errorf("created again: %+v, %v", got, err)
	}
	suspended := first.Clone()
	suspended.State = directory.Suspended
	last := r.replace(t, first, "suspend", func(e *directory.Entry) { e.State = directory.Suspended })
	last = r.replace(t, last, "resume", func(e *directory.Entry) { e.State = directory.Active })
	if got, err := d.Replace(t.Context(), first, suspended, change("suspend")); err != nil || got.Epoch != 2 {
		t.Errorf("suspended again: %+v, %v", got, err)
	}
	_, err = d.Create(t.Context(), entry("acme", directory.Active), change("another"))
	wantIs(t, err, directory.ErrExists)
	_, err = d.Replace(t.Context(), first, suspended, change("another"))
	wantIs(t, err, directory.ErrStale)
	_, err = d.Replace(t.Context(), last, suspended, change("suspend"))
	wantIs(t, err, directory.ErrReused)
	if now, err := r.Get(t.Context(), "acme"); err != nil || now.Epoch != last.Epoch {
		t.Errorf("epoch %d, %v; want %d", now.Epoch, err, last.Epoch)
	}
}
