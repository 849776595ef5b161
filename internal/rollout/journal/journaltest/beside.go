package journaltest

import (
	"bytes"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
)

// A directory that has a journal beside it shows nothing of it: no listing, export or feed of changes.
func directoryKnowsNothing(t *testing.T, home directory.Home) {
	d := directorytest.Fill(t, home)
	ctx := t.Context()
	for _, tenant := range []string{"acme", "r", service} {
		if _, err := d.Store("ann").Create(ctx, directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Topology: 1, Operation: "add " + tenant}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() string {
		t.Helper()
		var out bytes.Buffer
		if _, err := d.Export(ctx, &out, directory.JSONLines, "", func(int, string) {}); err != nil {
			t.Fatal(err)
		}
		cells, err := d.Cells(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			out.WriteString(c.Name + "\n")
			if _, err := d.Topologies(ctx, c.Name, 0, 100); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	before := shown()
	_, cursor, err := d.Changes(ctx, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := journal.New(home)
	l := take(t, s, "ann", at(0))
	r := lead(t, s, l, "r")
	is(t, "wish", s.Wish(ctx, service, wish("a", 0)), nil)
	last := write(t, s, l, then(r, l, rollout.Pause, ""))
	if after := shown(); before != after {
		t.Errorf("the directory was\n%s\nand is\n%s", before, after)
	}
	if _, err := d.Store("ann").Create(ctx, directory.Entry{Tenant: "late", Cell: "eu-1", State: directory.Active, Topology: 1, Operation: "add late"}); err != nil {
		t.Fatal(err)
	}
	for told := false; !told; {
		news, next, err := d.Changes(ctx, cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		cursor = next
		for _, e := range news.Entries {
			if told = told || e.Tenant == "late"; e.Tenant != "late" {
				t.Errorf("the feed tells of %q", e.Tenant)
			}
		}
		if len(news.Topologies) > 0 {
			t.Errorf("the feed tells of %d topologies", len(news.Topologies))
		}
	}
	stands(t, s, begun("r"), r, last)
}
