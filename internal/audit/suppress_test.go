package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/audit/assembly"
)

func day(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

// sharedTable is n shards whose functions use one table that the core stack has under this logical id.
func sharedTable(id, name string, n int) stackSet {
	s := stackSet{}
	properties := object{}
	if name != "" {
		properties["TableName"] = name
	}
	s.put(core, id, "AWS::DynamoDB::Table", properties)
	s.section(core, "Outputs")["T"] = object{"Value": object{"Ref": id}, "Export": object{"Name": "table"}}
	for i := range n {
		s.put(shardStackName(fmt.Sprintf("s%02d", i+1)), "Worker", "AWS::Lambda::Function",
			object{"Environment": object{"Variables": object{"TABLE_NAME": object{"Fn::ImportValue": "table"}}}})
	}
	return s
}

// atPath gives the core stack's resource a construct path, as an assembly does.
func atPath(in audit.Input, id, path string) audit.Input {
	for i := range in.Stacks {
		if in.Stacks[i].Name == core {
			in.Stacks[i].Paths = map[string]string{id: path}
		}
	}
	return in
}

func only(t *testing.T, r audit.Report, rule string) audit.Finding {
	t.Helper()
	var found []audit.Finding
	for _, f := range r.Findings {
		if f.Rule == rule {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d findings of %s: %+v", len(found), rule, r.Findings)
	}
	return found[0]
}

// TestFingerprint holds what a fingerprint survives and what it does not.
func TestFingerprint(t *testing.T) {
	print := func(id, name, path string, n int) string {
		in := sharedTable(id, name, n).load(t)
		if path != "" {
			in = atPath(in, id, path)
		}
		return only(t, audit.Run(in, audit.Options{}), "SD002").Fingerprint
	}
	path := "eu-1/core/Store/Table/Resource"
	base := print("Store1", "all", path, 3)
	if len(base) != 32 {
		t.Errorf("%q has no 32 digits", base)
	}
	for what, c := range map[string]struct {
		a, b string
		same bool
	}{
		"another logical id, by path":    {base, print("Renamed", "all", path, 3), true},
		"another name, by path":          {base, print("Store1", "other", path, 3), true},
		"another path":                   {base, print("Store1", "all", path+"2", 3), false},
		"another shard":                  {base, print("Store1", "all", path, 4), false},
		"another logical id, by name":    {print("A", "all", "", 3), print("B", "all", "", 3), true},
		"another name":                   {print("A", "all", "", 3), print("A", "one", "", 3), false},
		"another logical id, by type":    {print("A", "", "", 3), print("B", "", "", 3), true},
		"another shard, by type":         {print("A", "", "", 3), print("A", "", "", 2), false},
		"the same again is the same one": {base, print("Store1", "all", path, 3), true},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: %s and %s, want same %v", what, c.a, c.b, c.same)
		}
	}
}

// TestWaivers holds what each kind of waiver does on its days, and what is said of those that do nothing.
func TestWaivers(t *testing.T) {
	in := atPath(sharedTable("Store", "all", 3).load(t), "Store", "eu-1/core/Store")
	fingerprint := only(t, audit.Run(in, audit.Options{}), "SD002").Fingerprint
	end := day("2027-03-31")
	w := func(resource string) audit.Waiver {
		return audit.Waiver{Rule: "SD002", Resource: resource, Reason: "moves", Expires: end, File: "w.yaml", Line: 2}
	}
	byPrint := w("")
	byPrint.Fingerprint = fingerprint
	other := w("")
	other.Fingerprint = strings.Repeat("0", 32)
	wrongRule := w("all")
	wrongRule.Rule = "SD001"
	for _, c := range []struct {
		name   string
		waiver audit.Waiver
		today  string
		held   bool
		also   string // rule and level of the finding about the waiver
	}{
		{"by path", w("eu-1/core/*"), "2027-01-01", true, ""},
		{"by name", w("a*l"), "2027-03-31", true, ""},
		{"by stack and logical id", w(core + "/Store"), "2027-01-01", true, ""},
		{"by fingerprint", byPrint, "2027-01-01", true, ""},
		{"on the day after", w("all"), "2027-04-01", false, "WV001 error"},
		{"of nothing", w("eu-2/*"), "2027-01-01", false, "WV002 warning"},
		{"of nothing, and expired", w("eu-2/*"), "2028-01-01", false, "WV002 warning"},
		{"of another finding", other, "2027-01-01", false, "WV002 warning"},
		{"of another rule", wrongRule, "2027-01-01", false, "WV002 warning"},
	} {
		r := audit.Run(in, audit.Options{Waivers: []audit.Waiver{c.waiver}, Today: day(c.today)})
		f := only(t, r, "SD002")
		if held := f.Suppressed != nil; held != c.held {
			t.Errorf("%s: suppressed %v", c.name, f.Suppressed)
		}
		if c.held && (*f.Suppressed != audit.Suppression{Kind: audit.ByWaiver, Reason: "moves", Expires: "2027-03-31"} || r.AtLeast(audit.Error) != 0 || r.Summary.Findings["error"] != 0 || r.Summary.Suppressed != 1) {
			t.Errorf("%s: %+v, %+v", c.name, f.Suppressed, r.Summary)
		}
		also := ""
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Rule, "WV") {
				also += f.Rule + " " + f.Level.String()
				if f.Resource.File != "w.yaml" || f.Resource.Line != 2 {
					t.Errorf("%s: %+v stands nowhere", c.name, f.Resource)
				}
			}
		}
		if also != c.also {
			t.Errorf("%s: %q, want %q", c.name, also, c.also)
		}
	}
}

// TestRenewedWaiver holds that an expired waiver fails nothing once another one covers what it waived, whichever of
// them stands first, and that it is still said.
func TestRenewedWaiver(t *testing.T) {
	in := sharedTable("Store", "all", 3).load(t)
	old := audit.Waiver{Rule: "SD002", Resource: "all", Reason: "old", Expires: day("2026-01-01")}
	renewed := audit.Waiver{Rule: "SD002", Resource: "al*", Reason: "new", Expires: day("2027-01-01")}
	for _, ws := range [][]audit.Waiver{{old, renewed}, {renewed, old}} {
		r := audit.Run(in, audit.Options{Waivers: ws, Today: day("2026-11-30")})
		if f := only(t, r, "WV001"); f.Level != audit.Warning || !strings.Contains(f.Message, "others waive now") || r.AtLeast(audit.Error) != 0 {
			t.Errorf("%+v", f)
		}
		if f := only(t, r, "SD002"); f.Suppressed == nil || f.Suppressed.Reason != "new" {
			t.Errorf("%+v", f.Suppressed)
		}
	}
}

// TestExpiredWaiverOfAWarning is no error.
func TestExpiredWaiverOfAWarning(t *testing.T) {
	s := stackSet{}
	for _, sh := range threeShards {
		s.put(shardStackName(sh), "F", "AWS::Lambda::Function", object{"Role": "arn:aws:iam::111111111111:role/everyone"})
	}
	w := audit.Waiver{Rule: "SI001", Resource: "*everyone", Reason: "r", Expires: day("2026-01-01")}
	r := audit.Run(s.load(t), audit.Options{Waivers: []audit.Waiver{w}, Today: day("2026-11-30")})
	if f := only(t, r, "WV001"); f.Level != audit.Warning || r.AtLeast(audit.Error) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestAcknowledgements(t *testing.T) {
	load := func(acks ...audit.Acknowledgement) audit.Input {
		in := atPath(sharedTable("Store", "all", 3).load(t), "Store", "eu-1/core/Store/Resource")
		for i := range in.Stacks {
			if in.Stacks[i].Name == core {
				in.Stacks[i].Acknowledged = acks
			}
		}
		return in
	}
	for _, c := range []struct {
		path, rule, reason string
		held               bool
		also               string
	}{
		{"eu-1/core/Store", "cellwall::SD002", "moves, expires 2027-03-31", true, ""},
		{"eu-1/core", "cellwall::SD002", "moves (expires 2027-03-31)", true, ""},
		{"eu-1/core/Sto", "cellwall::SD002", "moves, expires 2027-03-31", false, "WV002"},
		{"eu-1/core/Store", "cellwall::SD002", "moves, expires 2026-03-31", false, "WV001"},
		{"eu-1/core/Store", "cellwall::SD002", "for ever", false, "WV003"},
		{"eu-1/core/Store", "cellwall::SD002", "expires 2027-03-31", false, "WV003"},
		{"eu-1/core/Store", "cellwall::SD002", "expires 2027-02-31", false, "WV003"},
		{"eu-1/core/Store", "cellwall::NONE", "x, expires 2027-03-31", false, "WV002"},
		{"eu-1/core/Store", "CdkNagAwsSolutions::SD002", "not ours", false, ""},
	} {
		ack := audit.Acknowledgement{Path: c.path, Rule: c.rule, Reason: c.reason}
		r := audit.Run(load(ack, ack), audit.Options{Today: day("2026-11-30")})
		f := only(t, r, "SD002")
		if (f.Suppressed != nil) != c.held {
			t.Errorf("%+v: suppressed %+v", c, f.Suppressed)
		}
		if c.held && (f.Suppressed.Kind != audit.ByAcknowledgement || f.Suppressed.Reason != "moves" || f.Suppressed.Expires != "2027-03-31") {
			t.Errorf("%+v: %+v", c, f.Suppressed)
		}
		also := ""
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Rule, "WV") {
				also += f.Rule
			}
		}
		if also != c.also {
			t.Errorf("%+v: %q", c, also)
		}
	}

	s := sharedTable("Store", "all", 2)
	s.section(core, "Resources")["Store"].(object)["Metadata"] = object{"aws:cdk:acknowledged-rules": object{"cellwall::SD002": "moves, expires 2027-03-31"}}
	if f := only(t, audit.Run(s.load(t), audit.Options{}), "SD002"); f.Suppressed == nil || f.Suppressed.Kind != audit.ByAcknowledgement {
		t.Errorf("in the template's own metadata: %+v", f)
	}
}

// TestBaseline holds that a report is its own baseline, and that what is new or worse is not hidden.
func TestBaseline(t *testing.T) {
	encode := func(r audit.Report) []byte {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	with := func(s stackSet, former audit.Report, opt audit.Options) audit.Report {
		b, err := audit.ReadBaseline(encode(former))
		if err != nil {
			t.Fatal(err)
		}
		opt.Baseline = b
		return audit.Run(s.load(t), opt)
	}
	s := sharedTable("Store", "", 3)
	first := s.run(t)
	if first.AtLeast(audit.Error) != 1 {
		t.Fatal("nothing to know")
	}
	again := with(s, first, audit.Options{})
	if again.AtLeast(audit.Review) != 0 || again.Summary.Suppressed == 0 {
		t.Errorf("a report is not its own baseline: %+v", again.Summary)
	}
	if third := with(s, again, audit.Options{}); third.AtLeast(audit.Review) != 0 {
		t.Errorf("a report made with a baseline is none: %+v", third.Summary)
	}
	// a second table of the same type in the same stack looks the same and is new all the same
	s.put(core, "Second", "AWS::DynamoDB::Table", object{})
	s.section(core, "Outputs")["S"] = object{"Value": object{"Ref": "Second"}, "Export": object{"Name": "second"}}
	for _, sh := range threeShards {
		s.put(shardStackName(sh), "Other", "AWS::Lambda::Function", object{"Environment": object{"Variables": object{"TABLE_NAME": object{"Fn::ImportValue": "second"}}}})
	}
	if r := with(s, first, audit.Options{}); r.AtLeast(audit.Error) != 1 {
		t.Errorf("%d new errors, want 1", r.AtLeast(audit.Error))
	}
	// a limit that was near and is passed now
	near, past := sharedALB(80, false), sharedALB(101, false)
	if r := with(past, near.run(t), audit.Options{}); r.AtLeast(audit.Fatal) != 1 {
		t.Errorf("a warning of the baseline hides a fatal: %+v", r.Summary)
	}
	// what was waived then is no longer once the waiver is gone
	w := audit.Waiver{Rule: "SD002", Resource: "*", Reason: "r", Expires: day("2027-01-01")}
	s = sharedTable("Store", "", 3)
	waived := audit.Run(s.load(t), audit.Options{Waivers: []audit.Waiver{w}})
	if r := with(s, waived, audit.Options{}); r.AtLeast(audit.Error) != 1 {
		t.Error("a baseline extends a waiver")
	}
	for _, bad := range []string{"", "[]", "{}", `{"schema":"cellwall.audit/v2","findings":[]}`, `{"schema":"cellwall.audit/v1","findings":[{"level":"error"}]}`, `{"schema":"cellwall.audit/v1","findings":[{"level":"bad"}]}`} {
		if _, err := audit.ReadBaseline([]byte(bad)); err == nil {
			t.Errorf("%q is taken as a baseline", bad)
		}
	}
}

// TestKept audits each rule's example with a waiver of that rule, and with itself as a baseline, and holds
// that the same findings stay in the report.
func TestKept(t *testing.T) {
	bare := func(r audit.Report) map[string]int {
		out := map[string]int{}
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Rule, "WV") {
				continue
			}
			f.Suppressed = nil
			data, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			out[string(data)]++
		}
		return out
	}
	held := 0
	for _, rule := range audit.Rules() {
		if !strings.HasPrefix(rule.Example, "-- ") {
			continue
		}
		in, err := assembly.Load(files(rule.Example))
		if err != nil {
			t.Fatal(err)
		}
		plain := audit.Run(in, audit.Options{})
		data, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		baseline, err := audit.ReadBaseline(data)
		if err != nil {
			t.Fatal(err)
		}
		w := audit.Waiver{Rule: rule.ID, Reason: "r", Expires: day("2027-01-01")}
		for _, f := range plain.Findings {
			if f.Rule == rule.ID {
				w.Fingerprint = f.Fingerprint
			}
		}
		for name, opt := range map[string]audit.Options{
			"waived":         {Waivers: []audit.Waiver{w}, Today: day("2027-01-01")},
			"waived in vain": {Waivers: []audit.Waiver{w}, Today: day("2027-01-02")},
			"baseline":       {Baseline: baseline},
		} {
			r := audit.Run(in, opt)
			if !maps.Equal(bare(r), bare(plain)) {
				t.Errorf("%s, %s: %v, was %v", rule.ID, name, bare(r), bare(plain))
			}
			if name == "waived in vain" && r.Summary.Suppressed != 0 {
				t.Errorf("%s is waived a day too long", rule.ID)
			}
			held += r.Summary.Suppressed
		}
	}
	if held == 0 {
		t.Error("nothing was suppressed at all")
	}
}

func TestParseWaivers(t *testing.T) {
	good := `# decided on 2026-11-30
waivers:
  - rule: SD001
    resource: "eu-*/core/Alb*"
    reason: shared until the cells are split
    expires: 2027-03-31
  - {rule: QT002, fingerprint: 0123456789abcdef0123456789abcdef, reason: asked for more, expires: "2027-01-01"}
`
	ws, err := audit.ParseWaivers("w.yaml", []byte(good))
	if err != nil || len(ws) != 2 || ws[0].Line != 3 || ws[0].Resource != "eu-*/core/Alb*" || !ws[1].Expires.Equal(day("2027-01-01")) {
		t.Errorf("%+v, %v", ws, err)
	}
	one := func(s string) string { return "waivers:\n  - {" + s + "}" }
	const rest = `, reason: r, expires: 2027-01-01`
	for text, want := range map[string]string{
		"":                             "nothing in the file",
		"# none":                       "nothing in the file",
		"waivers: []\n---\n: : bad {[": "second document",
		one("rule: SD001, resource: '*e*'" + rest):                                                                    "nearly so",
		one("rule: SD001, resource: a, reason: \"\\u200b\", expires: 2027-02-01"):                                     "no reason",
		one("rule: SD001, resource: a"+rest) + "\n  - {rule: SD001, resource: a, reason: again, expires: 2028-01-01}": "w.yaml:3:5: the same rule and findings as on line 2",
		"[":                                    "not YAML",
		"waivers: []\n---\nwaivers: []":        "second document",
		"x: 1":                                 `w.yaml:1:1: unknown key "x"`,
		"waivers: 3":                           "no list",
		"waivers: []\nwaivers: []":             "twice",
		"waivers: [3]":                         "w.yaml:1:11: not a mapping",
		one("rule: SD001, resource: a"):        "no reason",
		one("rule: XX001, resource: a" + rest): "is no rule",
		one("resource: a" + rest):              "no rule",
		one("rule: WV001, resource: a" + rest): "cannot be waived",
		one("rule: SD001" + rest):              "either the fingerprint",
		one("rule: SD001, resource: a, fingerprint: b" + rest):            "either the fingerprint",
		one("rule: SD001, fingerprint: b" + rest):                         "32 digits",
		one("rule: SD001, resource: '*'" + rest):                          "waive everything",
		one("rule: SD001, resource: [a]" + rest):                          "not a text",
		one("rule: SD001, resource: a, reason: r, expires: never"):        "no day on which it ends",
		one("rule: SD001, resource: a, reason: r, expires: 2027-02-30"):   "no day on which it ends",
		one("rule: SD001, resource: a, reason: ' ', expires: 2027-02-01"): "no reason",
		one("rule: SD001, resource: a, until: 2027-02-01" + rest):         `unknown key "until"`,
		"a: &a [x]\nwaivers: *a":                                          "no list",
		"waivers: [" + strings.Repeat("{},", 2001) + "]":                  "at most 2000",
		"waivers: " + strings.Repeat("[", 20000):                          "not YAML",
	} {
		if ws, err := audit.ParseWaivers("w.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v; want %q", text, ws, err, want)
		}
	}
}

func FuzzParseWaivers(f *testing.F) {
	f.Add([]byte("waivers:\n  - {rule: SD001, resource: a*, reason: r, expires: 2027-01-01}"))
	f.Add([]byte("waivers: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ws, err := audit.ParseWaivers("w", data)
		for _, w := range ws {
			if err == nil && (w.Reason == "" || w.Expires.IsZero() || (w.Fingerprint == "") == (w.Resource == "")) {
				t.Errorf("%+v passed", w)
			}
		}
	})
}

// TestHostileText holds that nothing of a template reaches a terminal as a control character, makes a
// line of its own, or fills the screen.
func TestHostileText(t *testing.T) {
	const evil = "\x1b[2J\r\nerror    SD001  forged\u202e\u0085\x00</script>"
	s := sharedTable("St"+evil, "n"+evil+strings.Repeat("x", 1<<20), 2)
	in := s.load(t)
	in.Skipped = []string{evil}
	in.Notes = []audit.Note{{File: evil, What: evil}}
	for i := range in.Stacks {
		in.Stacks[i].File += evil
	}
	r := audit.Run(in, audit.Options{Waivers: []audit.Waiver{{Rule: "SD002", Resource: "n*", Reason: evil, Expires: day("2027-01-01")}}})
	again := audit.Run(in, audit.Options{})
	for _, r := range []audit.Report{r, again} {
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 3*4096 || strings.HasPrefix(line, "error    SD001") {
				t.Errorf("line of %d bytes: %.100q", len(line), line)
			}
		}
		if slices.ContainsFunc([]rune(b.String()), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e' }) {
			t.Errorf("a control character: %.300q", b.String())
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		head string
		rest int
	}{
		{"abc", 3, "abc", 0}, {"abc", 2, "ab", 1}, {"aäb", 2, "a", 3}, {"ää", 2, "ä", 2}, {"€€", 5, "€", 3}, {"", 0, "", 0},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80", 5}, {"\x80\x80\x80", 1, "", 3},
	} {
		if head, rest := audit.Clip(c.text, c.most); head != c.head || rest != c.rest {
			t.Errorf("%q at %d: %q, %d; want %q, %d", c.text, c.most, head, rest, c.head, c.rest)
		}
	}
}
