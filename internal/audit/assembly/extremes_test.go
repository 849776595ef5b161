package assembly

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"cellwall.dev/cellwall/internal/audit"
)

// oneTable audits a core with a table and two shards, whose only resources are given, and wants one finding: the table,
// in both shards.
func oneTable(t *testing.T, ext string, shard func(id string) []byte) {
	t.Helper()
	fsys := fstest.MapFS{"o-c-core.json": {Data: []byte(`{"Resources": {"T": {"Type": "AWS::DynamoDB::Table"}}, "Outputs": {"O": {"Value": {"Ref": "T"}, "Export": {"Name": "table"}}}}`)}}
	for _, id := range []string{"1", "2"} {
		fsys["o-c-shard-"+id+ext] = &fstest.MapFile{Data: shard(id)}
	}
	in, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	r := audit.Run(in, audit.Options{})
	var found []audit.Finding
	for _, f := range r.Findings {
		if f.Level >= audit.Review && !strings.HasPrefix(f.Rule, "QT") {
			found = append(found, f)
		}
	}
	if len(found) != 1 || found[0].Rule != "SD002" || len(found[0].Shards) != 2 {
		t.Errorf("%+v", found)
	}
}

// TestAHundredLevels holds that a reference is found below 100 levels of objects, lists and functions.
func TestAHundredLevels(t *testing.T) {
	for name, level := range map[string][2]string{
		"objects":   {`{"A": `, `}`},
		"lists":     {`[`, `]`},
		"joins":     {`{"Fn::Join": ["", ["x", `, `]]}`},
		"ifs":       {`{"Fn::If": ["C", "x", `, `]}`},
		"subs":      {`{"Fn::Sub": ["${v}", {"v": `, `}]}`},
		"selects":   {`{"Fn::Select": [0, [`, `]]}`},
		"documents": {`{"Fn::Base64": `, `}`},
	} {
		depth := 100
		if n := strings.Count(level[0], "[") + strings.Count(level[0], "{"); n > 1 {
			depth = 200 / n // in levels of JSON, of which there may be 256
		}
		value := strings.Repeat(level[0], depth) + `{"Fn::ImportValue": "table"}` + strings.Repeat(level[1], depth)
		text := `{"Conditions": {"C": {"Fn::Equals": ["a", "b"]}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"X": ` + value + `}}}}`
		for _, ext := range []string{".json", ".yaml"} {
			t.Run(name+ext, func(t *testing.T) { oneTable(t, ext, func(string) []byte { return []byte(text) }) })
		}
	}
}

// TestCycles holds that resources, parameters and conditions that lead in a circle end in the same finding as others.
func TestCycles(t *testing.T) {
	oneTable(t, ".yaml", func(string) []byte {
		return []byte(`
Parameters: {P: {Type: String, Default: "${P}"}}
Conditions: {A: !Or [!Condition B, !Equals [1, 1]], B: !And [!Condition A, !Condition B]}
Resources:
  Self: {Type: AWS::SQS::Queue, DependsOn: Self, Properties: {X: !GetAtt Self.Arn}}
  One: {Type: AWS::SQS::Queue, Condition: A, Properties: {X: !GetAtt Two.Arn}}
  Two: {Type: AWS::SQS::Queue, DependsOn: [One], Properties: {X: !Ref Three}}
  Three: {Type: AWS::SQS::Queue, Properties: {X: [!Sub "${One}", !Ref P, !ImportValue table]}}
Outputs: {Own: {Value: !ImportValue {"Fn::Sub": "${AWS::StackName}-own"}, Export: {Name: !Sub "${AWS::StackName}-own"}}}
`)
	})
}

// TestFiftyMegabytes holds that a template of 50 MB is read and judged: a thousand functions with scripts of 50 kB.
func TestFiftyMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("50 MB of template")
	}
	oneTable(t, ".json", func(id string) []byte {
		var b strings.Builder
		b.WriteString(`{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"X": {"Fn::ImportValue": "table"}}}`)
		if id == "1" {
			script := strings.Repeat("echo a line of a script that is long; test -f /etc/hosts \\n", 850)
			for i := range 1000 {
				fmt.Fprintf(&b, `, "F%d": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 0, "Code": {"ZipFile": "%s"}}}`, i, script)
			}
			b.WriteString("}}")
			if b.Len() < 50e6 || b.Len() > maxFile {
				t.Fatalf("the template has %d bytes", b.Len())
			}
			return []byte(b.String())
		}
		b.WriteString("}}")
		return []byte(b.String())
	})
}
