package directory_test

import (
	"context"
	"errors"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// sulky is a home that does not answer while it is told so, strongly or at all, and counts its reads.
type sulky struct {
	directory.Home
	down, strongDown error
	reads            int
}

func (s *sulky) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	s.reads++
	switch {
	case s.down != nil:
		return nil, s.down
	case s.strongDown != nil && c == directory.Strong:
		return nil, s.strongDown
	}
	return s.Home.Read(ctx, c, keys...)
}

func TestLater(t *testing.T) {
	down := errors.New("no route")
	home := &sulky{Home: directory.NewMemory(), down: down}
	d := directory.Later(home)
	if home.reads != 0 {
		t.Error("something was read before anybody asked")
	}
	if _, err := d.Get(t.Context(), "acme"); !errors.Is(err, down) {
		t.Errorf("down: %v", err)
	}
	if _, err := d.List(t.Context(), "", 1); !errors.Is(err, down) {
		t.Errorf("down: %v", err)
	}
	home.down = nil
	if _, err := d.Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := d.AddCell(t.Context(), directory.Cell{Name: "eu-1"}, by("ann", "add")); err != nil {
		t.Fatal(err)
	}
	_, _ = d.Get(t.Context(), "acme")
	home.reads = 0
	if _, err := d.Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) || home.reads != 1 {
		t.Errorf("once it was checked, a look-up reads %d times, %v", home.reads, err)
	}
}

// What is near does not wait for what is far.
func TestLaterReadsTheReplica(t *testing.T) {
	home := &sulky{Home: directory.NewMemory()}
	if _, err := directory.Later(home).AddCell(t.Context(), directory.Cell{Name: "eu-1"}, by("ann", "add")); err != nil {
		t.Fatal(err)
	}
	home.strongDown, home.reads = errors.New("the home region does not answer"), 0
	d := directory.Later(home)
	if _, err := d.Nearby().Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) || home.reads != 2 {
		t.Errorf("%d reads, %v", home.reads, err)
	}
	if _, err := directory.Later(home).Get(t.Context(), "acme"); !errors.Is(err, home.strongDown) {
		t.Errorf("%v", err)
	}
}

func TestLaterRefusesNewer(t *testing.T) {
	home := directory.NewMemory()
	err := home.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(directory.Key{Part: "META", Sort: "FORMAT"}, 0, []byte(`{"format":99}`))}})
	if err != nil {
		t.Fatal(err)
	}
	d := directory.Later(home)
	_, getErr := d.Get(t.Context(), "acme")
	_, listErr := d.List(t.Context(), "", 1)
	_, _, feedErr := d.Changes(t.Context(), "", 1)
	_, addErr := d.AddCell(t.Context(), directory.Cell{Name: "eu-1"}, by("ann", "add"))
	_, nearErr := d.Nearby().Get(t.Context(), "acme")
	for _, err := range []error{getErr, listErr, feedErr, addErr, nearErr} {
		if !errors.Is(err, directory.ErrNewer) {
			t.Errorf("%v", err)
		}
	}
}
