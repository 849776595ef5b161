package audit_test

import (
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestProposal holds that stacks of which nothing says who they are get a mapping proposed that would work.
func TestProposal(t *testing.T) {
	web := object{"Resources": object{"Q": object{"Type": "AWS::SQS::Queue", "Properties": object{"RedrivePolicy": object{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:111111111111:all"}}}}}
	other := object{"Resources": object{"T": object{"Type": "AWS::DynamoDB::Table"}}}
	role := object{"Resources": object{"R": object{"Type": "AWS::IAM::Role"}}}
	named := func(tpl object, names ...string) map[string]deployed {
		s := map[string]deployed{}
		for _, n := range names {
			s[n] = deployed{template: tpl}
		}
		return s
	}
	with := func(s map[string]deployed, more map[string]deployed) map[string]deployed {
		for k, v := range more {
			s[k] = v
		}
		return s
	}
	for name, c := range map[string]struct {
		stacks map[string]deployed
		rules  []string
		shards string
	}{
		"numbers":            {with(named(web, "shop-node-1", "shop-node-2", "shop-node-12"), named(other, "shop-core")), []string{`stack:shop-node-(?P<shard>\d+)`}, "1 12 2"},
		"camel case":         {named(web, "ShopNode1Stack", "ShopNode2Stack"), []string{`stack:ShopNode(?P<shard>\d+)Stack`}, "1 2"},
		"words":              {named(web, "shop-blue", "shop-black"), []string{`stack:shop-(?P<shard>\w+)`}, "black blue"},
		"cells":              {named(web, "shop-eu-node-1", "shop-eu-node-2", "shop-us-node-1", "shop-us-node-2"), []string{`stack:shop-(?P<cell>\w+)-node-(?P<shard>\d+)`}, "eu/1 eu/2 us/1 us/2"},
		"cells of two words": {named(web, "shop-eu-1-node-1", "shop-eu-2-node-1", "shop-us-1-node-2"), []string{`stack:shop-(?P<cell>(?:\w+)-(?:\d+))-node-(?P<shard>\d+)`}, "eu-1/1 eu-2/1 us-1/2"},
		"two stacks a shard": {with(named(web, "web-1", "web-2"), named(other, "data-1", "data-2")), []string{`stack:data-(?P<shard>\d+)`, `stack:web-(?P<shard>\d+)`}, "1 2"},
		"tag": {map[string]deployed{"zebra": {template: web, tags: object{"node": "a", "owner": "x"}}, "lion": {template: web, tags: object{"node": "b", "owner": "x"}}},
			[]string{"tag:node"}, "a b"},
		"path":                {map[string]deployed{"x": {template: web, path: "App/Node1/Stack"}, "yy-z": {template: web, path: "App/Node2/Stack"}}, []string{`path:App/Node(?P<shard>\d+)/Stack`}, "1 2"},
		"words in camel case": {with(named(web, "AcmeTenantStack", "ApexTenantStack", "BlueTenantStack"), named(other, "Platform")), []string{`stack:(?P<shard>\w+)TenantStack`}, "Acme Apex Blue"},
		"camel case in front": {named(web, "TenantAcme", "TenantApex"), []string{`stack:Tenant(?P<shard>\w+)`}, "Acme Apex"},
		"no other's name":     {with(named(web, "acme", "globex"), named(other, "platform")), nil, ""},
		"by region":           {named(web, "app-eu-west-1", "app-us-east-1", "app-ap-southeast-2"), []string{`stack:app-(?P<shard>[\w-]+)`}, "ap-southeast-2 eu-west-1 us-east-1"},
		"cells by region":     {named(web, "app-eu-west-1-node-1", "app-us-east-1-node-1"), []string{`stack:app-(?P<shard>[\w-]+)-node-1`}, "eu-west-1 us-east-1"},
		"nothing alike":       {with(named(web, "a-1"), named(other, "a-2")), nil, ""},
		"a table more": {with(named(object{"Resources": object{"Q": object{"Type": "AWS::SQS::Queue"}, "F": object{"Type": "AWS::Lambda::Function"}, "R": object{"Type": "AWS::IAM::Role"}}}, "pod-1", "pod-2", "pod-4"),
			named(object{"Resources": object{"Q": object{"Type": "AWS::SQS::Queue"}, "F": object{"Type": "AWS::Lambda::Function"}, "R": object{"Type": "AWS::IAM::Role"}, "T": object{"Type": "AWS::DynamoDB::Table"}}}, "pod-3", "pod-5")),
			[]string{`stack:pod-(?P<shard>\d+)`}, "1 2 3 4 5"},
		"no data path":     {named(role, "a-1", "a-2"), nil, ""},
		"different shapes": {named(web, "a-b-c", "a_b"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := manifestOf(t, c.stacks)
			r := audit.Run(in, audit.Options{})
			if r.Findings[0].Rule != "UN001" || r.Findings[0].Level != audit.Error {
				t.Fatalf("a proposal is no mapping: %+v", r.Findings)
			}
			if c.rules == nil {
				if r.Proposal != nil {
					t.Errorf("proposes %+v", r.Proposal)
				}
				return
			}
			if r.Proposal == nil || !slices.Equal(r.Proposal.Rules, c.rules) {
				t.Fatalf("proposes %+v, want %q", r.Proposal, c.rules)
			}
			if r.Proposal.Stacks > len(c.stacks) {
				t.Errorf("places %d of %d stacks", r.Proposal.Stacks, len(c.stacks))
			}
			for _, rule := range c.rules {
				if flag := "--shard '" + rule + "'"; !strings.Contains(r.Findings[0].Fix, flag) || !strings.Contains(r.Unjudged(), flag) {
					t.Errorf("%q and %q do not say %s", r.Findings[0].Fix, r.Unjudged(), flag)
				}
			}
			again := audit.Run(in, audit.Options{Mapping: rulesOf(t, r.Proposal.Rules...)})
			if got := shardNames(again); got != c.shards || len(again.Summary.Shards) != len(r.Proposal.Shards) || again.Proposal != nil {
				t.Errorf("with the proposal: shards %q, want %q; proposed %v", got, c.shards, r.Proposal.Shards)
			}
		})
	}
}

// TestUnplacedStacks holds that like stacks which nothing places are named beside others that are placed.
func TestUnplacedStacks(t *testing.T) {
	s, _ := cleanFleet(false)
	for _, n := range []string{"1", "2"} {
		s.put("billing-node-"+n, "T", "AWS::DynamoDB::Table", object{})
	}
	r := s.run(t)
	if len(r.Findings) != 1 || r.Findings[0].Rule != "UN009" || r.Findings[0].Level != audit.Review || !strings.Contains(r.Findings[0].Fix, `--shard 'stack:billing-node-(?P<shard>\d+)'`) {
		t.Errorf("%+v", r.Findings)
	}
}

// TestServicesOwnStacks holds that like stacks which say of which service they are, and of no cell, are not taken for
// shards that nothing places: a service has such as a front door in each region.
func TestServicesOwnStacks(t *testing.T) {
	for rule, tags := range map[string]object{"UN009": {}, "": {"cellwall:service": "orders"}} {
		stacks := twoCells()
		for _, n := range []string{"1", "2"} {
			stacks["orders-door-"+n] = deployed{tags: tags, template: object{"Resources": object{"T": object{"Type": "AWS::DynamoDB::Table"}}}}
		}
		var got string
		for _, f := range audit.Run(manifestOf(t, stacks), audit.Options{}).Findings {
			if f.Rule == "UN009" {
				got = f.Rule
			}
		}
		if got != rule {
			t.Errorf("with the tags %v: %q, want %q", tags, got, rule)
		}
	}
}

// TestNestedProposal holds that nested stacks are proposed by their files' names, else by their parent's names for them.
func TestNestedProposal(t *testing.T) {
	const unit = "Resources: {Q: {Type: AWS::SQS::Queue}}\n"
	nested := func(file string) string {
		return "{Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: ./" + file + "}}\n"
	}
	for rule, files := range map[string]map[string]string{
		`stack:node-(?P<shard>\w+)`:    {"root.yaml": "Resources:\n  A: " + nested("node-a.yaml") + "  B: " + nested("node-b.yaml"), "node-a.yaml": unit, "node-b.yaml": unit},
		`path:root/Node(?P<shard>\w+)`: {"root.yaml": "Resources:\n  NodeA: " + nested("node.yaml") + "  NodeB: " + nested("node.yaml"), "node.yaml": unit},
	} {
		in := foreign(t, files)
		r := audit.Run(in, audit.Options{})
		if r.Proposal == nil || !slices.Equal(r.Proposal.Rules, []string{rule}) {
			t.Errorf("proposes %+v, want %s", r.Proposal, rule)
			continue
		}
		if again := audit.Run(in, audit.Options{Mapping: rulesOf(t, rule)}); len(again.Summary.Shards) != 2 {
			t.Errorf("%s finds %s", rule, shardNames(again))
		}
	}
}

// TestCellsProposal holds that like stacks which are called as the known cells are, are proposed as theirs.
func TestCellsProposal(t *testing.T) {
	s := map[string]deployed{}
	for _, cell := range []string{"1", "2"} {
		s["svc-cell"+cell+"-shard-1"] = deployed{template: object{"Resources": object{"Q": object{"Type": "AWS::SQS::Queue"}}}}
		s["db-cell"+cell] = deployed{template: object{"Resources": object{"T": object{"Type": "AWS::DynamoDB::Table"}}}}
	}
	in, first := manifestOf(t, s), `stack:svc-cell(?P<cell>\d)-shard-(?P<shard>\d+)`
	r := audit.Run(in, audit.Options{Mapping: rulesOf(t, first)})
	want := `stack:db-cell(?P<cell>\d+)`
	if r.Proposal == nil || !slices.Equal(r.Proposal.Rules, []string{want}) || !strings.Contains(r.Findings[0].Fix, "2 cells (1, 2)") {
		t.Fatalf("proposes %+v: %+v", r.Proposal, r.Findings)
	}
	if again := audit.Run(in, audit.Options{Mapping: rulesOf(t, first, want)}); again.Proposal != nil || shardNames(again) != "1/1 2/1" {
		t.Errorf("with the proposal: %s, %+v", shardNames(again), again.Findings)
	}
}
