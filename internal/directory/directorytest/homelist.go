package directorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
)

// list goes through a range in pages. between, if given, runs after each full page.
func (h homeSuite) list(t *testing.T, r directory.Range, limit int, between func(page int)) []directory.Key {
	t.Helper()
	var keys []directory.Key
	after := directory.Key{}
	for page := 0; ; page++ {
		records, err := h.List(t.Context(), r, after, limit)
		if err != nil {
			t.Fatalf("list %+v after %v: %v", r, after, err)
		}
		if len(records) > limit {
			t.Fatalf("a page of %d records, limit %d", len(records), limit)
		}
		for _, rec := range records {
			if !r.Match(rec) {
				t.Errorf("%v is not in range %+v", rec.Key, r)
			}
			keys = append(keys, rec.Key)
			after = rec.Key
		}
		if len(records) < limit {
			return keys
		}
		if between != nil {
			between(page)
		}
	}
}

func listByPart(t *testing.T, h homeSuite) {
	var want []directory.Key
	for i := range 23 {
		k := key("p", fmt.Sprintf("LOG#%02d", i))
		h.write(t, "op", directory.Put(k, 0, []byte(`1`)), directory.Put(key(fmt.Sprintf("p%d", i), "LOG#05"), 0, []byte(`1`)))
		want = append(want, k)
	}
	h.write(t, "op", directory.Put(key("p", "ENTRY"), 0, []byte(`1`)), directory.Put(key("p", "LOGS#1"), 0, []byte(`1`)), directory.Put(key("p", "LO#1"), 0, []byte(`1`)))
	for _, limit := range []int{1, 5, 23, 1000} {
		if diff := cmp.Diff(want, h.list(t, directory.Range{Family: "LOG", Part: "p"}, limit, nil)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	// After a key that is not there, also before the first.
	for after, n := range map[string]int{"LOG#": 23, "LOG#04x": 18, "LOG#22": 0, "LOG#99": 0} {
		records, err := h.List(t.Context(), directory.Range{Family: "LOG", Part: "p"}, key("p", after), 100)
		if err != nil || len(records) != n {
			t.Errorf("after %s: %d records, %v; want %d", after, len(records), err, n)
		}
	}
	if got := h.list(t, directory.Range{Family: "LOG"}, 7, nil); len(got) != 46 {
		t.Errorf("%d in the whole family, want 46", len(got))
	}
	if got := h.list(t, directory.Range{Family: "LOG", Part: "nobody"}, 7, nil); len(got) != 0 {
		t.Errorf("a part without records lists %v", got)
	}
}

func sorted(keys []directory.Key) []directory.Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b directory.Key) int {
		return slices.Compare([]string{a.Part, a.Sort}, []string{b.Part, b.Sort})
	})
}

func listByIndex(t *testing.T, h homeSuite) {
	var odd, all []directory.Key
	for i := range 23 {
		k := key(fmt.Sprintf("p%02d", i), "ENTRY")
		value := "even"
		if i%2 == 1 {
			value = "odd"
			odd = append(odd, k)
		}
		all = append(all, k)
		h.write(t, "op", directory.Put(k, 0, []byte(`1`), value, "all"), directory.Put(key(k.Part, "LOG#1"), 0, []byte(`1`), value))
	}
	h.write(t, "op", directory.Put(key("none", "ENTRY"), 0, []byte(`1`)))
	for _, limit := range []int{1, 5, 23, 1000} {
		if diff := cmp.Diff(odd, sorted(h.list(t, directory.Range{Family: "ENTRY", Index: directory.First, Value: "odd"}, limit, nil))); diff != "" {
			t.Errorf("odd, limit %d (-want +got):\n%s", limit, diff)
		}
		if diff := cmp.Diff(all, sorted(h.list(t, directory.Range{Family: "ENTRY", Index: directory.Second, Value: "all"}, limit, nil))); diff != "" {
			t.Errorf("all, limit %d (-want +got):\n%s", limit, diff)
		}
	}
	for _, r := range []directory.Range{
		{Family: "ENTRY", Index: directory.First, Value: "all"}, {Family: "ENTRY", Index: directory.Second, Value: "odd"},
		{Family: "LOG", Index: directory.Second, Value: "all"}, {Family: "ENTRY", Index: directory.First, Value: "od"},
	} {
		if got := h.list(t, r, 10, nil); len(got) != 0 {
			t.Errorf("%+v lists %v", r, got)
		}
	}
}

// A record leaves one value and comes to another while both are listed, and others come and go.
func listFollowsIndex(t *testing.T, h homeSuite) {
	const n = 20
	var stay []directory.Key
	version := map[directory.Key]uint64{}
	put := func(k directory.Key, value string) {
		h.write(t, fmt.Sprintf("op-%d", version[k]), directory.Put(k, version[k], []byte(`1`), value))
		version[k]++
	}
	for i := range n {
		stay = append(stay, key(fmt.Sprintf("stay%02d", i), "ENTRY"))
		put(stay[i], "here")
		put(key(fmt.Sprintf("go%02d", i), "ENTRY"), "here")
	}
	got := h.list(t, directory.Range{Family: "ENTRY", Index: directory.First, Value: "here"}, 3, func(page int) {
		put(key(fmt.Sprintf("go%02d", n-1-page%n), "ENTRY"), "there")
		put(key(fmt.Sprintf("new%02d", page), "ENTRY"), "here")
		put(stay[page%n], "here")
	})
	seen := map[directory.Key]int{}
	for _, k := range got {
		if seen[k]++; seen[k] > 1 {
			t.Errorf("%v is listed twice", k)
		}
	}
	for _, k := range stay {
		if seen[k] != 1 {
			t.Errorf("%v is listed %d times, want once", k, seen[k])
		}
	}
	for _, k := range h.list(t, directory.Range{Family: "ENTRY", Index: directory.First, Value: "there"}, 3, nil) {
		if r := h.read(t, k); r.Index[0] != "there" {
			t.Errorf("%v is listed under a value that it left", k)
		}
	}
}

func listRefuses(t *testing.T, h homeSuite) {
	for _, limit := range []int{0, -1} {
		if _, err := h.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, limit); err == nil {
			t.Errorf("limit %d is accepted", limit)
		}
	}
	for _, r := range []directory.Range{
		{}, {Part: "p"}, {Family: "ENTRY", Index: directory.First}, {Family: "ENTRY", Value: "x"},
		{Family: "ENTRY", Part: "p", Index: directory.First, Value: "x"},
	} {
		if _, err := h.List(t.Context(), r, directory.Key{}, 1); !errors.Is(err, directory.ErrInvalid) {
			t.Errorf("%+v: %v, want %q", r, err, directory.ErrInvalid)
		}
	}
}

func feed(t *testing.T, h homeSuite) {
	h.write(t, "op-0", directory.Put(key("old", "ENTRY"), 0, []byte(`1`)))
	records, cursor, err := h.Changes(t.Context(), "", 10)
	if err != nil || len(records) != 0 || cursor == "" {
		t.Fatalf("%d records, cursor %q, %v; want the cursor of now alone", len(records), cursor, err)
	}
	want := map[directory.Key]uint64{}
	for i := range 7 {
		k := key(fmt.Sprintf("p%d", i%5), "ENTRY")
		h.write(t, fmt.Sprintf("op-%d", i), directory.Put(k, want[k], []byte(`1`)), directory.Put(key(k.Part, fmt.Sprintf("LOG#%d", i)), 0, []byte(`1`)))
		want[k]++
	}
	top := key("c", "TOPOLOGY#1")
	h.write(t, "op", directory.Put(top, 0, []byte(`1`)))
	want[top] = 1
	h.write(t, "count", directory.Require(top, 1, directory.Delta{Counter: "n", By: 1, Max: 9}), directory.Put(key("c", "CELL"), 0, []byte(`1`)))
	got := map[directory.Key]uint64{}
	for page := 0; len(got) < len(want) && page < 100; page++ {
		records, next, err := h.Changes(t.Context(), cursor, 2)
		if err != nil || len(records) > 2 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		for _, r := range records {
			if !directory.Announced(r.Key) || r.Key.Part == "old" {
				t.Errorf("the feed tells of %v", r.Key)
			}
			got[r.Key] = r.Version
		}
		cursor = next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions that the feed told (-want +got):\n%s", diff)
	}
}

func feedRefuses(t *testing.T, h homeSuite) {
	for _, cursor := range []directory.Cursor{"no cursor", "-1"} {
		if _, _, err := h.Changes(t.Context(), cursor, 10); !errors.Is(err, directory.ErrInvalid) && !errors.Is(err, directory.ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func homeCancelled(t *testing.T, h homeSuite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Read(ctx, directory.Strong, key("p", "ENTRY"))
	wantIs(t, err, context.Canceled)
	wantIs(t, h.Write(ctx, directory.Batch{Operation: "op", Ops: []directory.Op{directory.Put(key("p", "ENTRY"), 0, []byte(`1`))}}), context.Canceled)
	_, err = h.List(ctx, directory.Range{Family: "ENTRY"}, directory.Key{}, 1)
	wantIs(t, err, context.Canceled)
	_, _, err = h.Changes(ctx, "", 1)
	wantIs(t, err, context.Canceled)
	h.stands(t, directory.Record{Key: key("p", "ENTRY")})
}
