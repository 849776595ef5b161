package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/directory"
)

const holdsFile = "d.db" + holdsSuffix

// onHolds changes who holds whom behind the directory's back.
func (o *office) onHolds(change func(context.Context, *boltitems.Holds) error) {
	o.Helper()
	items, err := boltitems.Open(holdsFile)
	if err != nil {
		o.Fatal(err)
	}
	if err := errors.Join(change(o.Context(), items.Holds()), items.Close()); err != nil {
		o.Fatal(err)
	}
}

// reconcile runs cell reconcile eu-1 --json, and returns the findings, each in a few words, and the counts.
func (o *office) reconcile(code int, args ...string) (findings []string, sum directory.Reconciled) {
	o.Helper()
	got, out, errs := o.run(append([]string{"cell", "reconcile", "eu-1", "--json"}, args...)...)
	if got != code || (code == ExitDone) != (errs == "") {
		o.Fatalf("%v: status %d, stderr %q; want status %d", args, got, errs, code)
	}
	text := strings.SplitAfter(out, "\n")
	last := len(text) - 2 // behind the last newline there is nothing
	for _, f := range lines[directory.Finding](o, strings.Join(text[:last], "")) {
		state := " left"
		if f.Done {
			state = " done"
		}
		findings = append(findings, string(f.What)+" "+f.Shard+" "+f.Tenant+state)
	}
	return findings, lines[directory.Reconciled](o, text[last])[0]
}

// spoil has shards hold, and not hold, otherwise than the directory says.
func (o *office) spoil() {
	o.Helper()
	for _, tenant := range []string{"missing", "superfluous", "pending", "ahead"} {
		o.must("tenant", "add", tenant)
		o.must("tenant", "pin", tenant, "s01", "s02")
	}
	o.onHolds(func(ctx context.Context, h *boltitems.Holds) error {
		now := uint64(3) // a sign-up is two changes, and a pin is one
		return errors.Join(
			h.Forget(ctx, "eu-1", "s02", directory.Holding{Tenant: "missing", Epoch: now}),
			h.Forget(ctx, "eu-1", "s03", directory.Holding{Tenant: "superfluous", Epoch: now}),
			h.Hold(ctx, "eu-1", "s03", directory.Holding{Tenant: "superfluous", Epoch: now}),
			h.Hold(ctx, "eu-1", "s04", directory.Holding{Tenant: "pending", Epoch: now + 1}),
			h.Hold(ctx, "eu-1", "s05", directory.Holding{Tenant: "ahead", Epoch: now + 6}),
			h.Hold(ctx, "eu-1", "s06", directory.Holding{Tenant: "nobody", Epoch: 1}),
		)
	})
}

func TestCellReconcile(t *testing.T) {
	o := openOffice(t)
	o.spoil()
	for i, c := range []struct {
		args string
		code int
		want []string
	}{
		{"--shard s01", ExitDone, nil},
		{"--shard s02", ExitDone, []string{"missing s02 missing done"}},
		{"--shard s04", ExitFound, []string{"pending s04 pending left"}},
		{"", ExitFound, []string{"superfluous s03 superfluous done", "pending s04 pending left", "ahead s05 ahead left", "absent s06 nobody left"}},
		{"--touch", ExitFound, []string{"pending s04 pending done", "ahead s05 ahead left", "absent s06 nobody left"}},
		{"--absent", ExitFound, []string{"ahead s05 ahead left", "absent s06 nobody done"}},
		{"--absent --touch", ExitFound, []string{"ahead s05 ahead left"}},
	} {
		got, sum := o.reconcile(c.code, strings.Fields(c.args)...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%d, %q: %q, want %q", i, c.args, got, c.want)
		}
		left, counted := 0, 0
		for _, f := range got {
			if strings.HasSuffix(f, "left") {
				left++
			}
		}
		for _, n := range sum.Found {
			counted += n
		}
		if sum.Left != left || counted != len(got) || sum.Tenants != 4 || sum.Holdings == 0 {
			t.Errorf("%d, %q: counts %+v", i, c.args, sum)
		}
	}
	if e := o.entry("pending"); e.Epoch != 4 || !slices.Equal(e.Pins, []string{"s01", "s02"}) {
		t.Errorf("touched, the entry is %+v", e)
	}
	if got := o.must("shard", "tenants", "eu-1/s02"); !strings.Contains(got, "missing\t3\n") {
		t.Errorf("s02 holds\n%s", got)
	}
	code, out, errs := o.run("cell", "reconcile", "eu-1")
	for _, want := range []string{"ahead\teu-1/s05\tahead\tleft\theld at 9, entry 3\n", " 1 ahead, 0 absent, 0 shards unreachable; 1 left\n"} {
		if code != ExitFound || !strings.Contains(out, want) || !strings.Contains(errs, "cell eu-1: 1 finding left") {
			t.Errorf("status %d, %q is not in\n%s\nstderr %s", code, want, out, errs)
		}
	}
	o.onHolds(func(ctx context.Context, h *boltitems.Holds) error {
		return h.Forget(ctx, "eu-1", "s05", directory.Holding{Tenant: "ahead", Epoch: 9})
	})
	if got, sum := o.reconcile(ExitDone); len(got) > 0 || sum.Left > 0 {
		t.Errorf("in step: %v, %+v", got, sum)
	}
	o.refused(ExitUsage, `cell "nowhere"`, "cell", "reconcile", "nowhere")
	o.refused(ExitUsage, `names shard "s99"`, "cell", "reconcile", "eu-1", "--shard", "s99")
}

// A shard that the fleet has and no topology yet may hold somebody all the same, by what ended half-way.
func TestCellReconcileAsksShardsOfTheFleet(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.inFleet("{name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 6}",
		"{name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 8}")
	o.onHolds(func(ctx context.Context, h *boltitems.Holds) error {
		return h.Hold(ctx, "eu-1", "s08", directory.Holding{Tenant: "acme", Epoch: 1})
	})
	if got, _ := o.reconcile(ExitDone); !slices.Equal(got, []string{"superfluous s08 acme done"}) {
		t.Errorf("%q", got)
	}
	o.inFleet("service: orders", "service: other")
	o.refused(ExitUsage, "other", "cell", "reconcile", "eu-1")
	if err := os.Remove("fleet.yaml"); err != nil {
		t.Fatal(err)
	}
	o.reconcile(ExitDone)
	o.refused(ExitUsage, "fleet.yaml", "cell", "reconcile", "eu-1", "--fleet", "fleet.yaml")
	o.refused(ExitUsage, "s08", "cell", "reconcile", "eu-1", "--shard", "s08")
}

// Who holds whom is written anew where that is gone, whole or not at all.
func TestCellReconcileWritesHoldingsAnew(t *testing.T) {
	o := openOffice(t)
	o.must("cell", "open", "us-1", "--capacity", "10")
	o.must("topology", "publish", "us-1")
	o.must("cell", "close", "us-1")
	for _, tenant := range []string{"acme", "beta", "gamma"} {
		o.must("tenant", "add", tenant)
	}
	o.must("cell", "close", "eu-1")
	o.must("cell", "open", "us-1", "--capacity", "10")
	o.must("tenant", "add", "delta")
	shards := func() (all string) {
		for _, s := range strings.Fields("s01 s02 s03 s04 s05 s06") {
			all += o.must("shard", "tenants", "eu-1/"+s) + o.must("shard", "tenants", "us-1/"+s)
		}
		return all
	}
	tenants := func() (all [][]string) {
		for _, tenant := range []string{"acme", "beta", "gamma", "delta"} {
			var held []string
			for _, h := range o.show(tenant).Held {
				held = append(held, h.Shard)
			}
			all = append(all, held)
		}
		return all
	}
	was := tenants()
	if err := os.Remove(holdsFile); err != nil {
		t.Fatal(err)
	}
	left := func(what string) {
		t.Helper()
		for _, path := range []string{holdsFile, holdsFile + anewSuffix} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s left %s, %v", what, path, err)
			}
		}
	}
	for _, c := range []struct {
		args  string
		words string
		code  int
	}{
		{"cell reconcile nowhere", `cell "nowhere"`, ExitUsage},
		{"cell reconcile eu-1 --shard s01", "leave --shard out", ExitUsage},
		{"tenant list", "cell reconcile CELL", ExitFailed},
	} {
		if code, _, errs := o.run(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.words) {
			t.Errorf("%s: status %d, %s", c.args, code, errs)
		}
		left(c.args)
	}
	back := o.otherKey()
	if code, _, errs := o.run("cell", "reconcile", "eu-1"); code != ExitUsage || !strings.Contains(errs, "not the placement key") {
		t.Errorf("another key: status %d, %s", code, errs)
	}
	left("another key")
	back()
	// A command that was killed leaves the beginning of one.
	if err := os.WriteFile(holdsFile+anewSuffix, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := o.run("cell", "reconcile", "eu-1")
	if code != ExitDone || !strings.Contains(out, "6 missing") || !strings.Contains(errs, "nobody is held in cell us-1 yet: cellwall cell reconcile us-1") {
		t.Errorf("status %d, stdout %s, stderr %s", code, out, errs)
	}
	o.must("cell", "reconcile", "us-1")
	if now := tenants(); len(now) != len(was) || !slices.EqualFunc(now, was, slices.Equal) {
		t.Errorf("held by %v, and before by %v", now, was)
	}
	if n := strings.Count(shards(), "\n"); n != 8 {
		t.Errorf("%d holdings, want 2 for each of 4 tenants", n)
	}
	if _, err := os.Stat(holdsFile + anewSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was written anew is there twice, %v", err)
	}
}

// With another key everybody would be held where no router looks.
func TestCellReconcileRefusesAnotherKey(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	back := o.otherKey()
	o.refused(ExitUsage, "not the placement key", "cell", "reconcile", "eu-1")
	back()
	if code, _, errs := o.bare("cell", "reconcile", "eu-1", fileArg); code != ExitUsage || !strings.Contains(errs, "--key-file") {
		t.Errorf("without a key: status %d, %s", code, errs)
	}
	if got, _ := o.reconcile(ExitDone); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// deaf is a holder of which a shard does not answer.
type deaf struct {
	directory.Holder
	shard string
}

func (d deaf) Holdings(ctx context.Context, cell, shard, after string, limit int) ([]directory.Holding, error) {
	if shard == d.shard {
		return nil, errors.New("table not found\x1b[2J")
	}
	return d.Holder.Holdings(ctx, cell, shard, after, limit)
}

// A shard that does not answer is told, and the others are gone through.
func TestCellReconcileWithoutAShard(t *testing.T) {
	f, d, out, errs := migrating(t, 5, func(int) error { return nil })
	if err := d.holder.Hold(t.Context(), "eu-1", "s6", directory.Holding{Tenant: "nobody", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	d.Residence = directory.NewResidence(d.Directory, deaf{d.holder, "s2"}, d.keys)
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	o := directory.Reconciling{Cell: "eu-1", Shards: []string{"s1", "s2", "s3", "s4", "s5", "s6"}}
	err := f.reconcile(cmd, d, o, false)
	if statusOf(err) != ExitFound || !strings.Contains(err.Error(), "2 findings") {
		t.Errorf("status %d, %v", statusOf(err), err)
	}
	for _, want := range []string{"unreachable\teu-1/s2\t", "absent\teu-1/s6\tnobody\tleft", "5 tenants", "1 absent, 1 shards unreachable; 2 left"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if !strings.Contains(errs.String(), "shard eu-1/s2: ") || strings.Contains(errs.String()+out.String(), "\x1b") {
		t.Errorf("stderr %q", errs.String())
	}
	f.out = writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	if err := f.reconcile(cmd, d, o, true); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
}
