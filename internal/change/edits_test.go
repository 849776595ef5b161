package change

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/fleet"
)

const fleetText = `service: orders
directory: {account: "111111111111", region: eu-west-1}
auth: {issuer: https://login.example.com/, audience: orders}
shard:
  capacity: 500
  lambda: {asset: dist/worker, memory: 512, reservedConcurrency: 20}
cells:
  - {name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 3}
  - {name: us-1, account: "111111111111", region: us-east-1, zones: [a, b], shards: 3}
`

func edits(t *testing.T, replace ...string) []Edit {
	t.Helper()
	parse := func(text string) *fleet.Fleet {
		f, err := fleet.Parse("fleet.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	next := strings.NewReplacer(replace...).Replace(fleetText)
	if next == fleetText && len(replace) > 0 {
		t.Fatalf("%q changes nothing", replace)
	}
	all, err := Edits(parse(fleetText), parse(next))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEdits(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string
		want    []Edit
	}{
		"nothing":    {nil, []Edit{}},
		"a value":    {[]string{"memory: 512", "memory: 1024"}, []Edit{{Path: "shard.lambda.memory", From: "512", To: "1024"}}},
		"by default": {[]string{"audience: orders}", "audience: orders, claim: tenant}"}, []Edit{{Path: "auth.claim", From: "tenant_id", To: "tenant"}}},
		"a shard more": {[]string{"zones: [a, b], shards: 3}\n  - {name: us-1", "zones: [a, b], shards: 4}\n  - {name: us-1"},
			[]Edit{{Path: "cells[eu-1].shards[s04]", To: "present", Cell: "eu-1"}}},
		"a zone more": {[]string{"us-east-1, zones: [a, b], shards: 3", "us-east-1, zones: [a, b, c], shards: [{id: s01, zone: a}, {id: s02, zone: b}, {id: s03, zone: a}]"},
			[]Edit{{Path: "cells[us-1].zones", From: "[a, b]", To: "[a, b, c]", Cell: "us-1"}}},
		"a cell by another name": {[]string{"us-1", "us-2"}, []Edit{
			{Path: "cells[us-1]", From: "present", Cell: "us-1"}, {Path: "cells[us-2]", To: "present", Cell: "us-2"}}},
		"a part": {[]string{"shard:\n", "shard:\n  bucket: {}\n"}, []Edit{{Path: "shard.bucket", To: "present"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.DeleteFunc(edits(t, c.replace...), func(e Edit) bool {
				return strings.HasPrefix(e.Path, "rollout") // the waves follow the cells
			})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("edits (-want +got):\n%s", d)
			}
		})
	}
}

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
