package audit

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedRules holds docs/audit.md to the rules of the code, in both directions.
func TestDocumentedRules(t *testing.T) {
	data, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	ids := map[string]bool{}
	for _, r := range rules {
		if ids[r.id] {
			t.Errorf("two rules %s", r.id)
		}
		ids[r.id] = true
		if !strings.Contains(doc, fmt.Sprintf("\n| %s | %s | ", r.id, r.level)) {
			t.Errorf("docs/audit.md has no line for %s at level %s", r.id, r.level)
		}
		if r.noun == "" || r.fix == "" {
			t.Errorf("%s has no words", r.id)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}\d{3}) \|`).FindAllStringSubmatch(doc, -1) {
		if !ids[m[1]] {
			t.Errorf("docs/audit.md documents %s, which is no rule", m[1])
		}
	}
	for typ, tr := range stateful {
		if _, twice := known[typ]; twice || tr.rule.level != Error || !ids[tr.rule.id] {
			t.Errorf("%s is on a data path and stands in known as well, or is judged by %s at %s", typ, tr.rule.id, tr.rule.level)
		}
	}
	for typ, made := range transformed {
		if traitsOf(typ).rule != known[made].rule || known[made].rule == nil {
			t.Errorf("%s is not judged as %s, which it becomes", typ, made)
		}
	}
	for typ, tr := range known {
		if !ids[tr.rule.id] {
			t.Errorf("the rule of %s, %s, is not in the list of rules", typ, tr.rule.id)
		}
	}
}

// TestCatalogIsConsistent checks that the tables about types speak of each other's types.
func TestCatalogIsConsistent(t *testing.T) {
	for typ := range joints {
		if len(attachments[typ]) == 0 {
			t.Errorf("%s is a joint that attaches to nothing", typ)
		}
	}
	for _, f := range arnForms {
		if _, ok := known[f.typ]; !ok {
			t.Errorf("%s has an ARN form but no traits", f.typ)
		}
	}
	for prefix, typ := range idPrefixes {
		if _, ok := known[typ]; !ok {
			t.Errorf("%s- is an id of %s, which has no traits", prefix, typ)
		}
	}
}
