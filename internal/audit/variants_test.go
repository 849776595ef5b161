package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// variants are variants of one app by name, in the order of the names.
func variants(t *testing.T, sets map[string]stackSet) []audit.Variant {
	t.Helper()
	var out []audit.Variant
	for name, s := range sets {
		out = append(out, audit.Variant{Name: name, Input: s.load(t)})
	}
	slices.SortFunc(out, func(a, b audit.Variant) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// topics is a stack of n resources.
func topics(n int) stackSet {
	s := stackSet{}
	for i := range n {
		s.put("orders-core", fmt.Sprintf("Topic%03d", i), "AWS::SNS::Topic", object{})
	}
	return s
}

// TestTooManyResourcesInOneVariant holds the real case, 504 resources in only one context variant: the finding is fatal
// and names that variant, with the number of that one.
func TestTooManyResourcesInOneVariant(t *testing.T) {
	for name, c := range map[string]struct {
		eu, us         int
		level, says    string
		variants, also string // the variants that it names, and what it says of others
	}{
		"in one":                {380, 504, "fatal", "504 of 500 at most", "out/us", ""},
		"in both":               {501, 504, "fatal", "504 of 500 at most", "", ""},
		"in the other, nearly":  {410, 504, "fatal", "504 of 500 at most", "out/us", "warning in out/eu"},
		"in none":               {380, 380, "", "", "", ""},
		"a warning in both":     {450, 410, "warning", "450 of 500 at most", "", ""},
		"a warning in only one": {450, 380, "warning", "450 of 500 at most", "out/eu", ""},
	} {
		r := audit.RunVariants(variants(t, map[string]stackSet{"out/eu": topics(c.eu), "out/us": topics(c.us)}), audit.Options{})
		var got []audit.Finding
		for _, f := range r.Findings {
			if f.Rule == "QT006" {
				got = append(got, f)
			}
		}
		if c.level == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 {
			t.Fatalf("%s: %d findings: %+v", name, len(got), got)
		}
		f := got[0]
		if f.Level.String() != c.level || !strings.Contains(f.Message, c.says) || strings.Join(f.Variants, " ") != c.variants || !strings.Contains(f.Reason, c.also) {
			t.Errorf("%s: %s %s, in %q, %q", name, f.Level, f.Message, f.Variants, f.Reason)
		}
		if r.AtLeast(audit.Fatal) != r.Summary.Findings["fatal"] || r.Summary.Findings[c.level] != 1 && c.level != "error" {
			t.Errorf("%s: counts %v", name, r.Summary.Findings)
		}
	}
}

// TestVariantsMerge holds that variants are judged apart and reported once: nothing is shared by two variants, what is in
// both is one finding, and waivers and the baseline speak of the app.
func TestVariantsMerge(t *testing.T) {
	// a cell whose shards share a queue, and in one variant a table as well
	cell := func(table bool) stackSet {
		s := stackSet{}
		s.put("shared", "Queue", "AWS::SQS::Queue", object{"QueueName": "all"})
		s.export("shared", "queue", ref("Queue"))
		env := object{"QUEUE_URL": imported("queue")}
		if table {
			s.put("shared", "Table", "AWS::DynamoDB::Table", object{"TableName": "all"})
			s.export("shared", "table", ref("Table"))
			env["TABLE_NAME"] = imported("table")
		}
		for _, sh := range []string{"s01", "s02"} {
			s.put(shardStackName(sh), "Worker", "AWS::Lambda::Function", object{"Environment": object{"Variables": env}, "ReservedConcurrentExecutions": 10})
		}
		return s
	}
	vs := variants(t, map[string]stackSet{"a": cell(false), "b": cell(true)})
	at := func(r audit.Report, rule string) *audit.Finding {
		t.Helper()
		var found *audit.Finding
		for i := range r.Findings {
			if r.Findings[i].Rule == rule {
				if found != nil {
					t.Errorf("two of %s", rule)
				}
				found = &r.Findings[i]
			}
		}
		return found
	}
	r := audit.RunVariants(vs, audit.Options{})
	queue, table := at(r, "SD003"), at(r, "SD002")
	if queue == nil || table == nil {
		t.Fatalf("%+v", r.Findings)
	}
	if queue.Variants != nil || len(queue.Shards) != 2 || queue.Resource.File != "a/shared.template.json" || queue.Paths[0].File != "a/"+shardStackName("s01")+".template.json" {
		t.Errorf("the queue: %+v %+v", queue, queue.Resource)
	}
	if !slices.Equal(table.Variants, []string{"b"}) || table.Resource.File != "b/shared.template.json" {
		t.Errorf("the table: %+v %+v", table, table.Resource)
	}
	if r.Summary.Findings["error"] != 2 || r.AtLeast(audit.Error) != 2 || len(r.Summary.Shards) != 2 || r.Summary.Stacks != 6 || len(r.Pools) != 1 || r.Pools[0].Variants != nil {
		t.Errorf("%+v %+v", r.Summary, r.Pools)
	}
	if want := (audit.VariantRead{Name: "a", Stacks: 3, Resources: 3, References: r.Variants[0].References, Shards: 2}); len(r.Variants) != 2 || r.Variants[0] != want {
		t.Errorf("%+v", r.Variants)
	}
	single := audit.Run(vs[1].Input, audit.Options{})
	if f := at(single, "SD002"); f.Fingerprint != table.Fingerprint || single.Variants != nil || f.Variants != nil {
		t.Errorf("alone it is %+v", f)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "only   in b\n") || !strings.Contains(text.String(), "\n2 variants, 6 stacks, 7 resources, 2 shards in 1 cell: 0 fatal, 2 error") {
		t.Errorf("%v\n%s", err, text.String())
	}

	waivers := []audit.Waiver{{Rule: "SD002", Resource: "all", Reason: "r", Expires: day("2027-01-01"), File: "w.yaml", Line: 1},
		{Rule: "SD008", Resource: "none", Reason: "r", Expires: day("2027-01-01"), File: "w.yaml", Line: 2}}
	waived := audit.RunVariants(vs, audit.Options{Waivers: waivers, Today: day("2026-06-01")})
	if f := at(waived, "SD002"); f.Suppressed == nil || waived.Summary.Suppressed != 1 || waived.AtLeast(audit.Error) != 1 {
		t.Errorf("%+v", waived.Findings)
	}
	if f := at(waived, "WV002"); f == nil || f.Resource.File != "w.yaml" || f.Variants != nil {
		t.Errorf("the unused waiver: %+v", f)
	}

	former, err := json.Marshal(audit.RunVariants(vs[:1], audit.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	baseline, err := audit.ReadBaseline(former)
	if err != nil {
		t.Fatal(err)
	}
	if r := audit.RunVariants(vs, audit.Options{Baseline: baseline}); at(r, "SD003").Suppressed == nil || at(r, "SD002").Suppressed != nil || r.AtLeast(audit.Error) != 1 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestVariantAcknowledgements holds that an acknowledgement that several variants have is one, and that one of a single
// variant is not unused since the others lack it.
func TestVariantAcknowledgements(t *testing.T) {
	build := func(role bool) stackSet {
		s := stackSet{}
		s.put("shared", "Queue", "AWS::SQS::Queue", object{"QueueName": "all"})
		s.section("shared", "Resources")["Queue"].(object)["Metadata"] = object{"aws:cdk:acknowledged-rules": object{"cellwall::SD003": "moves, expires 2027-03-31"}}
		s.export("shared", "queue", ref("Queue"))
		if role {
			s.put("shared", "Alone", "AWS::SQS::Queue", object{})
			s.section("shared", "Resources")["Alone"].(object)["Metadata"] = object{"aws:cdk:acknowledged-rules": object{"cellwall::SD003": "nothing, expires 2027-03-31"}}
		}
		for _, sh := range []string{"s01", "s02"} {
			s.put(shardStackName(sh), "Worker", "AWS::Lambda::Function", object{"Environment": object{"Variables": object{"QUEUE_URL": imported("queue")}}})
		}
		return s
	}
	r := audit.RunVariants(variants(t, map[string]stackSet{"a": build(false), "b": build(true)}), audit.Options{Today: day("2026-06-01")})
	var unused []string
	for _, f := range r.Findings {
		switch f.Rule {
		case "SD003":
			if f.Suppressed == nil || f.Suppressed.Kind != audit.ByAcknowledgement {
				t.Errorf("%+v", f)
			}
		case "WV002":
			unused = append(unused, f.Resource.File+" "+f.Resource.LogicalID)
		}
	}
	if want := []string{"b/shared.template.json Alone"}; !slices.Equal(unused, want) || r.Summary.Suppressed != 1 {
		t.Errorf("unused %q, want %q; %+v", unused, want, r.Summary)
	}
}
