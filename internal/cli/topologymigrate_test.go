package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

// stepped is a holder that counts what it is told, and acts at each step.
type stepped struct {
	directory.Holder
	mu   sync.Mutex
	n    int
	step func(n int) error
}

func (c *stepped) Hold(ctx context.Context, cell, shard string, h directory.Holding) error {
	c.mu.Lock()
	c.n++
	err := c.step(c.n)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.Holder.Hold(ctx, cell, shard, h)
}

// migrating is a desk before a cell of n tenants on the first of two topologies.
func migrating(t *testing.T, n int, step func(int) error) (*directoryFlags, *desk, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	ctx := t.Context()
	dir, err := directory.Open(ctx, directory.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	change := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "ann", At: time.Now()}
	}
	if _, err := dir.AddCell(ctx, directory.Cell{Name: "eu-1", Zones: []string{"a"}}, change("add")); err != nil {
		t.Fatal(err)
	}
	for version := range uint64(2) {
		top := directory.Topology{Cell: "eu-1", Version: version + 1, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2}, KeyVersion: "1"}
		for i := range 6 - 2*int(version) {
			top.Shards = append(top.Shards, directory.Shard{ID: fmt.Sprint("s", i+1), Weight: 1, State: directory.InUse})
		}
		if _, err := dir.Publish(ctx, top, change(fmt.Sprint("publish", version))); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(context.Context, string, string) ([]byte, error) { return []byte(keyHex), nil }
	holder := &stepped{Holder: directory.NewMemoryHolder(), step: func(int) error { return nil }}
	d := &desk{Residence: directory.NewResidence(dir, holder, keys), holder: holder, keys: keys, by: "ann", operation: "op", at: time.Now()}
	var entries []directory.Entry
	for i := range n {
		entries = append(entries, directory.Entry{Tenant: fmt.Sprintf("t%03d", i), Cell: "eu-1", State: directory.Active, Topology: 1})
	}
	if _, err := d.Enrol(ctx, entries, change("enrol")); err != nil {
		t.Fatal(err)
	}
	holder.step = step
	var out, errs bytes.Buffer
	return &directoryFlags{app: &app{out: &out, err: &errs}}, d, &out, &errs
}

var toSecond = directory.Migration{Cell: "eu-1", To: 2}

// Every failure is reported, the others go on, and the same command finishes it.
func TestTopologyMigrateFailures(t *testing.T) {
	unlucky := errors.New("the shard does not\x1b[2J answer")
	f, d, out, errs := migrating(t, 50, func(n int) error {
		if n%20 == 0 {
			return unlucky
		}
		return nil
	})
	r, err := f.migrate(t.Context(), d, toSecond, 7)
	if err != nil || len(r.Failed) == 0 || r.Placed+len(r.Failed) != 50 {
		t.Fatalf("%+v, %v", r, err)
	}
	err = f.printMigrated(r, err, false)
	if statusOf(err) != ExitFailed || !strings.Contains(err.Error(), count(len(r.Failed), "tenant")+" failed") {
		t.Errorf("status %d: %v", statusOf(err), err)
	}
	if want := fmt.Sprintf("cell eu-1: %d tenants brought to topology 2 or found there, 0 skipped, %d failed; now %d are on it and %d are not\n", r.Placed, len(r.Failed), r.Placed, len(r.Failed)); out.String() != want {
		t.Errorf("stdout %q, want %q", out, want)
	}
	for _, left := range r.Failed {
		if !strings.Contains(errs.String(), "\n"+left.Tenant+": ") {
			t.Errorf("%s is not reported", left.Tenant)
		}
	}
	if strings.Contains(errs.String(), "\x1b") || !strings.Contains(errs.String(), "of about 50, skipped: 0") {
		t.Errorf("stderr %q", errs)
	}
	for range 50 {
		if r, err = f.migrate(t.Context(), d, toSecond, 7); err != nil {
			t.Fatal(err)
		} else if len(r.Failed) == 0 {
			break
		}
	}
	if err := f.printMigrated(r, err, true); err != nil || r.Placed != 50 {
		t.Errorf("at last %+v, %v", r, err)
	}
}

// It does not go on for ever over a cell whose shards are all down.
func TestTopologyMigrateGivesUp(t *testing.T) {
	f, d, _, _ := migrating(t, 300, func(int) error { return errors.New("down") })
	elsewhere := directory.Topology{Cell: "eu-1", Version: 3, Scheme: placement.RendezvousV1, KBySize: map[string]int{"": 2}, KeyVersion: "1"}
	for _, id := range []string{"x1", "x2", "x3"} { // nobody has a shard already
		elsewhere.Shards = append(elsewhere.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	if _, err := d.Publish(t.Context(), elsewhere, directory.Change{Operation: "elsewhere", By: "ann", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	r, err := f.migrate(t.Context(), d, directory.Migration{Cell: "eu-1", To: 3}, 40)
	if err != nil || r.Placed != 0 || len(r.Failed) != 120 {
		t.Errorf("%d placed, %d failed, %v", r.Placed, len(r.Failed), err)
	}
}

// An interrupt at any step leaves nobody half-way, and says how many are on the version.
func TestTopologyMigrateInterrupted(t *testing.T) {
	for at := 1; ; at += 9 {
		ctx, cancel := context.WithCancelCause(t.Context())
		f, d, out, _ := migrating(t, 40, func(n int) error {
			if n == at {
				cancel(Interrupted(syscall.SIGINT))
			}
			return nil
		})
		err := f.untilInterrupted(ctx, func() error {
			r, err := f.migrate(ctx, d, toSecond, 10)
			return f.printMigrated(r, err, false)
		})
		now, readErr := d.Topology(t.Context(), "eu-1", 2)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if ctx.Err() == nil {
			cancel(nil)
			if err != nil || now.Tenants != 40 {
				t.Errorf("uninterrupted: %d on the version, %v", now.Tenants, err)
			}
			return
		}
		if told := fmt.Sprintf("%s of about 40", count(int(now.Tenants), "tenant")); statusOf(err) != ExitSignal+int(syscall.SIGINT) || !strings.Contains(err.Error(), told) {
			t.Errorf("at step %d: status %d, %v; want %q", at, statusOf(err), err, told)
		}
		if want := fmt.Sprintf("cell eu-1: %s brought to topology 2 or found there, 0 skipped; now %d are on it and %d are not\n", count(int(now.Tenants), "tenant"), now.Tenants, 40-now.Tenants); out.String() != want {
			t.Errorf("at step %d: stdout %q, want %q", at, out, want)
		}
		for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return d.List(t.Context(), after, limit) }) {
			if err != nil {
				t.Fatal(err)
			}
			subset, err := d.Subset(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 6 {
				shard := fmt.Sprint("s", i+1)
				_, ok, err := d.holder.Held(t.Context(), "eu-1", shard, e.Tenant)
				if want := strings.Contains(strings.Join(subset, " "), shard); err != nil || ok != want {
					t.Errorf("at step %d: shard %s holds %s of topology %d: %t, %v", at, shard, e.Tenant, e.Topology, ok, err)
				}
			}
		}
	}
}

// Who was brought to the version, and taken to another by somebody else meanwhile, is not said to be on it.
func TestTopologyMigrateAgainstAnother(t *testing.T) {
	f, d, out, _ := migrating(t, 20, func(int) error { return nil })
	if _, err := f.migrate(t.Context(), d, toSecond, 10); err != nil {
		t.Fatal(err)
	}
	d.operation = "back"
	r, err := f.migrate(t.Context(), d, directory.Migration{Cell: "eu-1", To: 1}, 10)
	if err != nil || r.On != 20 || r.Others != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	d.operation = "another"
	if _, err := d.Migrate(t.Context(), toSecond, "", 7, d.change()); err != nil {
		t.Fatal(err)
	}
	if err := d.sumUp(t.Context(), &r, true); err != nil || r.On != 13 || r.Others != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	out.Reset()
	err = f.printMigrated(r, nil, false)
	if want := "now 13 are on it and 7 are not"; statusOf(err) != ExitFound || !strings.Contains(out.String(), want) {
		t.Errorf("status %d, %v, stdout %q; want %q", statusOf(err), err, out, want)
	}
}
