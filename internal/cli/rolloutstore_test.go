package cli

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// journalOf is the journal in d.db, as one process has it open.
func journalOf(t *testing.T) *rolloutJournal {
	t.Helper()
	f := &directoryFlags{app: &app{fleetFile: "fleet.yaml"}, directory: "d.db", by: "ann"}
	j, err := f.openJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A process that drives shuts no other out of the file: neither one that looks or wishes, nor one that changes tenants.
func TestRolloutsShareTheFileOfADirectory(t *testing.T) {
	o := openOffice(t)
	ctx, now := t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	drives := journalOf(t)
	l, err := drives.Take(ctx, "orders", "ann", now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cell := rollout.PlannedCell{Name: "eu-1", Stages: []rollout.PlannedStage{{Name: "core"}}}
	s, err := rollout.New(rollout.Spec{ID: "r-1", Service: "orders", Digest: "sha256:0", Phase: rollout.Release, Waves: []rollout.Wave{{Batches: [][]rollout.PlannedCell{{cell}}}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := drives.Append(ctx, l, run.Record{Seq: 1, State: s}); err != nil {
		t.Fatal(err)
	}
	looks := journalOf(t)
	if got, err := looks.Latest(ctx, "orders"); err != nil || got.State.Spec.ID != "r-1" {
		t.Errorf("latest: %+v, %v", got, err)
	}
	if err := looks.Wish(ctx, "orders", run.Wish{ID: "w", Rollout: "r-1", Kind: rollout.Pause, At: now}); err != nil {
		t.Error(err)
	}
	if got, err := drives.Wished(ctx, "orders", "r-1"); err != nil || len(got) != 1 || got[0].ID != "w" {
		t.Errorf("wished: %+v, %v", got, err)
	}
	if _, err := looks.Take(ctx, "orders", "bob", now, time.Minute); err == nil {
		t.Error("two have the lease")
	}
	o.must("tenant", "add", "acme")
	if out := o.must("tenant", "list", "--json"); !strings.Contains(out, "acme") || strings.Contains(out, "r-1") {
		t.Errorf("tenants: %s", out)
	}
	if code, out, errs := o.bare("rollout", "history", "--directory=d.db"); code != ExitDone || !strings.Contains(out, "r-1") {
		t.Errorf("history: status %d\n%s%s", code, out, errs)
	}
}

func TestJournalsThatAreRefused(t *testing.T) {
	openOffice(t)
	if err := os.WriteFile("text.db", []byte(strings.Repeat("tenant,cell\n", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer, err := boltdir.Create("newer.db")
	if err != nil {
		t.Fatal(err)
	}
	put := directory.Put(directory.Key{Part: "META", Sort: "FORMAT"}, 0, []byte(`{"format":99}`))
	if err := newer.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{put}}); err != nil {
		t.Fatal(err)
	}
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	locked, err := boltdir.Create("locked.db")
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	for _, c := range []struct {
		flags directoryFlags
		code  int
		words []string
	}{
		{directoryFlags{directory: "none.db"}, ExitUsage, []string{"none.db: there is no such file", "local, aws or a file that is there"}},
		{directoryFlags{directory: "."}, ExitUsage, []string{"no file", "local, aws or a bbolt file"}},
		{directoryFlags{directory: "text.db"}, ExitFailed, []string{"text.db", "damaged"}},
		{directoryFlags{directory: "newer.db"}, ExitFound, []string{"format 99", "install the newer version"}},
		{directoryFlags{directory: "locked.db"}, ExitFound, []string{"another process has it open", "--directory local"}},
		{directoryFlags{directory: "d.db", roleName: "ops"}, ExitUsage, []string{"--role-name ops", "--directory aws"}},
		{directoryFlags{roleName: "ops"}, ExitUsage, []string{"--role-name ops", "--directory aws"}},
		{directoryFlags{directory: "local", stateDir: "nothing"}, ExitFound, []string{"cellwall local up"}},
		{directoryFlags{stateDir: "nothing"}, ExitUsage, []string{"which directory?", "--directory aws"}},
		{directoryFlags{directory: "aws"}, ExitUsage, []string{"none.yaml"}},
	} {
		c.flags.by = "ann"
		fleet := "fleet.yaml"
		if c.flags.directory == directoryAWS {
			fleet = "none.yaml"
		}
		c.flags.app = &app{fleetFile: fleet}
		_, err := c.flags.openJournal(t.Context())
		if err == nil || statusOf(err) != c.code {
			t.Errorf("%+v: %v with status %d, want %d", c.flags, err, statusOf(err), c.code)
			continue
		}
		text := err.Error()
		if exit, ok := errors.AsType[*exitError](err); ok {
			text += "\n" + exit.hint
		}
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%+v: %q, want %q in it", c.flags, text, w)
			}
		}
	}
}
