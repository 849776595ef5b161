package audit_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

// bare audits files that are no assembly.
func bare(t *testing.T, files map[string]string) audit.Report {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	in, err := assembly.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return audit.Run(in, audit.Options{})
}

// TestNestedBareTemplates holds that templates which name each other by path are one stack in another,
// and that values pass between them both ways.
func TestNestedBareTemplates(t *testing.T) {
	const nest = "  %s:\n    Type: AWS::CloudFormation::Stack\n    Properties: {TemplateURL: %s, Parameters: {%s}}\n"
	const child = "Parameters: {Table: {Type: String}}\nResources:\n  F: {Type: AWS::Lambda::Function, Properties: {Environment: {Variables: {T: !Ref Table}}}}\n"
	t.Run("one child of two shards", func(t *testing.T) {
		r := bare(t, map[string]string{
			"svc-c1-shard-s01.yaml": "Resources:\n" + fmt.Sprintf(nest, "N", "./parts/child.yaml", "Table: !ImportValue tbl"),
			"svc-c1-shard-s02.yaml": "Resources:\n" + fmt.Sprintf(nest, "N", "parts/child.yaml", "Table: !ImportValue tbl"),
			"parts/child.yaml":      child,
			"core.yaml":             "Resources: {Tb: {Type: AWS::DynamoDB::Table}}\nOutputs: {O: {Value: !Ref Tb, Export: {Name: tbl}}}\n",
		})
		if len(r.Findings) != 1 || r.Findings[0].Rule != "SD002" || r.Summary.Stacks != 5 {
			t.Errorf("%d stacks, %+v", r.Summary.Stacks, r.Findings)
		}
	})
	t.Run("two shards of one parent", func(t *testing.T) {
		r := bare(t, map[string]string{
			"root.yaml": "Resources:\n  Tb: {Type: AWS::DynamoDB::Table}\n" + fmt.Sprintf(nest, "S1", "svc-c1-shard-s01.yaml", "Table: !Ref Tb") +
				fmt.Sprintf(nest, "S2", "svc-c1-shard-s02.yaml", "Table: !Ref Tb"),
			"svc-c1-shard-s01.yaml": child, "svc-c1-shard-s02.yaml": child,
		})
		if len(r.Summary.Shards) != 2 || levelOf(r, "SD002") != "error" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a child's output", func(t *testing.T) {
		files := map[string]string{"core-part.yaml": "Resources: {Tb: {Type: AWS::DynamoDB::Table}}\nOutputs: {O: {Value: !Ref Tb}}\n",
			"root.yaml": "Resources:\n" + fmt.Sprintf(nest, "C", "core-part.yaml", "")}
		for _, s := range []string{"svc-c1-shard-s01", "svc-c1-shard-s02"} {
			files[s+".yaml"] = child
			files["root.yaml"] += fmt.Sprintf(nest, "S"+s[len(s)-1:], s+".yaml", "Table: !GetAtt C.Outputs.O")
		}
		if r := bare(t, files); levelOf(r, "SD002") != "error" {
			t.Errorf("%+v", r.Findings)
		}
	})
	for passed, want := range map[string]struct {
		reserved, unknown int
	}{"P: 950": {950, 0}, "P: !Ref Given": {970, 0}, "P: !Ref Open": {0, 1}, "": {1, 0}} {
		t.Run("a reservation of "+passed, func(t *testing.T) {
			r := bare(t, map[string]string{
				"root.yaml":  "Parameters: {Given: {Type: Number, Default: 970}, Open: {Type: Number}}\nResources:\n" + fmt.Sprintf(nest, "N", "child.yaml", passed),
				"child.yaml": "Parameters: {P: {Type: Number, Default: 1}}\nResources:\n  F: {Type: AWS::Lambda::Function, Properties: {ReservedConcurrentExecutions: !Ref P}}\n",
			})
			if len(r.Pools) != 1 || r.Pools[0].Reserved != want.reserved || r.Pools[0].Unknown != want.unknown {
				t.Errorf("pools %+v, want %+v", r.Pools, want)
			}
		})
	}
}
