package change

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
