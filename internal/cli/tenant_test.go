package cli

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/directory"
)

func TestTenantAdd(t *testing.T) {
	o := openOffice(t)
	o.must("cell", "open", "us-1", "--capacity", "50")
	o.must("topology", "publish", "us-1")

	out := o.must("tenant", "add", "acme", "--load", "10", "--because", "ticket 7")
	if out != "added acme: cell eu-1, active, epoch 2\n" {
		t.Errorf("stdout %q", out)
	}
	s := o.show("acme")
	if e := s.Entry; e.State != directory.Active || e.Load != 10_000 || e.Topology != 1 {
		t.Errorf("entry %+v", e)
	}
	if len(s.Subset) != 2 || len(s.Held) != 2 {
		t.Fatalf("subset %v, held by %v", s.Subset, s.Held)
	}
	for _, m := range s.Subset {
		if m.Holds == nil || !*m.Holds || m.Zone == "" {
			t.Errorf("member %+v does not hold it, or has no zone", m)
		}
		if got := o.heldBy("eu-1/" + m.Shard); got != "acme" {
			t.Errorf("shard %s holds %q", m.Shard, got)
		}
	}
	if whale := o.must("tenant", "add", "whale", "--size", "whale", "--load", "50.5", "--json"); !strings.Contains(whale, `"cell":"eu-1"`) {
		t.Errorf("stdout %q", whale)
	}
	if s := o.show("whale"); len(s.Subset) != 3 || s.Entry.Load != 50_500 {
		t.Errorf("a whale: %+v", s)
	}

	o.refused(ExitFound, "already", "tenant", "add", "acme", "--load", "10")
	o.refused(ExitFound, "no cell has headroom: stamp a new one first", "tenant", "add", "big", "--load", "36")
	o.refused(ExitFound, "no cell has headroom: stamp a new one first", "tenant", "add", "own", "--internal")
	o.refused(ExitFound, "cell open CELL --capacity", "tenant", "add", "own", "--internal")
	o.refused(ExitUsage, `"whale"`, "tenant", "add", "new", "--size", "huge")
	o.refused(ExitUsage, "--load", "tenant", "add", "new", "--load", "-1")
	o.refused(ExitUsage, "argument 1 is empty", "tenant", "add", "")
	o.refused(ExitUsage, "1 to 128 bytes", "tenant", "add", strings.Repeat("x", 129))
	o.refused(ExitUsage, "accepts 1 arg", "tenant", "add")
	o.refused(ExitUsage, "no token could name this tenant", "tenant", "add", "[acme]")
	o.refused(ExitUsage, "U+FFFD", "tenant", "add", "a\ufffdb")

	// The fuller cell has less left: 9.5 of 70 against 35.
	if out := o.must("tenant", "add", "small", "--load", "1"); !strings.Contains(out, "cell us-1") {
		t.Errorf("stdout %q", out)
	}
	o.must("cell", "close", "us-1")
	if out := o.must("tenant", "add", "smaller", "--load", "1"); !strings.Contains(out, "cell eu-1") {
		t.Errorf("stdout %q", out)
	}
	o.must("cell", "open", "eu-canary", "--capacity", "10")
	if out := o.must("tenant", "add", "own", "--internal"); !strings.Contains(out, "cell eu-canary") {
		t.Errorf("stdout %q", out)
	}
}

// TestTenantAddIsFinished takes up a sign-up that stopped half-way, and repeats one whose answer was lost.
func TestTenantAddIsFinished(t *testing.T) {
	o := openOffice(t)
	withDirectory(t, func(ctx context.Context, d *directory.Directory) error {
		_, err := d.Place(ctx, directory.SignUp{Tenant: "acme", Load: 1000}, directory.Change{Operation: "half", By: "ann"})
		return err
	})
	o.refused(ExitFound, "--operation half finishes it", "tenant", "add", "acme", "--load", "1")
	o.refused(ExitFound, "placing", "tenant", "suspend", "acme")
	for range 2 {
		if out := o.must("tenant", "add", "acme", "--load", "1", "--operation", "half"); !strings.Contains(out, "active, epoch 2") {
			t.Errorf("stdout %q", out)
		}
	}
	o.refused(ExitFound, "used for another change", "tenant", "add", "acme", "--load", "2", "--operation", "half")
}

// withDirectory works on the file's directory behind the commands' back.
func withDirectory(t *testing.T, do func(context.Context, *directory.Directory) error) {
	t.Helper()
	home, err := boltdir.Open("d.db")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	d, err := directory.Open(t.Context(), home)
	if err == nil {
		err = do(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTenantsOfServicesWithHomesArePinned(t *testing.T) {
	o := openOffice(t)
	stateful := strings.Replace(directoryFleet, "shard:\n", "shard:\n  table: {}\n  state: {mode: home}\n", 1)
	if err := os.WriteFile("fleet.yaml", []byte(stateful), 0o600); err != nil {
		t.Fatal(err)
	}
	o.refused(ExitUsage, "--shard-capacity must be given", "cell", "open", "eu-1", "--capacity", "100")
	o.must("cell", "open", "eu-1", "--capacity", "100", "--shard-capacity", "20")
	for i := range 3 {
		o.must("tenant", "add", fmt.Sprint("t", i), "--load", "20")
	}
	pinned := map[string]bool{}
	for i := range 3 {
		e := o.entry(fmt.Sprint("t", i))
		if len(e.Pins) != 2 {
			t.Errorf("pins %v", e.Pins)
		}
		for _, p := range e.Pins {
			pinned[p] = true
		}
	}
	if len(pinned) != 6 {
		t.Errorf("three tenants of two shards each came to %d shards of 6", len(pinned))
	}
	o.refused(ExitFound, "no cell has headroom", "tenant", "add", "t4", "--load", "9")
	o.must("topology", "publish", "eu-1", "--drain", "s01")
	o.refused(ExitFound, "needs a move, not a migration", "topology", "migrate", "eu-1")
}

func TestTenantChanges(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	computed := o.show("acme").Subset

	if out := o.must("tenant", "pin", "acme", "s05", "s02"); out != "pinned acme: cell eu-1, active, epoch 3, pinned to s05 s02\n" {
		t.Errorf("stdout %q", out)
	}
	s := o.show("acme")
	if !slices.Equal(s.Entry.Pins, []string{"s05", "s02"}) || len(s.Subset) != 2 || s.Subset[0].Shard != "s05" {
		t.Errorf("pinned: %+v", s)
	}
	for i := range 6 {
		shard := fmt.Sprintf("s%02d", i+1)
		want := ""
		if shard == "s05" || shard == "s02" {
			want = "acme"
		}
		if got := o.heldBy("eu-1/" + shard); got != want {
			t.Errorf("shard %s holds %q, want %q", shard, got, want)
		}
	}
	o.must("tenant", "unpin", "acme")
	if s := o.show("acme"); !reflect.DeepEqual(s.Subset, computed) || len(s.Held) != 2 {
		t.Errorf("unpinned: %+v, held by %v; want %+v", s.Subset, s.Held, computed)
	}
	if out := o.must("tenant", "suspend", "acme", "--json"); !strings.Contains(out, `"state":"suspended"`) {
		t.Errorf("stdout %q", out)
	}
	o.must("tenant", "pin", "acme", "s01") // also while suspended
	if out := o.must("tenant", "resume", "acme", "--epoch", "6"); !strings.Contains(out, "active, epoch 7") {
		t.Errorf("stdout %q", out)
	}

	for _, c := range []struct {
		code  int
		words string
		args  []string
	}{
		{ExitFound, "expected epoch 3, found 7", []string{"suspend", "acme", "--epoch", "3"}},
		{ExitFound, "expected epoch 8, found 7", []string{"pin", "acme", "s01", "--epoch", "8"}},
		{ExitFound, "not suspended", []string{"resume", "acme"}},
		{ExitUsage, `no shard "s99"`, []string{"pin", "acme", "s01", "s99"}},
		{ExitUsage, `"s01" stands twice`, []string{"pin", "acme", "s01", "s01"}},
		{ExitUsage, "pinned to no shard", []string{"pin", "acme"}},
		{ExitUsage, "requires at least 2 arg", []string{"pin"}},
		{ExitUsage, "not in the directory", []string{"suspend", "nobody"}},
		{ExitUsage, "not in the directory", []string{"pin", "nobody", "s01"}},
		{ExitUsage, "invalid argument", []string{"suspend", "acme", "--epoch", "-1"}},
		{ExitUsage, "at most 1024 bytes", []string{"suspend", "acme", "--because", strings.Repeat("x", 1025)}},
	} {
		o.refused(c.code, c.words, append([]string{"tenant"}, c.args...)...)
	}
	o.must("tenant", "unpin", "acme")
	o.refused(ExitFound, "not pinned", "tenant", "unpin", "acme")

	// A repetition under the operation's id is the same change.
	o.must("tenant", "suspend", "acme", "--operation", "once")
	epoch := o.entry("acme").Epoch
	o.must("tenant", "suspend", "acme", "--operation", "once")
	if got := o.entry("acme").Epoch; got != epoch {
		t.Errorf("a repetition gave epoch %d after %d", got, epoch)
	}
}

func TestTenantShow(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme", "--load", "2.5", "--because", "ticket 7")
	o.must("tenant", "pin", "acme", "s03", "--because", "poisoned the others")
	out := strings.Join(strings.Fields(o.must("tenant", "show", "acme", "--because", "call")), " ")
	for _, want := range []string{
		"tenant acme", "cell eu-1", "state active", "epoch 3", "size class default", "load 2.5 requests per second", "topology 1",
		"subset, pinned s03 zone a holds it", "held by s03 (epoch 2)",
		"came placing, in cell eu-1, topology 1 ticket 7", "state placing → active", "pins none → s03 poisoned the others", "looked: tenant show call",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if _, out, _ := o.bare("tenant", "show", "acme", fileArg); !strings.Contains(out, "pinned  s03") {
		t.Errorf("without a key the pins are missing:\n%s", out)
	}
	o.must("tenant", "unpin", "acme")
	if code, out, _ := o.bare("tenant", "show", "acme", fileArg); code != ExitDone || !strings.Contains(out, "needs the placement key") || !strings.Contains(out, "held by") {
		t.Errorf("status %d without a key:\n%s", code, out)
	}
	o.refused(ExitUsage, "not in the directory", "tenant", "show", "nobody")
	// Whatever a tenant is called, the terminal is safe.
	o.must("tenant", "add", "\x1b[2Jtenant", "--because", "\x1b]0;x\a")
	for _, args := range [][]string{{"tenant", "list"}, {"tenant", "show", "\x1b[2Jtenant"}, {"tenant", "history", "--operator", "ann"}} {
		if out := o.must(args...); strings.ContainsAny(out, "\x1b\a") {
			t.Errorf("%v prints control characters: %q", args, out)
		}
	}
}

func TestTenantList(t *testing.T) {
	o := openOffice(t)
	o.must("cell", "open", "us-1", "--capacity", "1000")
	for i := range 5 {
		o.must("tenant", "add", fmt.Sprint("t", i), "--load", "10") // all to us-1
	}
	o.must("cell", "close", "us-1")
	o.must("tenant", "add", "e1")
	o.must("tenant", "add", "e2")
	o.must("tenant", "suspend", "e2")
	for want, args := range map[string][]string{
		"e1 e2 t0 t1 t2 t3 t4": {}, "e1 e2": {"--cell", "eu-1"}, "e2": {"--state", "suspended"},
		"e1": {"--cell", "eu-1", "--state", "active"}, "": {"--state", "moving"}, "t0 t1 t2 t3 t4": {"--cell=us-1"},
	} {
		var ids []string
		for _, e := range lines[directory.Entry](o, o.must(append([]string{"tenant", "list", "--json"}, args...)...)) {
			ids = append(ids, e.Tenant)
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%v lists %q, want %q", args, got, want)
		}
	}
	if out := o.must("tenant", "list"); strings.Count(out, "\n") != 8 || !strings.Contains(out, "suspended") {
		t.Errorf("stdout %s", out)
	}
	o.refused(ExitUsage, `--state "sleeping"`, "tenant", "list", "--state", "sleeping")
	o.refused(ExitUsage, "eu-9", "tenant", "list", "--cell", "eu-9")
}

func TestTenantHistory(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("tenant", "add", "other")
	o.must("tenant", "suspend", "acme", "--because", "unpaid")
	if code, _, errs := o.bare("tenant", "show", "acme", fileArg, "--by", "bob", "--because", "call 7"); code != ExitDone {
		t.Fatal(errs)
	}
	events := lines[event](o, o.must("tenant", "history", "acme", "--json"))
	var whats []string
	for _, e := range events {
		whats = append(whats, e.By+" "+e.What+" "+e.Why)
	}
	want := []string{
		"ann came placing, in cell eu-1, topology 1 ", "ann state placing → active ", "ann state active → suspended unpaid", "bob looked: tenant show call 7",
	}
	if !slices.Equal(whats, want) {
		t.Errorf("history %q, want %q", whats, want)
	}
	if e := events[2]; e.Before == nil || e.Before.State != directory.Active || e.After.State != directory.Suspended || e.Epoch != 3 || e.Operation == "" || e.At.IsZero() {
		t.Errorf("event %+v", e)
	}
	if got := lines[event](o, o.must("tenant", "history", "--operator", "bob", "--json")); len(got) != 1 || got[0].Tenant != "acme" || got[0].Why != "call 7" {
		t.Errorf("what bob did: %+v", got)
	}
	// eu-1 was added, opened and given a topology.
	var cells, changes, looks int
	for _, e := range lines[event](o, o.must("tenant", "history", "--operator", "ann", "--json")) {
		switch {
		case e.Cell != "":
			cells++
		case e.After != nil:
			changes++
		default:
			looks++
		}
	}
	if cells != 3 || changes != 5 || looks != 2 { // at acme and at bob
		t.Errorf("ann did %d changes of cells, %d of tenants, and looked %d times; want 3, 5, 2", cells, changes, looks)
	}
	if out := o.must("tenant", "history", "--operator", "nobody", "--json"); out != "" {
		t.Errorf("nobody did %q", out)
	}
	o.refused(ExitUsage, "and not both", "tenant", "history")
	o.refused(ExitUsage, "and not both", "tenant", "history", "acme", "--operator", "ann")
	o.refused(ExitUsage, "not in the directory", "tenant", "history", "nobody")
}

// Listings are kept once each, by operator, and not with the tenants.
func TestListingsAreKept(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	before := len(lines[event](o, o.must("tenant", "history", "acme", "--json")))
	for _, args := range [][]string{
		{"tenant", "list"}, {"tenant", "list", "--cell", "eu-1", "--state", "active"}, {"tenant", "export"},
		{"tenant", "export", "all.csv"}, {"shard", "tenants", "eu-1/s01"},
		{"tenant", "list", "--cell", "eu-9"}, {"shard", "tenants", "eu-1/s99"}, // refused: nothing was seen
	} {
		o.bare(append(args, fileArg, "--by=eve", "--because=call 8")...)
	}
	var got []string
	for _, e := range lines[event](o, o.must("tenant", "history", "--operator", "eve", "--json")) {
		if e.Tenant != "" || e.Why != "call 8" || e.By != "eve" {
			t.Errorf("kept %+v", e)
		}
		got = append(got, e.What)
	}
	want := []string{"looked: tenant list", "looked: tenant list --cell eu-1 --state active", "looked: tenant export", "looked: tenant export", "looked: shard tenants eu-1/s01"}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if after := lines[event](o, o.must("tenant", "history", "acme", "--json")); len(after) != before+1 { // the history itself
		t.Errorf("the tenant's history has %d lines, want %d: %+v", len(after), before+1, after)
	}
}
