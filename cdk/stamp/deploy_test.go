package stamp

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestDeploy: what the fleet's deploy block asks of every stack is in every stack, and nothing of it in a fleet
// without one.
func TestDeploy(t *testing.T) {
	asked, plain := shape(t, "everything"), shape(t, "per-shard")
	roles := 0
	for _, path := range asked.paths() {
		s := asked[path]
		if s.Tags["team"] != "payments" || s.Tags["cost-center"] != "1207" || s.Tags["cellwall:service"] != "orders" {
			t.Errorf("%s has the tags %v", path, s.Tags)
		}
		for id, r := range s.Template.Resources {
			if r.Type != "AWS::IAM::Role" {
				continue
			}
			roles++
			if got := text(r.at("PermissionsBoundary")); got != `"arn:aws:iam::111111111111:policy/team-boundary"` {
				t.Errorf("%s: role %s is bounded by %s", path, id, got)
			}
		}
		if strings.Contains(s.text, "hnb659fds") {
			t.Errorf("%s names the CDK's own bootstrap", path)
		}
	}
	if roles < 10 {
		t.Errorf("only %d roles were looked at", roles)
	}
	for _, path := range plain.paths() {
		if tags := len(plain[path].Tags); tags > 3 || strings.Contains(plain[path].text, "PermissionsBoundary") {
			t.Errorf("%s has %d tags, or bounds a role, and nobody asked", path, tags)
		}
	}
	for path, want := range map[string]string{"everything": "orders9", "per-shard": "hnb659fds"} {
		if got := deployers(t, shape(t, path)["eu-canary/core"]); !strings.Contains(got, ":role/cdk-"+want+"-deploy-role-111111111111-eu-west-1") {
			t.Errorf("%s is deployed by %s", path, got)
		}
	}
}

// deployers is what the CDK's command line deploys a stack of the first cell with.
func deployers(t *testing.T, core stack) string {
	t.Helper()
	var manifest struct {
		Artifacts map[string]struct {
			Type       string
			Properties struct{ AssumeRoleArn string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(filepath.Dir(core.file), "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, a := range manifest.Artifacts {
		if a.Type == "aws:cloudformation:stack" {
			roles = append(roles, a.Properties.AssumeRoleArn)
		}
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), " ")
}

// TestTagsBeyondStacks: CloudFormation hands a stack's tags on to its resources, but neither to the disks of a group's
// instances nor to the directory's tables, at home or in other regions, which have them written out.
func TestTagsBeyondStacks(t *testing.T) {
	want := []any{map[string]any{"Key": "cellwall:service", "Value": "orders"}, map[string]any{"Key": "cost-center", "Value": "1207"}, map[string]any{"Key": "team", "Value": "payments"}}
	template := shape(t, "everything")[shardPath].one(t, "AWS::EC2::LaunchTemplate")
	tagged := map[any]bool{}
	specs, _ := template.at("LaunchTemplateData", "TagSpecifications").([]any)
	for i := range specs {
		tags, _ := template.at("LaunchTemplateData", "TagSpecifications", i, "Tags").([]any)
		if slices.ContainsFunc(tags, func(tag any) bool { return cmp.Equal(tag, want[1]) }) && slices.ContainsFunc(tags, func(tag any) bool { return cmp.Equal(tag, want[2]) }) {
			tagged[template.at("LaunchTemplateData", "TagSpecifications", i, "ResourceType")] = true
		}
	}
	if !tagged["volume"] || !tagged["instance"] {
		t.Errorf("the template tags %v", tagged)
	}
	global := synth(t, sample(t, shapes["lambda-only"], func(f *fleet.Fleet) {
		f.Deploy.Tags = map[string]string{"team": "payments", "cost-center": "1207"}
		f.Directory.Replicas = []string{"us-east-1"}
		f.Cells[0].Shards = f.Cells[0].Shards[:1]
	}))["global"]
	table := global.one(t, "AWS::DynamoDB::GlobalTable")
	replicas, _ := table.at("Replicas").([]any)
	for i := range replicas {
		if d := cmp.Diff(want, table.at("Replicas", i, "Tags")); d != "" {
			t.Errorf("tags in %v (-want +got):\n%s", table.at("Replicas", i, "Region"), d)
		}
	}
	if len(replicas) != 2 {
		t.Errorf("%d replicas, want that at home and the other", len(replicas))
	}
}
