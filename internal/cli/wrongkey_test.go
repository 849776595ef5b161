package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// otherKey replaces the office's key file by another key, until back is called.
func (o *office) otherKey() (back func()) {
	o.Helper()
	put := func(text string) {
		if err := os.WriteFile("key", []byte(text+"\n"), 0o600); err != nil {
			o.Fatal(err)
		}
	}
	put(strings.Repeat("ff", 32))
	return func() { put(keyHex) }
}

// With another key than the cell's, everybody would be held where no router looks: nothing that needs subsets
// begins.
func TestAnotherKeyIsRefused(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	if got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "--json")); len(got) != 2 || got[0].KeyCheck == "" || got[1].KeyCheck != got[0].KeyCheck {
		t.Fatalf("topologies %+v: want the fingerprint in both", got)
	}
	o.write("new.csv", "tenant,cell\nnew,eu-1\n")
	back := o.otherKey()
	for _, args := range []string{
		"tenant add new", "tenant pin acme s01 s02", "topology migrate eu-1", "topology diff eu-1 --from 1 --to 2", "topology diff eu-1 --without s05",
		"topology publish eu-1 --without s05", "tenant import new.csv",
	} {
		o.refused(ExitUsage, "not the placement key", strings.Fields(args)...)
	}
	if s := o.show("acme"); s.Subset != nil || !strings.Contains(s.Unknown, "not the placement key") || len(s.Held) != 2 || len(s.History) == 0 {
		t.Errorf("shown as %+v", s)
	}
	if code, _, errs := o.run("tenant", "suspend", "acme"); code != ExitDone {
		t.Errorf("suspend needs no key: %s", errs)
	}
	back()
	o.must("tenant", "resume", "acme")
	o.must("topology", "migrate", "eu-1")
	o.must("tenant", "pin", "acme", "s01", "s02")
	back = o.otherKey()
	o.refused(ExitUsage, "not the placement key", "tenant", "unpin", "acme")
	o.refused(ExitUsage, "not the placement key", "topology", "publish", "eu-1", "--accept-remap") // acme is on it
	back()
	o.must("tenant", "unpin", "acme")
	o.must("topology", "publish", "eu-1")
}

// A first topology that was published with a wrong key binds nobody who is not there.
func TestAWrongFirstKeyIsPutRight(t *testing.T) {
	o := newOffice(t)
	back := o.otherKey()
	o.must("cell", "open", "eu-1", "--capacity", "100")
	o.must("topology", "publish", "eu-1")
	back()
	o.refused(ExitUsage, "not the placement key", "tenant", "add", "acme")
	o.must("topology", "publish", "eu-1", "--drain", "s06", "--accept-remap")
	o.must("tenant", "add", "acme")
}

// A topology of before, without a fingerprint, takes any key, and the next has one.
func TestTopologyWithoutFingerprint(t *testing.T) {
	o := newOffice(t)
	o.must("cell", "open", "eu-1", "--capacity", "100")
	if code, _, errs := o.bare("topology", "publish", "eu-1", fileArg); code != ExitDone {
		t.Fatal(errs)
	}
	o.must("tenant", "add", "acme")
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "--json"))
	if got[0].KeyCheck != "" || got[1].KeyCheck == "" {
		t.Errorf("fingerprints %q and %q", got[0].KeyCheck, got[1].KeyCheck)
	}
	o.must("topology", "migrate", "eu-1")
	if code, _, errs := o.bare("topology", "publish", "eu-1", fileArg); code != ExitDone {
		t.Fatal(errs)
	}
	if got := lines[shownTopology](o, o.must("topology", "show", "eu-1", "3", "--json")); got[0].KeyCheck == "" {
		t.Error("published without a key, the version by the same key has lost its fingerprint")
	}
}

// What a sign-up needs is looked for before it takes anything.
func TestSignUpWithoutTheKeyTakesNothing(t *testing.T) {
	o := openOffice(t)
	err := (&directoryFlags{app: &app{in: o.in(), out: io.Discard, err: io.Discard, fleetFile: "fleet.yaml"}, directory: "d.db", keyFile: "key", by: "ann"}).with(t.Context(), func(d *desk) error {
		d.keys = func(context.Context, string, string) ([]byte, error) { return nil, io.ErrUnexpectedEOF }
		if err := d.placeable(t.Context(), false); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), `cell "eu-1"`) {
			t.Errorf("%v", err)
		}
		return d.placeable(t.Context(), true) // no cell for these is open
	})
	if err != nil {
		t.Error(err)
	}
}

func (o *office) in() io.Reader { return strings.NewReader("") }

// Tenants of one service never come into the directory of another.
func TestAnotherServicesFleet(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.must("topology", "publish", "eu-1", "--drain", "s06")
	o.inFleet("service: orders", "service: other")
	for _, args := range []string{
		"tenant add new", "cell open us-1 --capacity 1", "topology publish us-1", "topology publish eu-1 --drain s05", "topology migrate eu-1",
		"topology diff eu-1 --drain s05", "tenant pin acme s01", "fleet validate",
	} {
		o.refused(ExitUsage, `it is "orders"'s, and not "other"'s`, strings.Fields(args)...)
	}
	o.inFleet("service: orders", "service: orders")
	o.must("topology", "migrate", "eu-1")
}

// A local cell's directory has that cell alone: with another in it, the cell could not come up again.
func TestOnlyTheCellThatRuns(t *testing.T) {
	d, err := directory.Open(t.Context(), directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	desk := &desk{Residence: directory.NewResidence(d, directory.NewMemoryHolder(), nil), where: "the local cell in RUN", running: []string{"eu-1"}}
	if err := desk.admits(t.Context(), "orders", "eu-1"); err != nil {
		t.Error(err)
	}
	if err := desk.admits(t.Context(), "orders", "us-1"); statusOf(err) != ExitUsage || !strings.Contains(err.Error(), `cell "us-1" does not run here: the local cell in RUN is cell eu-1`) {
		t.Errorf("%v", err)
	}
}
