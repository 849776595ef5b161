package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// shortDisk takes a number of bytes and no more.
type shortDisk struct{ left int }

var errShortDisk = errors.New("no space left on device")

func (d *shortDisk) Write(p []byte) (int, error) {
	if len(p) > d.left {
		n := d.left
		d.left = 0
		return n, errShortDisk
	}
	d.left -= len(p)
	return len(p), nil
}

// Whatever a command prints, it has failed when that does not arrive: also what is help, a listing, a report for
// people, one for programs, and one that comes with a finding.
func TestOutputIsLost(t *testing.T) {
	o := openOffice(t)
	o.must("tenant", "add", "acme")
	o.write("people.csv", "tenant,load\np1,1\np2,2\np3,3\n")
	o.write("broken.yaml", planFleet)
	dir := []string{fileArg, keyArg}
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"help", "plan"}, {"topology"},
		slices.Concat([]string{"place"}, placed, []string{"acme"}), slices.Concat([]string{"place"}, placed, []string{"acme", "--json"}),
		{"plan", "--tenants-file", "people.csv"}, {"plan", "--tenants-file", "people.csv", "--json"},
		{"plan", "--tenants-file", "people.csv", "--fleet", "broken.yaml", "--load-per", "second"},
		slices.Concat([]string{"blast"}, placed, []string{"--tenants-file", "people.csv", "--failed", "1"}),
		slices.Concat([]string{"blast"}, placed, []string{"--tenants-file", "people.csv", "--failures", "1", "--json"}),
		{"blast", "exact", "--shards", "8", "--per-tenant", "2"}, {"blast", "exact", "--shards", "8", "--per-tenant", "2", "--json"}, {"blast", "story"},
		{"fleet", "validate"}, {"fleet", "schema"}, {"rollout", "plan"}, {"rollout", "plan", "--json"},
		slices.Concat([]string{"tenant", "list"}, dir), slices.Concat([]string{"tenant", "list", "--json"}, dir),
		slices.Concat([]string{"tenant", "show", "acme"}, dir), slices.Concat([]string{"tenant", "history", "acme"}, dir),
		slices.Concat([]string{"tenant", "export"}, dir),
		slices.Concat([]string{"cell", "headroom"}, dir),
		slices.Concat([]string{"topology", "show", "eu-1"}, dir), slices.Concat([]string{"topology", "show", "eu-1", "1", "--json"}, dir),
		slices.Concat([]string{"topology", "diff", "eu-1", "--without", "s06"}, dir),
		slices.Concat([]string{"shard", "tenants", "eu-1/s01"}, dir),
	} {
		var whole, errs bytes.Buffer
		was := Run(context.Background(), args, strings.NewReader(""), &whole, &errs)
		if whole.Len() == 0 {
			if was == ExitUsage {
				t.Errorf("%q: wrong use: %s", args, errs.String())
			}
			continue
		}
		for _, left := range []int{0, whole.Len() - 1} {
			errs.Reset()
			got := Run(context.Background(), args, strings.NewReader(""), &shortDisk{left}, &errs)
			if got != ExitFailed || !strings.Contains(errs.String(), errShortDisk.Error()) {
				t.Errorf("%q, %d of %d bytes: status %d (else %d), %s", args, left, whole.Len(), got, was, errs.String())
			}
		}
	}
}

// Bars are drawn for what standard output is, not for what counts its errors.
func TestBarsSeeThroughOutput(t *testing.T) {
	if got := barsFor(&output{to: io.Discard}); got != barsFor(io.Discard) {
		t.Errorf("bars %+v", got)
	}
}
