package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

func written(t *testing.T, r *audit.Report, title string) (string, *html.Node) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, title); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), doc
}

// all are the elements of a name.
func all(n *html.Node, name string) []*html.Node {
	var out []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			out = append(out, d)
		}
	}
	return out
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func inner(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func fixture(t *testing.T, name string) audit.Report {
	t.Helper()
	in, err := assembly.Load(os.DirFS("../testdata/" + name))
	if err != nil {
		t.Fatal(err)
	}
	return audit.Run(in, audit.Options{})
}

// hostile is a report whose every text tries to leave its place.
func hostile() audit.Report {
	evil := "\x1b[2J\n</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onclick='alert(3)' {{.}} <!-- \u202e\u2028\xff javascript:alert(4)" + strings.Repeat("x", 1<<20)
	sh := []audit.Shard{{Service: evil, Cell: evil, ID: evil}, {Service: evil, Cell: "c", ID: "2"}}
	step := audit.Step{Kind: "resource", Stack: evil, LogicalID: evil, Type: evil, Name: evil, How: evil, At: evil}
	res := &audit.Resource{File: evil, Stack: evil, LogicalID: evil, Type: evil, Name: evil, Path: evil}
	var paths []audit.Path
	for _, s := range sh {
		paths = append(paths, audit.Path{Shard: s, File: evil, Steps: []audit.Step{step, step}})
	}
	f := audit.Finding{Rule: "SD001", Level: audit.Error, Message: evil, Resource: res, Shards: sh, Paths: paths, Reason: evil, Fix: evil,
		Limit: &audit.Limit{Name: evil, Quota: evil}, Fingerprint: evil[:32], Hits: &audit.Hits{Shards: 2, Of: 2, Cells: 2, Tenants: new(0.5), Lost: new(0.25)}}
	g := f
	g.Suppressed = &audit.Suppression{Kind: evil, Reason: evil, Expires: evil}
	return audit.Report{Summary: audit.Summary{Shards: sh, Findings: map[string]int{}}, Findings: []audit.Finding{f, g}, Skipped: []string{evil},
		Pools: []audit.Pool{{Account: evil, Region: evil}}}
}

// large has more of everything than one page shows.
func large() audit.Report {
	r := audit.Report{Summary: audit.Summary{Findings: map[string]int{"error": 1}}}
	for c := range 10 {
		for s := range 40 {
			r.Summary.Shards = append(r.Summary.Shards, audit.Shard{Cell: fmt.Sprintf("c%d", c), ID: fmt.Sprintf("s%02d", s)})
		}
	}
	steps := make([]audit.Step, 100)
	for i := range 700 {
		f := audit.Finding{Rule: "SD002", Level: audit.Error, Message: "m", Resource: &audit.Resource{Name: fmt.Sprint("t", i), Type: "T"}, Shards: r.Summary.Shards}
		for _, s := range f.Shards {
			f.Paths = append(f.Paths, audit.Path{Shard: s, Steps: steps})
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

// TestSelfContained holds that nothing on the page leads outside, and that the policy allows exactly the
// style and the script that stand there.
func TestSelfContained(t *testing.T) {
	for _, name := range []string{"core-rule", "concurrency", "hostile", "large"} {
		r := audit.Report{}
		switch name {
		case "hostile":
			r = hostile()
		case "large":
			r = large()
		default:
			r = fixture(t, name)
		}
		_, doc := written(t, &r, name)
		policy := ""
		for _, m := range all(doc, "meta") {
			if attr(m, "http-equiv") == "Content-Security-Policy" {
				policy = attr(m, "content")
			}
		}
		styles, scripts := all(doc, "style"), all(doc, "script")
		if len(styles) != 1 || len(scripts) != 2 {
			t.Fatalf("%s: %d styles and %d scripts", name, len(styles), len(scripts))
		}
		want := "default-src 'none'; style-src " + hash(inner(styles[0])) + "; script-src " + hash(inner(scripts[1])) + "; base-uri 'none'; form-action 'none'"
		if policy != want {
			t.Errorf("%s: policy %s, want %s", name, policy, want)
		}
		var paths []path
		if err := json.Unmarshal([]byte(inner(scripts[0])), &paths); err != nil || attr(scripts[0], "type") != "application/json" {
			t.Errorf("%s: the paths are no data: %v", name, err)
		}
		for d := range doc.Descendants() {
			for _, a := range d.Attr {
				if (a.Key == "href" && !strings.HasPrefix(a.Val, "#")) || a.Key == "src" || a.Key == "style" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: %s has %s=%.80q", name, d.Data, a.Key, a.Val)
				}
			}
		}
	}
}

// TestHarmless holds that a template's texts make no element and no control character.
func TestHarmless(t *testing.T) {
	r := hostile()
	text, doc := written(t, &r, r.Findings[0].Message)
	if n := len(all(doc, "img")); n > 0 {
		t.Errorf("%d images of a template", n)
	}
	if bad := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2028\u2029]").FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	if !strings.Contains(inner(doc), "50 % of the tenants there have one of them, 25 % have no other") {
		t.Error("the page does not say how many tenants it reaches")
	}
	if len(text) > 200_000 {
		t.Errorf("%d bytes for two findings", len(text))
	}
}

func TestBounded(t *testing.T) {
	r := large()
	text, doc := written(t, &r, "large")
	rows, columns, buttons := 0, 0, 0
	for _, th := range all(doc, "th") {
		if attr(th, "scope") == "row" {
			rows++
		}
		if strings.HasPrefix(attr(th, "class"), "shard") {
			columns++
		}
	}
	for _, b := range all(doc, "button") {
		if attr(b, "data-path") != "" {
			buttons++
		}
	}
	if rows > maxRows || columns > maxColumns || columns < maxColumns-10 || buttons != maxPaths || len(all(doc, "details")) != maxListed || len(text) > 40<<20 {
		t.Errorf("%d rows, %d columns, %d paths, %d findings, %d bytes", rows, columns, buttons, len(all(doc, "details")), len(text))
	}
	for _, want := range []string{"200 findings of 700", "310 shards of 400", "300 rows of the table"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say that %s are left out", want)
		}
	}
}

// TestReadable holds that what was found can be read without the script: each finding's rule and message,
// each dependent shard, each path of the first three, and a mark for each that leads to its own path.
func TestReadable(t *testing.T) {
	r := fixture(t, "core-rule")
	text, doc := written(t, &r, "core-rule")
	var paths []path
	if err := json.Unmarshal([]byte(inner(all(doc, "script")[0])), &paths); err != nil {
		t.Fatal(err)
	}
	plain := inner(doc)
	marks := 0
	for i, f := range r.Findings {
		if !strings.Contains(plain, f.Rule) || !strings.Contains(plain, f.Message) || !strings.Contains(text, `id="f`+fmt.Sprint(i)+`"`) {
			t.Errorf("%s is not on the page", f.Message)
		}
		if len(f.Shards) > 1 {
			marks += len(f.Paths)
		}
		for k, p := range f.Paths {
			if k < 3 && !strings.Contains(plain, p.Text()) {
				t.Errorf("the path %s is not on the page", p.Text())
			}
		}
	}
	seen := 0
	for _, b := range all(doc, "button") {
		at := attr(b, "data-path")
		if at == "" {
			continue
		}
		var i int
		if _, err := fmt.Sscan(at, &i); err != nil || i >= len(paths) || !strings.Contains(attr(b, "aria-label"), "path of shard "+paths[i].Shard+" to ") {
			t.Errorf("mark %q is called %q", at, attr(b, "aria-label"))
		}
		seen++
	}
	if seen != marks || marks == 0 {
		t.Errorf("%d marks for %d paths", seen, marks)
	}
}

// TestVerdict holds that only what several shards depend on is called a hole: a limit that is passed is none.
func TestVerdict(t *testing.T) {
	two := []audit.Shard{{Cell: "c", ID: "1"}, {Cell: "c", ID: "2"}}
	hole := audit.Finding{Rule: "SD002", Level: audit.Error, Shards: two}
	limit := audit.Finding{Rule: "QT002", Level: audit.Fatal, Limit: &audit.Limit{Name: "n", Used: 1, Most: 9, Max: 5}}
	waived := hole
	waived.Suppressed = &audit.Suppression{Kind: audit.ByWaiver}
	for want, fs := range map[string][]audit.Finding{
		"1 hole in the wall: what stands in a red row takes every marked shard with it.<":                                       {hole, waived},
		"1 hole in the wall: what stands in a red row takes every marked shard with it. Besides, 1 finding at or above error.<": {hole, limit},
		"No hole in the wall, but 1 finding at or above error.<":                                                                {limit, waived},
		"No hole in the wall.<": {waived},
	} {
		r := audit.Report{Summary: audit.Summary{Shards: two}, Findings: fs}
		text, _ := written(t, &r, "")
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said", want)
		}
		if strings.Contains(want, "finding") && !strings.Contains(text, "1 to 9 of 5") {
			t.Error("the range of what is used is not said")
		}
	}
}

// TestEmpty writes a page of a report of nothing.
func TestEmpty(t *testing.T) {
	r := audit.Report{}
	text, _ := written(t, &r, "")
	if !strings.Contains(text, "Not judged: no stack or resource says") || !strings.Contains(text, "Nothing was found.") {
		t.Error(text)
	}
}
