package directory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

func drainCell(t *testing.T) *directory.Directory {
	t.Helper()
	d, err := directory.Open(t.Context(), directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.AddCell(t.Context(), directory.Cell{Name: "eu-1", Zones: []string{"a"}, Headroom: 30}, by("ann", "add")); err != nil {
		t.Fatal(err)
	}
	return d
}

var drainedAt = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func by(who, operation string) directory.Change {
	return directory.Change{Operation: operation, By: who, Why: "call 8", At: drainedAt}
}

func drained(c directory.Cell) string {
	var ids []string
	for _, d := range c.Drained {
		ids = append(ids, d.Shard+" by "+d.By)
	}
	return strings.Join(ids, ", ")
}

func TestDrains(t *testing.T) {
	d := drainCell(t)
	must := func(want string, c directory.Cell, err error) {
		t.Helper()
		now, readErr := d.Cell(t.Context(), "eu-1")
		if err != nil || readErr != nil || drained(c) != want || drained(now) != drained(c) {
			t.Errorf("drained %q, stands %q, want %q: %v, %v", drained(c), drained(now), want, err, readErr)
		}
	}
	c, err := d.DrainShard(t.Context(), "eu-1", "s07", by("ann", "1"))
	must("s07 by ann", c, err)
	if got := c.Drained[0]; !got.Since.Equal(drainedAt) || got.Why != "call 8" {
		t.Errorf("drained %+v", got)
	}
	c, err = d.DrainShard(t.Context(), "eu-1", "s02", by("bob", "2"))
	must("s02 by bob, s07 by ann", c, err)
	c, err = d.DrainShard(t.Context(), "eu-1", "s07", by("bob", "3"))
	must("s02 by bob, s07 by ann", c, err) // since when it was, and by whom
	c, err = d.UndrainShard(t.Context(), "eu-1", "s07", by("ann", "4"))
	must("s02 by bob", c, err)
	c, err = d.UndrainShard(t.Context(), "eu-1", "s07", by("ann", "5"))
	must("s02 by bob", c, err)

	// Other changes of the cell leave drains alone, and the other way round.
	c, err = d.OpenCell(t.Context(), "eu-1", 500_000, 0, 30, by("ann", "open"))
	must("s02 by bob", c, err)
	c, err = d.DrainShard(t.Context(), "eu-1", "s03", by("ann", "6"))
	must("s02 by bob, s03 by ann", c, err)
	if !c.Open || c.Capacity != 500_000 {
		t.Errorf("a drain left the cell as %+v", c)
	}

	// A repetition is found done, whatever happened since; another change under the same id is refused.
	repeated, err := d.DrainShard(t.Context(), "eu-1", "s07", by("ann", "1"))
	if err != nil || drained(repeated) != "s07 by ann" {
		t.Errorf("repeated: %q, %v", drained(repeated), err)
	}
	if now, _ := d.Cell(t.Context(), "eu-1"); drained(now) != "s02 by bob, s03 by ann" {
		t.Errorf("after a repetition %q stand", drained(now))
	}
	for name, err := range map[string]error{
		"another shard":  second(d.DrainShard(t.Context(), "eu-1", "s08", by("ann", "1"))),
		"the other way":  second(d.UndrainShard(t.Context(), "eu-1", "s07", by("ann", "1"))),
		"another change": second(d.CloseCell(t.Context(), "eu-1", by("ann", "1"))),
	} {
		if !errors.Is(err, directory.ErrReused) {
			t.Errorf("%s under the same operation: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		err error
		is  error
	}{
		"unknown cell": {second(d.DrainShard(t.Context(), "eu-9", "s01", by("ann", "9"))), directory.ErrUnknownCell},
		"no id":        {second(d.DrainShard(t.Context(), "eu-1", "", by("ann", "9"))), directory.ErrInvalid},
		"a long id":    {second(d.UndrainShard(t.Context(), "eu-1", strings.Repeat("s", 17), by("ann", "9"))), directory.ErrInvalid},
		"nobody":       {second(d.DrainShard(t.Context(), "eu-1", "s01", by("", "9"))), directory.ErrInvalid},
	} {
		if !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v, want %v", name, c.err, c.is)
		}
	}

	lines, err := d.CellHistory(t.Context(), "eu-1", 0, 100)
	var did []string
	for _, l := range lines {
		did = append(did, l.After.Did+" by "+l.By)
	}
	if err != nil || !slices.Contains(did, "drain shard s07 by ann") || !slices.Contains(did, "undrain shard s07 by ann") {
		t.Errorf("history %q, %v", did, err)
	}
	if done, _, err := d.DoneBy(t.Context(), "bob", directory.Mark{}, 100); err != nil || len(done.Cells) != 2 {
		t.Errorf("bob did %+v, %v", done.Cells, err)
	}
}

func second(_ directory.Cell, err error) error { return err }

// Of changes at once none is lost.
func TestDrainsAtOnce(t *testing.T) {
	d := drainCell(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			shard := fmt.Sprintf("s%02d", i+1)
			if _, err := d.DrainShard(t.Context(), "eu-1", shard, by("ann", "drain "+shard)); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if _, err := d.UndrainShard(t.Context(), "eu-1", shard, by("ann", "undrain "+shard)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c, err := d.Cell(t.Context(), "eu-1")
	if err != nil || len(c.Drained) != 8 || !slices.IsSortedFunc(c.Drained, func(a, b directory.Drain) int { return strings.Compare(a.Shard, b.Shard) }) {
		t.Errorf("%q, %v", drained(c), err)
	}
}
