// Package rollout rolls new versions of a small fleet out for real: by the binary of cellwall, CDK's own command line and
// the AWS API emulator. docs/testing.md says what of this is real.
package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/telemetry"
	"cellwall.dev/cellwall/test/awsemu"
	"cellwall.dev/cellwall/test/cdkcli"
)

// The cells of testdata/fleet.yaml, a wave each. The last two are of another account.
const (
	canary, second, third = "eu-canary", "eu-1", "eu-2"
	home                  = "111111111111"
	region                = "eu-west-1"
)

func TestMain(m *testing.M) { os.Exit(cdkcli.Main(m)) }

// world is a fleet in the emulator, and versions of it that can be rolled out.
type world struct {
	root, bin, cdk string
	aws            *awsemu.Emulator
	fleet          *fleet.Fleet
	environ        []string          // of the home account
	folders        map[string]string // of versions: fleet.yaml, cdk.json, dist
	assemblies     map[string]string // of versions
	kept           string            // the folder that keeps assemblies by digest
	store          *journal.Store
	role           string // that operators assume in accounts that are not theirs
}

// newWorld synthesises the versions, of which the first is deployed by the CDK alone, as docs/deploying.md says.
func newWorld(t *testing.T, versions ...string) *world {
	t.Helper()
	root, err := awsemu.Root()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: root, role: "test", cdk: cdkcli.Path(t, root), aws: awsemu.Start(t), bin: cdkcli.Built(t, root),
		folders: map[string]string{}, assemblies: map[string]string{}, kept: filepath.Join(t.TempDir(), "assemblies")}
	w.environ = cdkcli.Environ(t, w.aws, home, region)
	for _, v := range versions {
		w.folders[v] = w.version(t, v)
	}
	if w.fleet, err = fleet.Load(w.fleetFile(versions[0])); err != nil {
		t.Fatal(err)
	}
	w.store = w.open(t)
	type synth struct{ version, assembly, said string }
	done := make(chan synth, len(versions))
	failed := make(chan error, len(versions))
	go func() { // one after another, beside the bootstrap and the deployment of the first
		for _, v := range versions {
			s := synth{version: v, assembly: filepath.Join(w.folders[v], "cdk.out")}
			var err error
			if s.said, err = cdkcli.Command(t, w.folders[v], w.environ, w.cdk, cdkcli.SynthArgs(filepath.Join(w.bin, "cdk-app"), s.assembly)...); err != nil {
				failed <- fmt.Errorf("cdk synth of %s: %w\n%s", v, err, s.said)
				return
			}
			done <- s
		}
	}()
	next := func() {
		t.Helper()
		select {
		case s := <-done:
			w.assemblies[s.version] = s.assembly
		case err := <-failed:
			t.Fatal(err)
		}
	}
	accounts := map[string]bool{home: true}
	for _, c := range w.fleet.Cells {
		accounts[c.Account] = true
	}
	for account := range accounts {
		cdkcli.Run(t, t.TempDir(), append(w.environ, w.aws.Environ(t, account, region)...), w.cdk, "bootstrap", "aws://"+account+"/"+region)
	}
	next()
	cdkcli.Run(t, w.folders[versions[0]], w.environ, w.cdk, append(cdkcli.DeployArgs(w.assemblies[versions[0]]), "**")...)
	for range versions[1:] {
		next()
	}
	return w
}

// version is a folder with all that a synthesis needs: the slices' code is another in each.
func (w *world) version(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	dist := filepath.Join(dir, "dist")
	for name, from := range map[string]string{"fleet.yaml": "test/rollout/testdata/fleet.yaml", "cdk.json": "cdk.json"} {
		data, err := os.ReadFile(filepath.Join(w.root, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dist, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, unchanged := range []string{"router", "keeper", "frontdoor"} {
		if err := os.Symlink(filepath.Join(w.bin, "dist", unchanged), filepath.Join(dist, unchanged)); err != nil {
			t.Fatal(err)
		}
	}
	cdkcli.Run(t, w.root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux"), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X main.version="+version, "-tags", "lambda.norpc", "-o", filepath.Join(dist, "worker", "bootstrap"), "./test/rollout/worker")
	if err := os.Symlink(filepath.Join(w.root, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *world) fleetFile(version string) string {
	return filepath.Join(w.folders[version], "fleet.yaml")
}

// cell is a cell of the fleet.
func (w *world) cell(t *testing.T, name string) fleet.Cell {
	t.Helper()
	c, ok := w.fleet.Cell(name)
	if !ok {
		t.Fatalf("the fleet has no cell %s", name)
	}
	return c
}

// in is the configuration of an SDK client that works where a cell is.
func (w *world) in(t *testing.T, cell string) aws.Config {
	t.Helper()
	c := w.cell(t, cell)
	return w.aws.Config(t, c.Account, c.Region)
}

// shardStack is the name of a shard's stack.
func (w *world) shardStack(t *testing.T, cell, shard string) string {
	t.Helper()
	return w.fleet.NamesOf(w.cell(t, cell)).Shard(shard).Stack()
}

// runs asks each shard of the cells which version it is, through the alias that routers use, and expects it of all.
func (w *world) runs(t *testing.T, version string, cells ...string) {
	t.Helper()
	for _, cell := range cells {
		client, n := lambda.NewFromConfig(w.in(t, cell)), w.fleet.NamesOf(w.cell(t, cell))
		for _, shard := range w.cell(t, cell).Shards {
			out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(n.Shard(shard.ID).WorkerAlias()), Payload: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Trim(string(out.Payload), `"`); got != version || out.FunctionError != nil {
				t.Errorf("shard %s of cell %s answers %s, want %s", shard.ID, cell, out.Payload, version)
			}
		}
	}
}

// templates expects every stack of the cells to stand, with the template of that version, byte for byte of what it means.
func (w *world) templates(t *testing.T, version string, cells ...string) {
	t.Helper()
	for _, cell := range cells {
		client, n := cloudformation.NewFromConfig(w.in(t, cell)), w.fleet.NamesOf(w.cell(t, cell))
		stacks := []string{n.Stack(), n.WatchStack()}
		for _, shard := range w.cell(t, cell).Shards {
			stacks = append(stacks, n.Shard(shard.ID).Stack())
		}
		for _, stack := range stacks {
			out, err := client.GetTemplate(t.Context(), &cloudformation.GetTemplateInput{StackName: &stack})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(w.synthesised(t, version), canonical(t, []byte(*out.TemplateBody))) {
				t.Errorf("stack %s of cell %s has a template that is not of %s", stack, cell, version)
			}
			described, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
			if err != nil {
				t.Fatal(err)
			}
			if got := described.Stacks[0].StackStatus; got != "CREATE_COMPLETE" && got != "UPDATE_COMPLETE" && got != "UPDATE_ROLLBACK_COMPLETE" {
				t.Errorf("stack %s of cell %s is %s", stack, cell, got)
			}
		}
	}
}

// synthesised are the templates of a version.
func (w *world) synthesised(t *testing.T, version string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(w.assemblies[version], func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".template.json") {
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				all = append(all, canonical(t, data))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func canonical(t *testing.T, template []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(template, &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// events is how many events each stack of a cell has had.
func (w *world) events(t *testing.T, cell string) map[string]int {
	t.Helper()
	client, found := cloudformation.NewFromConfig(w.in(t, cell)), map[string]int{}
	out, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Stacks {
		if !slices.ContainsFunc(s.Tags, func(tag cfntypes.Tag) bool { return *tag.Key == "cellwall:cell" && *tag.Value == cell }) {
			continue
		}
		events, err := client.DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: s.StackName})
		if err != nil {
			t.Fatal(err)
		}
		found[*s.StackName] = len(events.StackEvents)
	}
	if want := 2 + len(w.cell(t, cell).Shards); len(found) != want {
		t.Fatalf("cell %s has the stacks %v, want %d", cell, found, want)
	}
	return found
}

// allEvents is how many events each stack of each cell has had.
func (w *world) allEvents(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, c := range w.fleet.Cells {
		maps.Copy(all, w.events(t, c.Name))
	}
	return all
}

// stackIs waits until a stack has a status.
func (w *world) stackIs(t *testing.T, cell, stack, status string) {
	t.Helper()
	client := cloudformation.NewFromConfig(w.in(t, cell))
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(out.Stacks[0].StackStatus); got == status {
			return
		} else if time.Now().After(end) {
			t.Fatalf("stack %s is %s after %v, want %s", stack, got, patience, status)
		}
	}
}

// busy tells CloudWatch of requests to every shard of every cell, until the test ends: routers' log lines make none here.
func (w *world) busy(t *testing.T) {
	t.Helper()
	var clients []*cloudwatch.Client
	for _, c := range w.fleet.Cells {
		clients = append(clients, cloudwatch.NewFromConfig(w.in(t, c.Name)))
	}
	put := func() error {
		for i, c := range w.fleet.Cells {
			var data []cwtypes.MetricDatum
			for _, s := range append([]string{""}, c.Shards.IDs()...) {
				d := []cwtypes.Dimension{{Name: aws.String("service"), Value: &w.fleet.Service}, {Name: aws.String("cell"), Value: &c.Name}}
				if s != "" {
					d = append(d, cwtypes.Dimension{Name: aws.String("shard"), Value: &s})
				}
				data = append(data, cwtypes.MetricDatum{MetricName: aws.String("Requests"), Dimensions: d, Value: aws.Float64(50), Unit: cwtypes.StandardUnitCount})
			}
			if _, err := clients[i].PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: aws.String(telemetry.Namespace), MetricData: data}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := put(); err != nil && t.Context().Err() == nil {
					t.Errorf("telling CloudWatch of requests: %v", err)
					return
				}
			}
		}
	}()
}

// ring sets an alarm of a cell, by what follows service and cell in its name.
func (w *world) ring(t *testing.T, cell, alarm string, state cwtypes.StateValue) {
	t.Helper()
	name := w.fleet.NamesOf(w.cell(t, cell)).Alarm(alarm)
	_, err := cloudwatch.NewFromConfig(w.in(t, cell)).SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{
		AlarmName: &name, StateValue: state, StateReason: aws.String("the rollout's test")})
	if err != nil {
		t.Fatal(err)
	}
}
