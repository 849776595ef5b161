package audit_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// deployed is a stack as a manifest has it.
type deployed struct {
	template      object
	tags          object
	environment   string // account/region
	path          string
	after         []string
	resourcePaths map[string]string
}

// manifestOf loads stacks by name as one cloud assembly.
func manifestOf(t testing.TB, stacks map[string]deployed) audit.Input {
	t.Helper()
	fsys := fstest.MapFS{}
	artifacts := object{}
	for name, d := range stacks {
		data, err := json.Marshal(d.template)
		if err != nil {
			t.Fatal(err)
		}
		fsys[name+".json"] = &fstest.MapFile{Data: data}
		env := d.environment
		if env == "" {
			env = "111111111111/eu-west-1"
		}
		meta := object{}
		for id, p := range d.resourcePaths {
			meta["/"+p] = []object{{"type": "aws:cdk:logicalId", "data": id}}
		}
		artifacts[name] = object{"type": "aws:cloudformation:stack", "environment": "aws://" + env, "displayName": d.path,
			"properties": object{"templateFile": name + ".json", "stackName": name, "tags": d.tags}, "dependencies": d.after, "metadata": meta}
	}
	data, err := json.Marshal(object{"version": "48.0.0", "artifacts": artifacts})
	if err != nil {
		t.Fatal(err)
	}
	fsys["manifest.json"] = &fstest.MapFile{Data: data}
	in, err := assembly.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// one is a template of one function that names a table of somebody's.
func one(table string) object {
	return object{"Resources": object{"F": object{"Type": "AWS::Lambda::Function", "Properties": object{"Environment": object{"Variables": object{"TABLE_NAME": table}}}}}}
}

func rulesOf(t testing.TB, flags ...string) []audit.MapRule {
	t.Helper()
	var rules []audit.MapRule
	for _, f := range flags {
		r, err := audit.ParseMapRule(f)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func shardNames(r audit.Report) string {
	var names []string
	for _, s := range r.Summary.Shards {
		names = append(names, strings.Trim(s.Service+":"+s.String(), ":"))
	}
	return strings.Join(names, " ")
}

// TestMappingSources holds each thing that a rule may look at.
func TestMappingSources(t *testing.T) {
	table := func(account string) string { return "arn:aws:dynamodb:eu-west-1:" + account + ":table/all" }
	for name, c := range map[string]struct {
		stacks map[string]deployed
		rules  []string
		shards string
	}{
		"stack": {map[string]deployed{"orders-eu-1-shard-7": {}, "orders-eu-1-shard-8": {}, "billing": {}},
			[]string{`stack:orders-(?P<cell>[a-z0-9-]+)-shard-(?P<shard>\d+)`}, "eu-1/7 eu-1/8"},
		"stack with service": {map[string]deployed{"a_b_1": {}, "a_b_2": {}},
			[]string{`stack:(?P<service>\w)_(?P<cell>\w)_(?P<shard>\d)`}, "a:b/1 a:b/2"},
		"the whole name": {map[string]deployed{"x-1": {}, "x-2": {}, "x-2-old": {}},
			[]string{`stack:x-(?P<shard>\d)`}, "1 2"},
		"tag": {map[string]deployed{"red": {tags: object{"team:node": "1"}}, "blue": {tags: object{"team:node": "2"}}},
			[]string{"tag:team:node"}, "1 2"},
		"tag with expression": {map[string]deployed{"red": {tags: object{"node": "eu-1/1"}}, "blue": {tags: object{"node": "eu-1/2"}}},
			[]string{"tag:node=(?P<cell>.+)/(?P<shard>.+)"}, "eu-1/1 eu-1/2"},
		"tags of resources": {map[string]deployed{"all": {template: object{"Resources": object{
			"A": object{"Type": "AWS::SQS::Queue", "Properties": object{"Tags": []object{{"Key": "node", "Value": "1"}}}},
			"B": object{"Type": "AWS::SQS::Queue", "Properties": object{"Tags": []object{{"Key": "node", "Value": "2"}}}}}}}},
			[]string{"tag:node"}, "1 2"},
		"path": {map[string]deployed{"red": {path: "Prod/Eu/Node1"}, "blue": {path: "Prod/Eu/Node2"}},
			[]string{`path:Prod/(?P<cell>\w+)/Node(?P<shard>\d)`}, "Eu/1 Eu/2"},
		"path of resources": {map[string]deployed{"all": {resourcePaths: map[string]string{"F": "App/Node1/F"}}, "more": {resourcePaths: map[string]string{"F": "App/Node2/F"}}},
			[]string{`path:Node(?P<shard>\d)`}, "1 2"},
		"account and stack": {map[string]deployed{"a": {environment: "111111111111/eu-west-1"}, "b": {environment: "222222222222/eu-west-1"}},
			[]string{`account:(?P<cell>\d+)`, `stack:(?P<shard>.)`}, "111111111111/a 222222222222/b"},
		"region": {map[string]deployed{"a": {environment: "111111111111/eu-west-1"}, "b": {environment: "111111111111/us-east-1"}},
			[]string{`region:(?P<cell>.+)`, `stack:(?P<shard>.)`}, "eu-west-1/a us-east-1/b"},
	} {
		t.Run(name, func(t *testing.T) {
			for stack, d := range c.stacks {
				if d.template == nil {
					d.template = one(table("111111111111"))
					c.stacks[stack] = d
				}
			}
			r := audit.Run(manifestOf(t, c.stacks), audit.Options{Mapping: rulesOf(t, c.rules...)})
			if got := shardNames(r); got != c.shards {
				t.Errorf("shards %q, want %q", got, c.shards)
			}
			for i, m := range r.Mapping {
				if m.Rule != c.rules[i] || m.Stacks+m.Resources == 0 {
					t.Errorf("rule %+v", m)
				}
			}
			if name == "tags of resources" {
				return // each has its own queue
			}
			if f := r.Findings[0]; f.Rule != "SD002" || len(f.Shards) != len(r.Summary.Shards) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}

// TestMappingPrecedence holds who goes first, and that each disagreement is said.
func TestMappingPrecedence(t *testing.T) {
	a := deployed{template: one("t"), tags: object{"cellwall:cell": "eu-1", "cellwall:shard": "s01", "node": "n1"}, path: "eu-1/shard-s01"}
	b := deployed{template: one("t"), tags: object{"node": "n2"}}
	for name, c := range map[string]struct {
		rules  []string
		shards string
		says   []string
	}{
		"own tags without a mapping": {nil, "eu-1/s01", nil},
		"the mapping before own tags": {[]string{"tag:node"}, "n2 eu-1/n1",
			[]string{`shard is "n1" by the mapping and "s01" by its tags or its path: the first was taken`}},
		"the first rule before the second": {[]string{`stack:(?P<shard>.)`, `tag:node`}, "b eu-1/a",
			[]string{`shard is "a" by stack:(?P<shard>.) and "n1" by tag:node: the first was taken`, `shard is "a" by the mapping and "s01" by its tags or its path: the first was taken`,
				`shard is "b" by stack:(?P<shard>.) and "n2" by tag:node: the first was taken`}},
		"rules complete each other": {[]string{`tag:node`, `account:(?P<cell>\d{4}).*`}, "1111/n1 1111/n2",
			[]string{`cell is "1111" by the mapping and "eu-1" by its tags or its path: the first was taken`, `shard is "n1" by the mapping and "s01" by its tags or its path: the first was taken`}},
		"a rule that matches nothing": {[]string{`stack:nothing-(?P<shard>\d)`}, "eu-1/s01", []string{`the mapping rule 'stack:nothing-(?P<shard>\d)' matches nothing that was read`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := audit.Run(manifestOf(t, map[string]deployed{"a": a, "b": b}), audit.Options{Mapping: rulesOf(t, c.rules...)})
			if got := shardNames(r); got != c.shards {
				t.Errorf("shards %q, want %q", got, c.shards)
			}
			var says []string
			for _, f := range r.Findings {
				if f.Rule == "UN006" {
					if f.Level != audit.Review {
						t.Errorf("level %s", f.Level)
					}
					says = append(says, f.Message)
				}
			}
			slices.Sort(says)
			slices.Sort(c.says)
			if !slices.Equal(says, c.says) {
				t.Errorf("says\n%s\nwant\n%s", strings.Join(says, "\n"), strings.Join(c.says, "\n"))
			}
		})
	}
}

// TestMappedCellsTakeTheirCores holds that a stack SERVICE-CELL-core belongs to the cell that the mapping gives to
// others of its prefix, so that a shard and its own cell's core are in one.
func TestMappedCellsTakeTheirCores(t *testing.T) {
	shard := one("t")
	shard["Resources"].(object)["Q"] = object{"Type": "AWS::SQS::Queue", "Properties": object{"X": object{"Fn::ImportValue": "x"}}}
	r := audit.Run(manifestOf(t, map[string]deployed{
		"orders-eu-1-core":    {template: object{"Resources": object{"V": object{"Type": "AWS::EC2::VPC"}}, "Outputs": object{"O": object{"Value": object{"Ref": "V"}, "Export": object{"Name": "x"}}}}},
		"orders-eu-1-shard-1": {template: shard}, "orders-eu-1-shard-2": {template: shard},
	}), audit.Options{Mapping: rulesOf(t, `stack:orders-(?P<cell>.+)-shard-(?P<shard>\d)`)})
	for _, f := range r.Findings {
		if f.Rule[:2] == "SC" {
			t.Errorf("%s: %s", f.Rule, f.Message)
		}
	}
	if got := shardNames(r); got != "eu-1/1 eu-1/2" {
		t.Errorf("shards %q", got)
	}
}

func TestMapRulesRefused(t *testing.T) {
	for flag, want := range map[string]string{
		"orders":               "is not SOURCE:REGEX",
		"stack:":               "is not SOURCE:REGEX",
		"name:(?P<shard>x)":    `"name" is nothing that a mapping looks at: write stack, path, tag, account, region`,
		"stack:(?P<shard>":     "is no regular expression",
		"stack:(?P<shards>x)":  `the group "shards"`,
		"stack:orders-.*":      "says neither cell nor shard",
		"tag:=x":               "which tag?",
		"tag:k=v":              "says neither cell nor shard",
		"stack:a)|(?P<shard>b": "is no regular expression",
		"region:eu-west-1":     "says neither cell nor shard",
		"stack:(?P<shard>" + strings.Repeat("(", 5): "is no regular expression",
	} {
		if _, err := audit.ParseMapRule(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}
