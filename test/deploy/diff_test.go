package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	changes "cellwall.dev/cellwall/internal/change"
	"cellwall.dev/cellwall/internal/cli"
	"cellwall.dev/cellwall/test/awsemu"
	"cellwall.dev/cellwall/test/cdkcli"
)

// TestFleetDiff compares the sample fleet with a changed one, both synthesised by the CDK's own command line: other
// instances, a larger slice, a shard more, a cell by another name. Nothing is deployed. The cells are cut to two
// shards, which saves time.
func TestFleetDiff(t *testing.T) {
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	app := filepath.Join(cdkcli.Built(t, root), "cdk-app")
	for _, name := range []string{"node_modules", "dist"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Fatal(err, "\nhint: make test makes it")
		}
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, data []byte, replace ...string) {
		t.Helper()
		text := string(data)
		for i := 0; i < len(replace); i += 2 {
			if !strings.Contains(text, replace[i]) {
				t.Fatalf("%s has no %q: write this test otherwise", name, replace[i])
			}
			text = strings.ReplaceAll(text, replace[i], replace[i+1])
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write("cdk.json", read("cdk.json"), `"go run ./cdk"`, `"`+app+`"`)
	cut := []string{"perTenant: 4", "perTenant: 2", "shards: 16", "shards: 2", "shards: 4", "shards: 2"}
	write("was.yaml", read("fleet.yaml"), cut...)
	write("next.yaml", read("fleet.yaml"), append(cut, "instanceType: t4g.small", "instanceType: t4g.medium",
		"reservedConcurrency: 20", "reservedConcurrency: 30", "shards: 2, tenants: internal", "shards: 3, tenants: internal", "name: us-1", "name: us-2")...)
	t.Chdir(dir)
	t.Setenv("CDK_DISABLE_CLI_TELEMETRY", "true")

	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), []string{"fleet", "diff", "was.yaml", "next.yaml", "--json"}, strings.NewReader(""), &out, &errs)
	if code != cli.ExitDone {
		t.Fatalf("status %d\n%s%s", code, errs.String(), out.String())
	}
	var r changes.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}

	kinds := map[string]changes.Kind{}
	for _, s := range r.Stacks {
		kinds[s.Name] = s.Kind
		for _, e := range s.Resources {
			where := s.Name + " " + e.Type + " " + e.ID
			switch {
			case e.Stateful && (e.Kind == changes.Replaced || e.Kind == changes.MayReplace || e.Kind == changes.Removed && !e.Kept):
				t.Errorf("%s is %s and not left behind", where, e.Kind)
			case e.Kind == changes.MayReplace:
				t.Errorf("%s may be replaced, for all that is known: %v %v", where, e.Properties, e.Why)
			case s.Kind == changes.Changed && s.Shard != "" && len(e.Causes) == 0:
				t.Errorf("%s changes for no key of the fleet: %v %v", where, e.Properties, e.Why)
			}
		}
	}
	for name, want := range map[string]changes.Kind{
		"orders-global": changes.Changed, "orders-eu-1-core": "", "orders-eu-1-shard-s01": changes.Changed, "orders-eu-1-shard-s02": changes.Changed,
		"orders-eu-canary-core": "", "orders-eu-canary-shard-s01": changes.Changed, "orders-eu-canary-shard-s03": changes.Added,
		"orders-us-1-core": changes.Removed, "orders-us-1-shard-s02": changes.Removed, "orders-us-2-core": changes.Added, "orders-us-2-shard-s02": changes.Added,
	} {
		if kinds[name] != want {
			t.Errorf("stack %s is %q, want %q", name, kinds[name], want)
		}
	}

	// What of a shard changes that stays: its template and group, its slice with version and alias.
	var changed []string
	for _, s := range r.Stacks {
		if s.Name == "orders-eu-1-shard-s01" {
			for _, e := range s.Resources {
				changed = append(changed, e.Type+" "+string(e.Kind))
			}
		}
	}
	slices.Sort(changed)
	want := []string{"AWS::AutoScaling::AutoScalingGroup changed", "AWS::EC2::LaunchTemplate changed", "AWS::Lambda::Function changed"}
	for _, w := range want {
		if !slices.Contains(changed, w) {
			t.Errorf("a shard that stays has no %s: %v", w, changed)
		}
	}

	billed := map[string]changes.Billed{}
	for _, b := range r.Billed {
		billed[b.Cell+" "+b.What] = b
	}
	for what, want := range map[string][2]changes.Count{
		"eu-canary application load balancer": {{Min: 2, Max: 2}, {Min: 3, Max: 3}},
		"eu-canary instance t4g.medium":       {{}, {Min: 6, Max: 18}},
		"us-1 instance t4g.small":             {{Min: 4, Max: 12}, {}},
		"us-2 application load balancer":      {{}, {Min: 2, Max: 2}},
	} {
		if b := billed[what]; b.From != want[0] || b.To != want[1] {
			t.Errorf("billed %s: from %v to %v, want %v", what, b.From, b.To, want)
		}
	}
	for _, room := range r.Concurrency {
		if !room.Fits || len(room.Steps) == 0 {
			t.Errorf("reserved concurrency: %+v", room)
		}
	}
	if len(r.Concurrency) != 3 {
		t.Errorf("reserved concurrency changes in %d accounts and regions, want 3", len(r.Concurrency))
	}
}
