package directorytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (s suite) listAll(t *testing.T, limit int, between func(page int)) []string {
	t.Helper()
	var tenants []string
	after := ""
	for page := 0; ; page++ {
		entries, err := s.List(t.Context(), after, limit)
		if err != nil {
			t.Fatalf("list after %q: %v", after, err)
		}
		if len(entries) > limit {
			t.Fatalf("a page of %d entries, limit %d", len(entries), limit)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Tenant, s.entry("", "").Tenant) {
				tenants = append(tenants, e.Tenant)
			}
		}
		if len(entries) < limit {
			return tenants
		}
		after = entries[len(entries)-1].Tenant
		between(page)
	}
}

func listInPages(t *testing.T, s suite) {
	var want []string
	for i := range 23 {
		e := s.create(t, s.entry(fmt.Sprintf("t%02d", i), "op"))
		want = append(want, e.Tenant)
	}
	var order []string
	for _, limit := range []int{1, 5, 23, 1000} {
		got := s.listAll(t, limit, func(int) {})
		if order == nil {
			order = slices.Clone(got)
		}
		if diff := cmp.Diff(order, got); diff != "" {
			t.Fatalf("limit %d lists in another order (-first +now):\n%s", limit, diff)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	entries, err := s.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		s.stands(t, e)
	}
}

func listWhileItChanges(t *testing.T, s suite) {
	for i := range 20 {
		s.create(t, s.entry(fmt.Sprintf("old%02d", i), "op"))
	}
	got := s.listAll(t, 3, func(page int) {
		s.create(t, s.entry(fmt.Sprintf("new%02d", page), "op"))
		e := s.entry(fmt.Sprintf("old%02d", page), "op-2")
		if _, err := s.CompareAndSet(t.Context(), 1, e); err != nil {
			t.Fatal(err)
		}
	})
	seen := map[string]int{}
	for _, tenant := range got {
		seen[tenant]++
		if seen[tenant] > 1 {
			t.Errorf("%q is listed twice", tenant)
		}
	}
	for i := range 20 {
		if tenant := s.entry(fmt.Sprintf("old%02d", i), "").Tenant; seen[tenant] != 1 {
			t.Errorf("%q is listed %d times", tenant, seen[tenant])
		}
	}
}

func listRefusesNoLimit(t *testing.T, s suite) {
	for _, limit := range []int{0, -1} {
		if _, err := s.List(t.Context(), "", limit); err == nil {
			t.Errorf("limit %d is accepted", limit)
		}
	}
}
