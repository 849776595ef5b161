package stamp

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// explained are the findings of cdk-nag's AwsSolutions pack that stand, each with the reason. A finding is written
// as /CONSTRUCT/PATH RULE, with [WHAT] behind a rule that finds several things in one resource.
var explained = []struct{ finding, reason string }{
	{`/([^/]+/core|frontdoor-[^/]+)/Api/DefaultRoute/Resource APIG4`,
		"with auth.source verify the function verifies the token itself, before it does anything else"},
	{`/[^/]+/(core/Alb-[^/]+|shard-[^/]+/Alb)/Resource ELB2`,
		"internal, and reached by the router alone, whose log has a line for every attempt at a shard"},
	{`/[^/]+/shard-[^/]+/Instances/ASG AS3`,
		"instances come and go with the load, which is nothing to tell anybody; what does not come up is told by the alarm on unhealthy targets"},
	{`/[^/]+/core/Vpc/Resource VPC7`,
		"flow logs are the account's to decide and to pay, and need no change of this stack; security groups name who may reach whom"},
	{`/([^/]+/core/Snapshots|frontdoor-[^/]+/Snapshots|[^/]+/shard-[^/]+/Bucket)/Resource S1`,
		"one log bucket for all shards would be one more thing that they share; who reads objects is CloudTrail's data events to say"},
	{`/[^/]+/core/PlacementKey/Resource SMG4`,
		"another key moves every tenant: it is rotated by a topology migration, and never on a schedule"},

	{`/[^/]+/core/RouterRole/DefaultPolicy/Resource IAM5\[Resource::\*\]`,
		"Lambda attaches the router to the network in the role's name before there is a resource to name; a denial keeps the actions from the function's own code"},
	{`/[^/]+/core/KeeperRole/DefaultPolicy/Resource IAM5\[Resource::\*\]`,
		"GetMetricData, DescribeTargetGroups and DescribeTargetHealth know no resources (service authorization reference)"},
	{`/[^/]+/core/RouterRole/DefaultPolicy/Resource IAM5\[Resource::arn:aws:(lambda:[^:]+:\d+:function:orders-[a-z0-9-]+-\*-worker:live|sqs:[^:]+:\d+:orders-[a-z0-9-]+-\*-work)\]`,
		"the aliases and queues of the cell's own shards, present and to come: with each by name, a new shard would change the core that all of them depend on"},
	{`/[^/]+/shard-[^/]+/(Worker|Instance)Role/DefaultPolicy/Resource IAM5\[Resource::arn:aws:s3:::orders-[a-z0-9-]+/\*\]`,
		"the objects of the shard's own bucket, whose keys begin with tenants who are not known here"},
	{`/([^/]+/core/(Router|Keeper)Role|global/FrontDoorRole-[^/]+)/DefaultPolicy/Resource IAM5\[Resource::arn:aws:kms:[^:]+:\d+:key/\*\]`,
		"keys of stacks that are deployed later have no names but their aliases, to which a condition narrows it"},
	{`/global/FrontDoorRole-[^/]+/DefaultPolicy/Resource IAM5\[Resource::arn:aws:logs:[^:]+:\d+:log-group:/cellwall/orders/global/frontdoor:\*\]`,
		"the streams of the function's own log group, which Lambda names"},
}

// nag is what cdk-nag finds in all stacks of an input.
func nag(t *testing.T, in Input) []string {
	t.Helper()
	context, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	context = maps.Clone(context)
	context["@aws-cdk/core:annotationsInValidationReport"] = false // it would print each finding
	folder := t.TempDir()
	app := NewApp(Options{Out: folder, Context: context})
	must(t, build(app, in, t.TempDir()))
	pack := cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: no}) // findings become annotations
	for _, stage := range stages(app) {                                     // an aspect of the app does not enter its cells
		awscdk.Aspects_Of(stage).Add(pack, nil)
	}
	app.Synth(nil)
	var found []string
	must(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "manifest.json" {
			found = append(found, annotations(t, path)...)
		}
		return err
	}))
	return found
}

var nagFinding = regexp.MustCompile(`^AwsSolutions-([A-Z0-9]+(?:\[.*?\])?): `)

// annotations are the errors and warnings in the manifest of a cloud assembly.
func annotations(t *testing.T, manifest string) []string {
	t.Helper()
	type entries map[string][]struct {
		Type string
		Data any
	}
	var m struct {
		Artifacts map[string]struct {
			AdditionalMetadataFile string
			Metadata               entries
		}
	}
	must(t, json.Unmarshal([]byte(read(t, manifest)), &m))
	var found []string
	for _, a := range m.Artifacts {
		if a.AdditionalMetadataFile != "" {
			must(t, json.Unmarshal([]byte(read(t, filepath.Join(filepath.Dir(manifest), a.AdditionalMetadataFile))), &a.Metadata))
		}
		for path, all := range a.Metadata {
			for _, e := range all {
				if e.Type != "aws:cdk:error" && e.Type != "aws:cdk:warning" {
					continue
				}
				rule := e.Data.(string) // a rule that failed tells so in other words, and stays whole
				if m := nagFinding.FindStringSubmatch(rule); m != nil {
					rule = m[1]
				}
				found = append(found, path+" "+rule)
			}
		}
	}
	return found
}

// TestNag: cdk-nag's AwsSolutions pack finds nothing in the sample fleet, nor in any shape, that is not explained;
// and everything that is explained is found.
func TestNag(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(explained))
	for i, e := range explained {
		patterns[i] = regexp.MustCompile(`^` + e.finding + `$`)
	}
	used, judged := make([]bool, len(explained)), 0
	judge := func(name string, in Input) {
		t.Run(name, func(t *testing.T) {
			found := nag(t, in)
			judged++
			if len(found) == 0 {
				t.Error("nothing is found at all: the pack did not see the stacks")
			}
			slices.Sort(found)
			for _, f := range slices.Compact(found) {
				i := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(f) })
				if i < 0 {
					t.Errorf("unexplained: %s", f)
					continue
				}
				used[i] = true
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		judge(name, input(sample(t, shapes[name])))
	}
	whole := fleetFile(t)
	for i := range whole.Cells { // the shards of a cell are alike
		whole.Cells[i].Shards = whole.Cells[i].Shards[:4]
	}
	judge("the sample fleet", input(whole))
	for i, e := range explained {
		if all := judged == len(shapes)+1; all && !used[i] && !t.Failed() {
			t.Errorf("explained, and found nowhere: %s", e.finding)
		}
	}
}
