package assembly

import (
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

func TestReadMapping(t *testing.T) {
	rules, err := ReadMapping("m.yaml", []byte(`shards:
  - stack: 'orders-(?P<cell>[a-z0-9-]+)-shard-(?P<shard>\d+)' # by name
  - {tag: team:shard, value: '(?P<shard>\d+)'}
  - {tag: node}
  - path: 'Prod/(?P<cell>\w+)'
  - {account: "111111111111", cell: canary}
  - {region: eu-.*, cell: eu, service: orders}
`))
	if err != nil || len(rules) != 6 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	in := audit.Input{Stacks: []audit.Stack{{Name: "orders-eu-1-shard-7", Account: "111111111111", Region: "eu-west-1", Tags: map[string]string{"node": "9"}}}}
	r := audit.Run(in, audit.Options{Mapping: rules})
	for i, want := range []int{1, 0, 1, 0, 1, 1} {
		if r.Mapping[i].Stacks != want || !strings.HasPrefix(r.Mapping[i].Rule, "m.yaml:") {
			t.Errorf("rule %d: %+v, want %d stacks", i, r.Mapping[i], want)
		}
	}
}

func TestReadMappingRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "m.yaml: a mapping file is a list",
		"[":                                  "m.yaml: not YAML",
		"shards: {}":                         "a mapping file is a list",
		"shards: []":                         "a mapping file is a list",
		"rules: []":                          "a mapping file is a list",
		"shards:\n  - 1":                     "m.yaml:2:5: a rule is keys and values",
		"shards:\n  - {stak: x}":             `m.yaml:2:5: unknown key "stak"`,
		"shards:\n  - {stack: x, path: y}":   "looks at one thing",
		"shards:\n  - {cell: x}":             "says nothing of what it looks at",
		"shards:\n  - {stack: x, value: y}":  "only a tag has a value",
		"shards:\n  - {stack: x}":            "says neither cell nor shard",
		"shards:\n  - {stack: x, stack: y}":  "stands twice",
		"shards:\n  - {stack: [x]}":          `"stack" wants a text`,
		"shards:\n  - {stack: '(', cell: a}": "is no regular expression",
		"shards: &a [*a]":                    "m.yaml",
		"shards:\n  - {stack: x, cell: c}\nmore: 1": "a mapping file is a list",
	} {
		if _, err := ReadMapping("m.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := ReadMapping("m.yaml", []byte("shards:\n  - {stack: x}\n  - {x: y}\n"))
	if err == nil || !strings.Contains(err.Error(), "m.yaml:2") || !strings.Contains(err.Error(), "m.yaml:3") {
		t.Errorf("not all faults at once: %v", err)
	}
}
