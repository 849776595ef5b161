package cli

import (
	"os"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
)

// TestRolloutWhere has commands look for rollouts where there are none.
func TestRolloutWhere(t *testing.T) {
	o := newOffice(t)
	home, err := boltdir.Create("d.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("worker", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code  int
		words string
		args  []string
	}{
		{ExitUsage, "which directory? none is named, and no local cell is running here", []string{"status"}},
		{ExitFound, "no local cell is running here", []string{"status", "--directory", "local"}},
		{ExitFound, "no local cell is running here", []string{"start", "--worker", "worker", "--directory", "local"}},
		{ExitUsage, "--state-dir is empty", []string{"history", "--directory", "local", "--state-dir", ""}},
		{ExitFound, "there is no such rollout", []string{"status", "--directory", "d.db"}},
		{ExitFound, "there is no such rollout", []string{"resume", "--directory", "d.db"}},
		{ExitFound, "there is no such rollout", []string{"pause", "--directory", "d.db"}},
		{ExitUsage, "there is no such rollout", []string{"watch", "x", "--directory", "d.db"}},
		{ExitDone, "", []string{"history", "--directory", "d.db"}},
		{ExitUsage, "no such file", []string{"history", "--directory", "nosuch.db"}},
		{ExitUsage, "only --directory aws lies in accounts", []string{"history", "--directory", "d.db", "--role-name", "ops"}},
	} {
		code, out, errs := o.bare(append([]string{"rollout"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.words) {
			t.Errorf("%v: status %d, %q, %q; want %d and %q", c.args, code, out, errs, c.code, c.words)
		}
	}
}
