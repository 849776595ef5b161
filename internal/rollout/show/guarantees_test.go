package show

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// evil are texts that would do something to a terminal or to Markdown.
var evil = []string{
	"\x1b[2J\x1b[31mred", "a\r\nb\tc", "\u202egnp.exe", "\x9b31m", "\xff\xfe", "a|b`c`<script>alert(1)</script>", "@everyone #1 **bold** [x](javascript:1)",
	"![i](https://evil.example/x.png) www.evil.example https://evil.example", strings.Repeat("wide 漢字 ", 90), strings.Repeat("x", 5000), "e\u0301\u0301\u0301", "</code>", "",
	"\x00\x07\x08\x7f", "\u2028\u2029\u200b", "%s%n", strings.Repeat("é", 301),
}

// hostile is a rollout in which everything that comes from outside is evil.
func hostile(r *rand.Rand, d *drill) View {
	pick := func() string { return evil[r.IntN(len(evil))] }
	s, _ := json.Marshal(d.state)
	var copied rollout.State
	_ = json.Unmarshal(s, &copied)
	v := d.view()
	v.State, v.Hint, v.Note = copied, pick(), pick()
	v.State.Why, v.State.Spec.ID, v.State.Spec.Service, v.State.Spec.Digest = pick(), pick(), pick(), pick()
	v.State.Holder = pick()
	v.Lease = &run.Lease{Holder: pick(), Until: d.now.Add(time.Hour)}
	v.Sights = map[string]Sight{}
	for i := range v.State.Cells {
		c := &v.State.Cells[i]
		c.Why = pick()
		if r.IntN(3) == 0 {
			c.Name += pick()
		}
		for j := range c.Stages {
			c.Stages[j].Name, c.Stages[j].Previous = pick(), pick()
		}
		v.Sights[c.Name] = Sight{d.now, rollout.Observation{Firing: []string{pick(), pick()}, Missing: []string{pick()}, Requests: r.Int64()}}
	}
	v.State.Despite = []rollout.Despite{{Alarm: pick(), Because: pick(), By: pick()}}
	return v
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func views(t *testing.T, do func(r *rand.Rand, v View, l Look)) {
	r := seeded(t)
	for range 20 {
		waves := make([]int, 1+r.IntN(6))
		for i := range waves {
			waves[i] = 1 + r.IntN(12)
		}
		d := walk(t, r, specOf(1+r.IntN(4), waves...), r.IntN(250))
		for range 6 {
			v := d.view()
			v.Hint = "cellwall rollout resume"
			if r.IntN(2) == 0 {
				v = hostile(r, d)
			}
			do(r, v, Look{Width: 20 + r.IntN(200), Height: 8 + r.IntN(60), Colour: r.IntN(2) == 0, UTF8: r.IntN(2) == 0})
		}
	}
}

func TestClean(t *testing.T) {
	check := func(line string) {
		t.Helper()
		if !utf8.ValidString(line) {
			t.Errorf("%q is no UTF-8", line)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) || unicode.IsMark(r) {
				t.Errorf("%q has %U", line, r)
			}
		}
	}
	views(t, func(_ *rand.Rand, v View, l Look) {
		for _, line := range v.Lines(l) {
			if l.Colour {
				line = sgr.ReplaceAllString(line, "")
			}
			check(line)
		}
	})
	for _, e := range evil {
		event := Event{Kind: e, Rollout: e, Cell: e, Stage: e, Step: rollout.Step(e), Status: rollout.Status(e), By: e, Why: e, Digest: e,
			Phase: rollout.Phase(e), Despite: []rollout.Despite{{Alarm: e, Because: e}}}
		for _, kind := range []string{e, Begun, Driven, Changed, Moved, "pause"} {
			event.Kind = kind
			check(event.Line())
		}
	}
}

func TestFits(t *testing.T) {
	views(t, func(_ *rand.Rand, v View, l Look) {
		lines := v.Lines(l)
		if len(lines) > l.Height {
			t.Errorf("%d lines in a height of %d", len(lines), l.Height)
		}
		for _, line := range lines {
			if plain := sgr.ReplaceAllString(line, ""); columns(plain) > l.Width {
				t.Errorf("%d columns in a width of %d: %q", columns(plain), l.Width, plain)
			}
		}
	})
	for _, c := range []struct {
		text  string
		width int
	}{{"漢字漢字", 5}, {"abc", 0}, {"", 3}, {"漢", 1}} {
		if got := cut(c.text, c.width); columns(got) > max(c.width, 1) {
			t.Errorf("%q in %d columns is %q", c.text, c.width, got)
		}
	}
}

func TestEvery(t *testing.T) {
	views(t, func(_ *rand.Rand, v View, l Look) {
		lines := v.grid(l, 1+l.Height/2)
		want := tally(v.State.Cells)
		got := make([]int, len(kinds))
		text := sgr.ReplaceAllString(strings.Join(lines, "\n"), "")
		if strings.Contains(text, ": ") && !strings.Contains(text, "wave 1 ") { // numbers
			for i := range lines {
				_, lines[i], _ = strings.Cut(lines[i], ": ")
			}
			text = sgr.ReplaceAllString(strings.Join(lines, "\n"), "")
			for k := range kinds {
				for _, m := range regexp.MustCompile(regexp.QuoteMeta(l.mark(k))+`([0-9]+)`).FindAllStringSubmatch(text, -1) {
					var n int
					fmt.Sscan(m[1], &n)
					got[k] += n
				}
			}
		} else {
			for _, c := range v.State.Cells { // with a name or without
				if k := kindOf[c.Step]; strings.Contains(text, l.mark(k)) {
					got[k]++
				}
			}
			marks := 0
			if !strings.Contains(text, l.mark(kindOf[v.State.Cells[0].Step])+" ") {
				for _, line := range lines {
					_, tail, _ := strings.Cut(line[len("wave "):], " ")
					marks += utf8.RuneCountInString(strings.TrimSpace(sgr.ReplaceAllString(tail, "")))
				}
				if marks != len(v.State.Cells) {
					t.Errorf("%d marks of %d cells:\n%s", marks, len(v.State.Cells), text)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v:\n%s", got, want, text)
		}
	})
}

func TestTold(t *testing.T) {
	for _, l := range []Look{{}, {UTF8: true}} {
		seen := map[string]string{}
		for k := range kinds {
			mark := l.mark(k)
			if other := seen[mark]; other != "" || columns(mark) != 1 {
				t.Errorf("%s and %s are both %q", other, kinds[k].word, mark)
			}
			seen[mark] = kinds[k].word
		}
	}
	r := seeded(t)
	for range 20 {
		for _, c := range walk(t, r, specOf(2, 2, 2), 300).state.Cells {
			if _, known := kindOf[c.Step]; !known {
				t.Errorf("%s has no mark", c.Step)
			}
		}
	}
}

func TestReplayed(t *testing.T) {
	r := seeded(t)
	for range 40 {
		d := walk(t, r, specOf(1+r.IntN(3), 1, 2, 3), r.IntN(400))
		p, jumper := NewReplay(d.state), NewReplay(d.state)
		status := rollout.IsRunning
		steps := map[string]string{}
		last := map[string]bool{}
		for i, record := range d.journal {
			want := record.State
			record.State = rollout.State{} // as it is read
			events, err := p.Take(record)
			if err != nil {
				t.Fatal(err)
			}
			if !equalJSON(p.State(), want) {
				t.Fatalf("after record %d it is another state", record.Seq)
			}
			if r.IntN(5) == 0 || i == len(d.journal)-1 {
				jumper.Jump(run.Record{Seq: record.Seq, State: want})
				if !equalJSON(jumper.State(), want) {
					t.Fatalf("a jump to record %d is elsewhere", record.Seq)
				}
			}
			for _, e := range events {
				text, err := json.Marshal(e)
				if err != nil || last[string(text)] {
					t.Fatalf("%s is told twice (%v)", text, err)
				}
				last[string(text)] = true
				if e.Seq != record.Seq || e.Rollout != d.state.Spec.ID || e.Time.IsZero() {
					t.Fatalf("%s of record %d", text, record.Seq)
				}
				switch e.Kind {
				case Changed:
					status = e.Status
				case Moved:
					if now := e.Stage + " " + string(e.Step); steps[e.Cell] == now {
						t.Fatalf("%s is nothing new", text)
					} else {
						steps[e.Cell] = now
					}
				}
			}
			if _, err := p.Take(record); err == nil {
				t.Fatal("a record is taken twice")
			}
		}
		if status != d.state.Status {
			t.Fatalf("the events lead to %s, want %s", status, d.state.Status)
		}
		for _, c := range d.state.Cells {
			if got, want := steps[c.Name], c.Stages[c.Stage].Name+" "+string(c.Step); got != want && !(got == "" && c.Step == rollout.Waiting) {
				t.Fatalf("cell %s is at %q by the events, want %q", c.Name, got, want)
			}
		}
	}
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// TestInert reads a summary as the strictest reader would: outside of code there are only words of this package, and
// inside only letters, digits, spaces and references.
func TestInert(t *testing.T) {
	inside := regexp.MustCompile(`<code>([^<]*)</code>`)
	harmless := regexp.MustCompile(`^(?:[a-zA-Z0-9 ]|[^\x00-\x7f]|&#[0-9]+;)*$`)
	frame := regexp.MustCompile(`^[a-zA-Z0-9 #|*,.:()~\n-]*$`)
	views(t, func(_ *rand.Rand, v View, _ Look) {
		text := Summary(v.State, v.Now)
		if len(text) > MaxSummary {
			t.Errorf("%d bytes", len(text))
		}
		for _, m := range inside.FindAllStringSubmatch(text, -1) {
			if !harmless.MatchString(m[1]) {
				t.Errorf("%q is not inert", m[1])
			}
		}
		if rest := inside.ReplaceAllString(text, ""); !frame.MatchString(rest) {
			t.Errorf("outside of code there is %q", rest)
		}
		if !strings.HasPrefix(text, "\n") || !strings.HasSuffix(text, "|\n\n") {
			t.Errorf("it begins with %q and ends with %q", text[:5], text[len(text)-5:])
		}
		// A table's rows have as many columns as its head.
		for _, line := range strings.Split(text, "\n") {
			if n := strings.Count(line, "|"); strings.HasPrefix(line, "|") && n != 3 && n != 6 {
				t.Errorf("%d bars in %q", n, line)
			}
		}
	})
	if got := html.UnescapeString(code("a|b <c>")); got != "<code>a|b <c></code>" {
		t.Errorf("%q", got)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	d := newDrill(t, bakingFor(time.Minute, 400, 1, 1200))
	for i := range d.state.Cells {
		d.state.Cells[i].Why, d.state.Cells[i].Step = strings.Repeat("|", 3000), rollout.Broken
	}
	text := Summary(d.state, d.now)
	if len(text) > MaxSummary || !strings.Contains(text, "| | and 1") {
		t.Errorf("%d bytes, ends with %q", len(text), text[len(text)-200:])
	}
}

func TestLeft(t *testing.T) {
	// Two batches of a wave, one after the other: two stage bakes each and the wave's own.
	d := newDrill(t, specOf(1, 1, 2))
	if left := Left(d.state, d.now); left != 3*time.Hour+6*time.Hour {
		t.Errorf("%v are left of all", left)
	}
	d.until(func(s rollout.State) bool { return s.Status == rollout.IsDone })
	if took := d.now.Sub(begin); Left(d.state, d.now) != 0 || took < 9*time.Hour || took > 10*time.Hour {
		t.Errorf("it took %v", took)
	}
}

func TestEventsAsJSON(t *testing.T) {
	d := newDrill(t, specOf(1, 1, 1))
	d.until(at("eu-canary", rollout.Proving, 1))
	d.now = d.now.Add(time.Minute)
	d.send(rollout.Event{Kind: rollout.Looked, Cell: "eu-canary", Observation: &rollout.Observation{Fired: []string{"health"}}})
	d.send(rollout.Event{Kind: rollout.Abort, By: "ann", Why: "sev 1"})
	var out strings.Builder
	p := NewReplay(d.state)
	for _, r := range d.journal {
		events, err := p.Take(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			text, _ := json.Marshal(e)
			fmt.Fprintf(&out, "%s\n%s\n", text, e.Line())
		}
	}
	golden(t, "events.txt", out.String())
	golden(t, "summary.md", Summary(d.state, d.now))
}
