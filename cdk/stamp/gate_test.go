package stamp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/cdk/gate"
	"cellwall.dev/cellwall/internal/audit"
	load "cellwall.dev/cellwall/internal/audit/assembly"
	"cellwall.dev/cellwall/internal/fleet"
)

// asApp makes the test's executable the app of the CDK's command line: the fleet with a hole in its wall.
const asApp = "CELLWALL_STAMP_TEST_APP"

// holedApp is the app of cdk/main.go, but for one table in a cell's core that all of its shards are told to use.
func holedApp() int {
	err := func() (err error) {
		defer rescue(&err)
		app := NewApp(Options{})
		f, err := fleet.Load("fleet.yaml")
		if err != nil {
			return err
		}
		scratch, err := os.MkdirTemp("", "cellwall-holed-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		o, err := gateOptions(f, "")
		if err != nil {
			return err
		}
		gate.Add(app, o)
		in := Input{Fleet: f, Router: "dist/router", Keeper: "dist/keeper", Arch: ARM64}
		newGlobal(app, f, nil)
		plans, err := in.plan(scratch)
		if err != nil {
			return err
		}
		for _, p := range plans {
			hole := p.names.Stack() + "-hole"
			for i := range p.shards {
				p.shards[i].env["ORDERS_TABLE"] = hole
			}
			newCell(app, p)
			core := app.Node().FindChild(str(p.cell.Name)).Node().FindChild(str("core"))
			awsdynamodb.NewCfnTable(core.(constructs.Construct), str("Hole"), &awsdynamodb.CfnTableProps{TableName: str(hole),
				KeySchema:            &[]*awsdynamodb.CfnTable_KeySchemaProperty{{AttributeName: str("id"), KeyType: str("HASH")}},
				AttributeDefinitions: &[]*awsdynamodb.CfnTable_AttributeDefinitionProperty{{AttributeName: str("id"), AttributeType: str("S")}}})
		}
		return finish(app, in)
	}()
	jsii.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestGate: a hole that is cut into the fleet's stacks fails each selection of stacks, also the ones without the hole,
// with the reason on standard error; afterwards from the folder, too. The fleet as it is passes in silence.
func TestGate(t *testing.T) {
	cli, err := filepath.Abs(filepath.Join(root, "node_modules/.bin/cdk"))
	must(t, err)
	if _, err := os.Stat(cli); err != nil {
		t.Skip("the CDK's command line is not installed: make test installs it")
	}
	clean, err := program()
	must(t, err)
	holed, err := os.Executable()
	must(t, err)
	dir := dist(t, ARM64)
	write(t, filepath.Join(dir, "cdk.json"), read(t, filepath.Join(root, "cdk.json")), 0o644)
	write(t, filepath.Join(dir, "fleet.yaml"), `
service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders, claim: tenant_id}
placement: {scheme: rendezvous/v1, perTenant: 1}
shard:
  capacity: 1000
  lambda: {asset: dist/worker, memory: 512, reservedConcurrency: 20}
routes: [{path: /*, via: lambda}]
cells: [{name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 2}]
`, 0o644)
	synth := func(app string, selection ...string) (code int, stderr string) {
		cmd := exec.Command(cli, append([]string{"synth", "--quiet", "--app", app}, selection...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asApp+"=1",
			"CDK_VALIDATION=false", // the CDK's own rules, which other tests run
			"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), errs.String()
	}
	if code, said := synth(clean, "**"); code != 0 || strings.Contains(said, "error") || strings.Contains(said, gate.Name) {
		t.Errorf("the fleet as it is ended with %d, and said:\n%s", code, said)
	}
	for _, selection := range [][]string{{"**"}, {}, {"eu-1/shard-s01"}} {
		code, said := synth(holed, selection...)
		if code != 1 {
			t.Errorf("cdk synth %v ended with %d, want 1", selection, code)
		}
		for _, want := range []string{"error: the audit refuses the stacks, 1 finding at or above error\n",
			`  error SD002: 2 of 2 shards of cell eu-1 depend on table "orders-eu-1-core-hole"` + "\n", "    at  eu-1/core/Hole\n"} {
			if !strings.Contains(said, want) {
				t.Errorf("cdk synth %v said nothing of %q:\n%s", selection, want, said)
			}
		}
	}
	if code, said := synth("cdk.out", "global"); code != 1 || !strings.Contains(said, "SD002") {
		t.Errorf("the refused assembly passed with %d, and said:\n%s", code, said)
	}
	file := filepath.Join(dir, "fleet.yaml")
	write(t, file, read(t, file)+"audit: {waivers: accepted.yaml}\n", 0o644)
	write(t, filepath.Join(dir, "accepted.yaml"), `waivers: [{rule: SD002, resource: "eu-1/core/Hole", reason: "a test", expires: 2999-12-31}]`, 0o644)
	if code, said := synth(holed, "**"); code != 0 || strings.Contains(said, "SD002") {
		t.Errorf("a hole that the fleet accepts ended with %d, and said:\n%s", code, said)
	}
}

// TestGateOptions: a waivers file that cannot be read stops the synthesis by its name.
func TestGateOptions(t *testing.T) {
	f := sample(t, func(f *fleet.Fleet) { f.Audit.Waivers = "accepted.yaml" })
	for _, c := range []struct{ text, want string }{
		{"", "accepted.yaml: no such file"},
		{"waivers: [{rule: SD002}]", "accepted.yaml:1:"},
	} {
		if c.text != "" {
			write(t, f.Path("accepted.yaml"), c.text, 0o644)
		}
		if _, err := gateOptions(f, ""); err == nil || !strings.HasPrefix(err.Error(), "the fleet's audit.waivers: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want something with %q", err, c.want)
		}
	}
}

// TestGateTakesWhatTheFleetSays: a load balancer of several shards, which the fleet asks for, is no hole; without what
// the fleet says it would be.
func TestGateTakesWhatTheFleetSays(t *testing.T) {
	for _, name := range []string{"shared", "grouped"} {
		a, f := shape(t, name), sample(t, shapes[name])
		in, err := load.Load(os.DirFS(filepath.Dir(a["global"].file)))
		must(t, err)
		holes := func(o audit.Options) (n int) {
			for _, finding := range audit.Run(in, o).Findings {
				if finding.Level >= audit.Error && finding.Suppressed == nil {
					n++
				}
			}
			return n
		}
		o, err := gateOptions(f, "")
		must(t, err)
		if told, plain := holes(o.Audit), holes(audit.Options{}); told != 0 || plain == 0 {
			t.Errorf("%s: %d holes, and %d without what the fleet says", name, told, plain)
		}
	}
}
