package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/google/go-cmp/cmp"
)

// changed is how many events each stack's resources have had.
func (w *world) changed(t *testing.T) map[string]int {
	t.Helper()
	client := cloudformation.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	counts := map[string]int{}
	for name := range w.stacks(t, homeAccount, homeRegion) {
		out, err := client.DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: aws.String(name)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.StackEvents {
			if aws.ToString(e.LogicalResourceId) != name {
				counts[name]++
			}
		}
	}
	return counts
}

// sameAssemblyAgain deploys what is deployed: nothing happens.
func (w *world) sameAssemblyAgain(t *testing.T, assembly string) {
	before := w.changed(t)
	out := w.deploy(t, assembly, "global", canary+"/*")
	stacks := 2 + len(w.cell(t, canary).Shards.IDs())
	if got := strings.Count(out, "(no changes)"); got != stacks {
		t.Errorf("%d stacks report no changes, want %d:\n%s", got, stacks, out)
	}
	if diff := cmp.Diff(before, w.changed(t)); diff != "" {
		t.Errorf("events by stack (-before +after):\n%s", diff)
	}
}

// oneShardMore grows the canary: a stack is created, and no other is touched.
func (w *world) oneShardMore(t *testing.T) {
	before, was := w.changed(t), w.cell(t, canary).Shards.IDs()
	w.writeFleet(t, func(yaml string) string {
		return strings.Replace(strings.ReplaceAll(yaml, "shards: 16", "shards: 4"), "shards: 4, tenants: internal", "shards: 5, tenants: internal", 1)
	})
	now := w.cell(t, canary).Shards.IDs()
	if len(now) != len(was)+1 {
		t.Fatalf("the canary has the shards %v after it grew", now)
	}
	w.deploy(t, w.synth(t, "-c", "cell="+canary), canary+"/*")

	after := w.changed(t)
	touched := map[string]bool{}
	for name := range after {
		if after[name] != before[name] {
			touched[name] = true
		}
	}
	added := now[len(now)-1]
	if got, want := slices.Sorted(maps.Keys(touched)), []string{w.names.Cell(canary).Shard(added).Stack()}; !slices.Equal(got, want) {
		t.Errorf("the resources of stacks %v changed, want those of %v", got, want)
	}
	w.shard(t, added)
}

// unknownTypeFails deploys a type that the emulator does not know: the CDK must report a failure, and the
// stack must be rolled back with a reason.
func (w *world) unknownTypeFails(t *testing.T) {
	assembly := w.assembly(t, "unknown-type", `{"Resources":{
		"Queue":{"Type":"AWS::SQS::Queue"},
		"Quantum":{"Type":"AWS::Braket::QuantumTask","DependsOn":"Queue"}}}`)
	out := w.cdkFails(t, w.dir, append(deployArgs(assembly), "unknown-type")...)
	if !strings.Contains(out, "no support for AWS::Braket::QuantumTask") {
		t.Errorf("the failure does not name the type:\n%s", out)
	}
	if got := w.stacks(t, homeAccount, homeRegion)["unknown-type"]; got != "ROLLBACK_COMPLETE" {
		t.Errorf("the stack is %q", got)
	}
}

// missingParameterFails deploys a stack whose typed SSM parameter is not there, as a shard's is before its
// cell's core.
func (w *world) missingParameterFails(t *testing.T) {
	assembly := w.assembly(t, "missing-parameter", `{
		"Parameters":{"Vpc":{"Type":"AWS::SSM::Parameter::Value<AWS::EC2::VPC::Id>","Default":"/not/there"}},
		"Resources":{"Queue":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":{"Ref":"Vpc"}}}}}`)
	out := w.cdkFails(t, w.dir, append(deployArgs(assembly), "missing-parameter")...)
	if !strings.Contains(out, "Unable to fetch parameters [/not/there]") {
		t.Errorf("the failure does not name the parameter:\n%s", out)
	}
}

// assembly writes a cloud assembly with one hand-written stack in the home account and region.
func (w *world) assembly(t *testing.T, stack, template string) string {
	t.Helper()
	dir := t.TempDir()
	manifest := `{"version":"36.0.0","artifacts":{"` + stack + `":{"type":"aws:cloudformation:stack",
		"environment":"aws://` + homeAccount + "/" + homeRegion + `","properties":{"templateFile":"template.json"}}}}`
	for name, content := range map[string]string{"manifest.json": manifest, "template.json": template} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
