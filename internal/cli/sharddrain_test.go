package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestShardDrain(t *testing.T) {
	o := openOffice(t)
	if out := o.must("shard", "drains"); strings.Contains(out, "eu-1") {
		t.Errorf("nothing is drained: %q", out)
	}
	if out := o.must("shard", "drain", "eu-1/2", "--because", "disk\terrors"); out != "eu-1/s02 is drained: routers choose it last\n" {
		t.Errorf("drained by its number: %q", out)
	}
	var r drainReport
	if err := json.Unmarshal([]byte(o.must("shard", "drain", "eu-1/s04", "--json", "--by", "bob")), &r); err != nil || r.Cell != "eu-1" || r.Shard != "s04" || r.Since == nil {
		t.Errorf("%+v, %v", r, err)
	}
	lines := strings.Split(strings.TrimSpace(o.must("shard", "drains", "eu-1", "eu-1")), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "eu-1/s02 ") || !strings.Contains(lines[1], "ann") || !strings.Contains(lines[1], `"disk\terrors"`) || !strings.HasPrefix(lines[2], "eu-1/s04 ") {
		t.Errorf("%q", lines)
	}
	if out := o.must("shard", "drains", "--json"); strings.Count(out, "\n") != 2 {
		t.Errorf("%q", out)
	}
	// A lost answer is repeated by the operation id, and says when the cell was changed since.
	o.must("shard", "drain", "eu-1/s05", "--operation", "again")
	o.must("shard", "undrain", "eu-1/s05")
	code, out, errs := o.run("shard", "drain", "eu-1/s05", "--operation", "again")
	if code != ExitDone || !strings.Contains(out, "is drained") || !strings.Contains(errs, "was changed since") {
		t.Errorf("repeated: %d %q %q", code, out, errs)
	}
	if out := o.must("shard", "undrain", "eu-1/s02"); out != "eu-1/s02 is not drained\n" {
		t.Errorf("%q", out)
	}
	if out := o.must("shard", "undrain", "eu-1/s04", "--json"); !strings.Contains(out, `"since":null`) {
		t.Errorf("%q", out)
	}
	if out := o.must("shard", "drains"); strings.Count(out, "\n") != 1 {
		t.Errorf("all are taken back: %q", out)
	}
	// Who did it is in the record.
	if out := o.must("tenant", "history", "--operator", "ann"); !strings.Contains(out, "drain shard s02") || !strings.Contains(out, "undrain shard s04") {
		t.Errorf("history: %q", out)
	}
}

func TestShardDrainRefuses(t *testing.T) {
	o := openOffice(t)
	for _, c := range []struct{ args, says string }{
		{"shard drain eu-1/s99", "no topology of cell"},
		{"shard undrain eu-1/99", "no topology of cell"},
		{"shard drain eu-9/s01", "does not know this cell"},
		{"shard drain s01", "CELL/SHARD"},
		{"shard drains eu-9", "does not know this cell"},
		{"shard drain", "accepts 1 arg"},
	} {
		if code, _, errs := o.run(strings.Fields(c.args)...); code != ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%s: status %d, %q", c.args, code, errs)
		}
	}
}

func TestAllDrainedIsNone(t *testing.T) {
	o := openOffice(t)
	for _, shard := range []string{"1", "2", "3", "4", "5"} {
		if _, _, errs := o.run("shard", "drain", "eu-1/"+shard); strings.Contains(errs, "every shard") {
			t.Errorf("%s: %q", shard, errs)
		}
	}
	if code, _, errs := o.run("shard", "drain", "eu-1/6"); code != ExitDone || !strings.Contains(errs, "every shard of cell eu-1 is drained") {
		t.Errorf("%d %q", code, errs)
	}
}
