package change

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestCauses: which edit of the fleet a change is laid to.
func TestCauses(t *testing.T) {
	worker := func(cell, memory, reserved, env string) audit.Stack {
		s := stackOf(t, "orders-"+cell+"-shard-s01", fmt.Sprintf(`
			"Worker": {"Type": "AWS::Lambda::Function", "Properties": {"MemorySize": %s, "ReservedConcurrentExecutions": %s, "Environment": {"Variables": {"E": %q}}}},
			"V%s": {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "Worker"}}},
			"Live": {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionVersion": {"Fn::GetAtt": ["V%s", "Version"]}}}`, memory, reserved, env, memory, memory))
		s.Tags = map[string]string{"cellwall:service": "orders", "cellwall:cell": cell, "cellwall:shard": "s01"}
		return s
	}
	role := func(cell string) audit.Stack {
		return stackOf(t, "orders-global", `"Role": {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"Description": "arn:aws:iam::1:role/orders-`+cell+`-router"}}`)
	}
	in := func(stacks ...audit.Stack) audit.Input { return audit.Input{Stacks: stacks} }
	both := []string{"memory: 512, reservedConcurrency: 20", "memory: 1024, reservedConcurrency: 30"}
	for name, c := range map[string]struct {
		was, next audit.Input
		edits     []Edit
		id        string
		want      []string
	}{
		"the only edit": {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "512", "20", "b")), edits(t, "memory: 512", "memory: 1024"), "orders-eu-1-shard-s01.Worker", []string{"shard.lambda.memory"}},
		"by values":     {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "1024", "20", "a")), edits(t, both...), "orders-eu-1-shard-s01.Worker", []string{"shard.lambda.memory"}},
		"by several":    {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "1024", "30", "a")), edits(t, both...), "orders-eu-1-shard-s01.Worker", []string{"shard.lambda.memory", "shard.lambda.reservedConcurrency"}},
		"with another":  {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "1024", "20", "a")), edits(t, both...), "orders-eu-1-shard-s01.Live", []string{"shard.lambda.memory"}},
		"nobody knows":  {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "512", "20", "b")), edits(t, both...), "orders-eu-1-shard-s01.Worker", nil},
		"of other cells": {in(worker("eu-1", "512", "20", "a")), in(worker("eu-1", "512", "20", "b")), edits(t, "us-1", "us-2"),
			"orders-eu-1-shard-s01.Worker", nil},
		"a cell comes":        {in(), in(worker("us-2", "512", "20", "a")), edits(t, "us-1", "us-2"), "orders-us-2-shard-s01.Worker", []string{"cells[us-2]"}},
		"by the cell's name":  {in(role("us-1")), in(role("us-2")), edits(t, "us-1", "us-2"), "orders-global.Role", []string{"cells[us-1]", "cells[us-2]"}},
		"not by a longer one": {in(role("us-10")), in(role("us-11")), edits(t, "us-1", "us-2"), "orders-global.Role", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.edits = slices.DeleteFunc(c.edits, func(e Edit) bool { return strings.HasPrefix(e.Path, "rollout") })
			e := what(Compare(c.was, c.next, Options{Fleet: c.edits}))[c.id]
			if e == nil {
				t.Fatalf("%s does not change", c.id)
			}
			if !slices.Equal(e.Causes, c.want) {
				t.Errorf("it is laid to %q, want %q", e.Causes, c.want)
			}
		})
	}
}

// TestSigns: which edits a change is laid to of whose values the templates say nothing, beside another edit.
func TestSigns(t *testing.T) {
	const cell = `{name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 3`
	beside := func(replace ...string) []Edit { return edits(t, append(replace, "memory: 512", "memory: 1024")...) }
	in := func(stack, shard, text string) audit.Input {
		s := stackOf(t, stack, text)
		s.Tags = map[string]string{"cellwall:service": "orders", "cellwall:cell": "eu-1"}
		if shard != "" {
			s.Tags["cellwall:shard"] = shard
		}
		return audit.Input{Stacks: []audit.Stack{s}}
	}
	const core, shard = "orders-eu-1-core", "orders-eu-1-shard-s01"
	const network = `"V": {"Type": "AWS::EC2::VPC"}`
	const endpoint = `, "E": {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"SecurityGroupIds": [{"Ref": "G"}]}}, "G": {"Type": "AWS::EC2::SecurityGroup"}, "I": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {"GroupId": {"Ref": "G"}}}`
	const nat = `, "N": {"Type": "AWS::EC2::NatGateway", "Properties": {"SubnetId": {"Ref": "S"}}}, "S": {"Type": "AWS::EC2::Subnet"}, "T": {"Type": "AWS::EC2::RouteTable"}, "A": {"Type": "AWS::EC2::SubnetRouteTableAssociation", "Properties": {"SubnetId": {"Ref": "S"}, "RouteTableId": {"Ref": "T"}}}`
	generation, egress, encryption := []string{"cells[eu-1].generation"}, []string{"cells[eu-1].egress"}, []string{"shard.encryption"}
	for name, c := range map[string]struct {
		stack, shard, was, next string
		replace                 []string
		want                    map[string][]string
	}{
		"a generation": {core, "", `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "orders-q"}}, "D": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": "[orders-q, 1]"}}`,
			`"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "orders-q-g1"}}, "D": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": "[orders-q-g1, 1]"}}`,
			[]string{cell, cell + ", generation: 1"}, map[string][]string{"Q": generation, "D": generation}},
		"the key of a generation": {core, "", `"P": {"Type": "AWS::SecretsManager::Secret", "Properties": {"GenerateSecretString": {"GenerateStringKey": "1"}}}, "F": {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {}}}}`,
			`"P": {"Type": "AWS::SecretsManager::Secret", "Properties": {"GenerateSecretString": {"GenerateStringKey": "g1-1"}}}, "F": {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"CELLWALL_GENERATION": "1"}}}}`,
			[]string{cell, cell + ", generation: 1"}, map[string][]string{"P": generation, "F": generation}},
		"no generation": {core, "", `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "orders-q"}}`, `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "orders-gold"}}`,
			[]string{cell, cell + ", generation: 1"}, map[string][]string{"Q": nil}},
		"gateways instead of endpoints": {core, "", network + endpoint, network + nat, []string{cell, cell + ", egress: nat"},
			map[string][]string{"E": egress, "G": egress, "I": egress, "N": egress, "S": egress, "T": egress, "A": egress}},
		"what comes beside": {core, "", network, network + `, "X": {"Type": "AWS::SNS::Topic"}`, []string{cell, cell + ", egress: nat"}, map[string][]string{"X": nil}},
		"a key": {shard, "s01", `"Q": {"Type": "AWS::SQS::Queue"}, "P": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": []}}`,
			`"Q": {"Type": "AWS::SQS::Queue", "Properties": {"KmsMasterKeyId": {"Ref": "K"}}}, "K": {"Type": "AWS::KMS::Key"}, "P": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": [{"Ref": "K"}]}}`,
			[]string{"capacity: 500", "capacity: 500\n  encryption: own"}, map[string][]string{"Q": encryption, "K": encryption, "P": encryption}},
		"a key less": {shard, "s01", `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"KmsMasterKeyId": {"Ref": "K"}}}, "K": {"Type": "AWS::KMS::Key"}, "P": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": [{"Ref": "K"}]}}`,
			`"Q": {"Type": "AWS::SQS::Queue"}, "P": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": []}}`,
			[]string{"capacity: 500", "capacity: 500\n  encryption: own"}, map[string][]string{"Q": encryption, "K": encryption, "P": encryption}},
		"a key of the core": {core, "", ``, `"K": {"Type": "AWS::KMS::Key"}`, []string{"capacity: 500", "capacity: 500\n  encryption: own"}, map[string][]string{"K": nil}},
		"what comes beside what changes": {shard, "s01", `"F": {"Type": "AWS::Lambda::Function", "Properties": {"MemorySize": 512}}`,
			`"F": {"Type": "AWS::Lambda::Function", "Properties": {"MemorySize": 1024}}, "M": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Dimensions": [{"Value": {"Ref": "F"}}]}}`,
			[]string{"capacity: 500", "capacity: 500\n  encryption: own"}, map[string][]string{"F": {"shard.lambda.memory"}, "M": nil}},
		"a shard by another name": {core, "", `"A": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": "ALARM(orders/s01/health)"}}`,
			`"A": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": "ALARM(orders/s07/health)"}}`,
			[]string{cell, strings.Replace(cell, "shards: 3", "shards: [{id: s07, zone: a}, {id: s02, zone: b}, {id: s03, zone: a}]", 1)}, map[string][]string{"A": {"cells[eu-1].shards[s01]", "cells[eu-1].shards[s07]"}}},
		"a part": {shard, "s01", ``, `"B": {"Type": "AWS::S3::Bucket"}, "P": {"Type": "AWS::S3::BucketPolicy", "Properties": {"Bucket": {"Ref": "B"}}}`,
			[]string{"capacity: 500", "capacity: 500\n  bucket: {}"}, map[string][]string{"B": {"shard.bucket"}, "P": {"shard.bucket"}}},
		"tags": {shard, "s01", `"Q": {"Type": "AWS::SQS::Queue"}`, `"Q": {"Type": "AWS::SQS::Queue", "Properties": {"Tags": [{"Key": "team", "Value": "a"}]}}`,
			[]string{"cells:", "deploy: {tags: {team: a}}\ncells:"}, map[string][]string{"Q": {"deploy.tags"}}},
	} {
		t.Run(name, func(t *testing.T) {
			found := what(Compare(in(c.stack, c.shard, c.was), in(c.stack, c.shard, c.next), Options{Fleet: beside(c.replace...)}))
			for id, want := range c.want {
				if e := found[c.stack+"."+id]; e == nil || !slices.Equal(e.Causes, want) {
					t.Errorf("%s is laid to %+v, want %q", id, e, want)
				}
			}
		})
	}
}
