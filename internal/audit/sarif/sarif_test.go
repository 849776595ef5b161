package sarif_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
	"cellwall.dev/cellwall/internal/audit/sarif"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// log is as much of a SARIF log as the tests look at.
type log struct {
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct{ Rules []struct{ ID string } }
		}
		Results []struct {
			RuleID              string
			RuleIndex           int
			Kind, Level         string
			Message             struct{ Text string }
			Locations           []place
			RelatedLocations    []place
			PartialFingerprints map[string]string
			Suppressions        []struct {
				Kind, Justification string
				Properties          map[string]string
			}
		}
	}
}

type place struct {
	PhysicalLocation struct {
		ArtifactLocation struct{ URI string }
		Region           struct{ StartLine int }
	}
	LogicalLocations []struct{ Name, FullyQualifiedName string }
	Message          struct{ Text string }
}

func write(t *testing.T, s *jsonschema.Schema, r *audit.Report, opt sarif.Options) (log, string) {
	t.Helper()
	var b bytes.Buffer
	if err := sarif.Write(&b, r, opt); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Fatalf("not valid: %v", err)
	}
	var l log
	if err := json.Unmarshal(b.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	return l, b.String()
}

func load(t *testing.T, dir string) audit.Input {
	t.Helper()
	in, err := assembly.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestComplete writes the report of each fixture.
func TestComplete(t *testing.T) {
	s := schema(t)
	entries, err := os.ReadDir("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "fuzz" {
			continue
		}
		done++
		dir := filepath.Join("../testdata", e.Name())
		r := audit.Run(load(t, dir), audit.Options{})
		l, _ := write(t, s, &r, sarif.Options{Version: "1", Dir: "cdk.out"})
		run := l.Runs[0]
		if l.Version != "2.1.0" || len(l.Runs) != 1 || len(run.Results) != len(r.Findings) || len(run.Tool.Driver.Rules) != len(audit.Rules()) {
			t.Fatalf("%s: %d results of %d findings", dir, len(run.Results), len(r.Findings))
		}
		for i, res := range run.Results {
			f := r.Findings[i]
			if res.RuleID != f.Rule || run.Tool.Driver.Rules[res.RuleIndex].ID != f.Rule || res.PartialFingerprints[sarif.FingerprintName] != f.Fingerprint ||
				len(res.RelatedLocations) != len(f.Shards) || (f.Level <= audit.Review) != (res.Level == "none") || (res.Kind == "fail") != (f.Level >= audit.Warning) {
				t.Errorf("%s: %+v of %+v", dir, res, f)
			}
			if len(res.Locations) != 1 || res.Locations[0].PhysicalLocation.ArtifactLocation.URI == "" {
				t.Errorf("%s: %s stands nowhere: code hosts refuse the log", dir, f.Rule)
			}
			for k, at := range res.RelatedLocations {
				if at.LogicalLocations[0].Name != f.Shards[k].String() || at.PhysicalLocation.ArtifactLocation.URI == "" || at.Message.Text != f.Paths[k].Text() {
					t.Errorf("%s: shard %s at %+v", dir, f.Shards[k], at)
				}
			}
		}
	}
	if done == 0 {
		t.Fatal("no fixtures")
	}
}

// TestStable holds that another logical id changes no fingerprint, through the whole of the writer.
func TestStable(t *testing.T) {
	s := schema(t)
	prints := func(id string) []string {
		in := load(t, "../testdata/core-rule")
		for i := range in.Stacks {
			for j := range in.Stacks[i].Template.Resources {
				r := &in.Stacks[i].Template.Resources[j]
				if r.Type == "AWS::ElasticLoadBalancingV2::LoadBalancer" {
					in.Stacks[i].Paths = map[string]string{r.ID: "eu-1/core/" + id + "/Resource"}
				}
			}
		}
		r := audit.Run(in, audit.Options{})
		l, _ := write(t, s, &r, sarif.Options{})
		var out []string
		for _, res := range l.Runs[0].Results {
			out = append(out, res.PartialFingerprints[sarif.FingerprintName])
		}
		return out
	}
	if a, b := prints("Alb"), prints("Alb"); fmt.Sprint(a) != fmt.Sprint(b) || len(a) == 0 {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := prints("Alb"), prints("Other"); a[0] == b[0] {
		t.Errorf("two load balancers are one: %q", a)
	}
}

// TestQuiet holds that a result says what suppresses it, and where it stands.
func TestQuiet(t *testing.T) {
	r := audit.Run(load(t, "../testdata/core-rule"), audit.Options{Waivers: []audit.Waiver{
		{Rule: "SD001", Resource: "*", Reason: "until the split", Expires: time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)},
		{Rule: "SD002", Resource: "nothing", Reason: "r", Expires: time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC), File: "waivers.yaml", Line: 7}}})
	l, _ := write(t, schema(t), &r, sarif.Options{Dir: "cdk out", Line: func(file, id string) int { return 40 + len(id) }})
	suppressed, unused := 0, 0
	for i, res := range l.Runs[0].Results {
		if len(res.Suppressions) == 1 {
			suppressed++
			at := res.Locations[0].PhysicalLocation
			if s := res.Suppressions[0]; s.Kind != "external" || s.Justification != "until the split" || s.Properties["expires"] != "2027-03-31" {
				t.Errorf("%+v", s)
			}
			if !strings.HasPrefix(at.ArtifactLocation.URI, "cdk%20out/") || at.Region.StartLine != 40+len(r.Findings[i].Resource.LogicalID) {
				t.Errorf("%+v", at)
			}
		}
		if res.RuleID == "WV002" {
			unused++
			if at := res.Locations[0].PhysicalLocation; at.ArtifactLocation.URI != "waivers.yaml" || at.Region.StartLine != 7 {
				t.Errorf("%+v", at)
			}
		}
	}
	if suppressed != 1 || unused != 1 {
		t.Errorf("%d suppressed, %d unused", suppressed, unused)
	}
}

// TestValid holds that nothing of a template becomes a link, a control character or an invalid log.
func TestValid(t *testing.T) {
	evil := "\x1b[2J\n</script><b>[click](https://evil.example){0}\u202e\xff" + strings.Repeat("x", 1<<16)
	sh := []audit.Shard{{Service: evil, Cell: evil, ID: evil}, {ID: "%2e"}}
	var many []audit.Shard
	for i := range 3000 {
		many = append(many, audit.Shard{Cell: "c", ID: fmt.Sprint(i)})
	}
	step := audit.Step{Kind: "resource", Stack: evil, LogicalID: evil, Type: evil, Name: evil, How: evil, At: evil}
	res := &audit.Resource{File: "../a b:" + evil, Stack: evil, LogicalID: evil, Type: evil, Name: evil, Path: evil}
	r := audit.Report{Summary: audit.Summary{Shards: sh}, Findings: []audit.Finding{
		{Rule: "SD001", Level: audit.Fatal, Message: evil, Resource: res, Shards: sh, Paths: []audit.Path{{Shard: sh[0], File: evil, Steps: []audit.Step{step, step}}},
			Reason: evil, Fix: evil, Limit: &audit.Limit{Name: evil}, Suppressed: &audit.Suppression{Kind: evil, Reason: evil, Expires: evil}},
		{Rule: "SD002", Level: audit.Error, Message: "m", Shards: many, Resource: &audit.Resource{Name: "arn"}},
	}}
	l, text := write(t, schema(t), &r, sarif.Options{Dir: "/abs"})
	if at := l.Runs[0].Results[1].Locations[0]; at.PhysicalLocation.ArtifactLocation.URI != "file:///abs" || at.LogicalLocations[0].Name != "arn" {
		t.Errorf("what is of no file stands at %+v", at)
	}
	for _, res := range l.Runs[0].Results {
		if len(res.RelatedLocations) > 1000 {
			t.Errorf("%d related locations", len(res.RelatedLocations))
		}
		if strings.Contains(res.Message.Text, "](") || strings.ContainsAny(res.Message.Text, "\x1b\n\u202e") || len(res.Message.Text) > 9000 {
			t.Errorf("%.200q", res.Message.Text)
		}
	}
	if strings.Contains(text, "</script>") {
		t.Error("the log can end a script")
	}
}
