package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Waiver is a decision that findings of one rule need not fail anything until a day.
type Waiver struct {
	Rule        string
	Fingerprint string // of the finding, or ""
	Resource    string // else a pattern of its construct path, physical name or STACK/LOGICALID; * stands for any text
	Reason      string
	Expires     time.Time // last day on which it holds, in UTC

	File string // where it is written
	Line int    // from 1; 0 when unknown

	// An acknowledgement is written in a template's metadata instead. It speaks of the construct at path
	// and what is below it, or of the resource id of File.
	acknowledged bool
	path, id     string
	home         int // as a Finding's
}

// matches says whether a waiver speaks of a finding of its rule. Of what is only listed there is
// nothing to waive.
func (w *Waiver) matches(f *Finding) bool {
	if f.Level == Info {
		return false
	}
	if !w.acknowledged && w.Fingerprint != "" {
		return w.Fingerprint == f.Fingerprint
	}
	r := f.Resource
	if r == nil {
		return false
	}
	if w.acknowledged {
		if w.id != "" && w.id == r.LogicalID && w.File == r.File {
			return true
		}
		return w.path != "" && (r.Path == w.path || strings.HasPrefix(r.Path, w.path+"/"))
	}
	for _, name := range []string{r.Path, r.Name, r.Stack + "/" + r.LogicalID} {
		if name != "" && glob(w.Resource, name) {
			return true
		}
	}
	return false
}

// holds says whether a waiver is whole and not past its last day.
func (w *Waiver) holds(today time.Time) bool {
	return !w.Expires.IsZero() && !today.After(w.Expires) && w.Reason != ""
}

func (w *Waiver) suppression() *Suppression {
	s := &Suppression{Kind: ByWaiver, Reason: w.Reason, Expires: w.Expires.Format(time.DateOnly)}
	if w.acknowledged {
		s.Kind = ByAcknowledgement
	}
	return s
}

// waive suppresses the findings that waivers speak of, and returns findings about the waivers that do
// not hold. On the zero day nothing has expired.
func waive(fs []Finding, waivers []Waiver, today time.Time) []Finding {
	byRule := map[string][]int{}
	for i := range fs {
		byRule[fs[i].Rule] = append(byRule[fs[i].Rule], i)
	}
	today = today.UTC().Truncate(24 * time.Hour)
	matched := make([][]int, len(waivers)) // findings of each
	for i := range waivers {
		w := &waivers[i]
		for _, at := range byRule[w.Rule] {
			if !w.matches(&fs[at]) {
				continue
			}
			matched[i] = append(matched[i], at)
			if w.holds(today) && fs[at].Suppressed == nil {
				fs[at].Suppressed = w.suppression()
			}
		}
	}
	var out []Finding
	for i := range waivers { // all that hold have spoken: what an expired one says does not depend on their order
		w := &waivers[i]
		hits, worst, open := len(matched[i]), Info, Info
		for _, at := range matched[i] {
			worst = max(worst, fs[at].Level)
			if fs[at].Suppressed == nil {
				open = max(open, fs[at].Level)
			}
		}
		switch {
		case w.acknowledged && !isRule(w.Rule):
			out = append(out, w.finding(&ruleUnused, Warning, fmt.Sprintf("%s suppresses nothing: there is no rule %q", w.describe(), w.Rule)))
		case hits == 0:
			out = append(out, w.finding(&ruleUnused, Warning, fmt.Sprintf("%s suppresses nothing", w.describe())))
		case w.Expires.IsZero() || w.Reason == "":
			out = append(out, w.finding(&ruleIncomplete, Warning, fmt.Sprintf("%s says no %s: it does not hold", w.describe(), w.lacks())))
		case !w.holds(today) && open == Info:
			out = append(out, w.finding(&ruleExpired, Warning, fmt.Sprintf("%s held until %s; what it waived, others waive now: remove it",
				w.describe(), w.Expires.Format(time.DateOnly))))
		case !w.holds(today):
			level := Warning
			if open >= Error {
				level = Error
			}
			out = append(out, w.finding(&ruleExpired, level, fmt.Sprintf("%s held until %s; it would suppress %s, the worst at level %s",
				w.describe(), w.Expires.Format(time.DateOnly), plural(hits, "finding"), worst)))
		}
	}
	return out
}

func (w *Waiver) lacks() string {
	if w.Expires.IsZero() {
		return "day on which it ends, such as \"expires 2027-03-31\""
	}
	return "reason"
}

func (w *Waiver) finding(r *rule, level Level, message string) Finding {
	return Finding{Rule: r.id, Level: level, Message: message, Fix: r.fix, home: w.home,
		Resource: &Resource{File: w.File, Line: w.Line, Path: w.path, LogicalID: w.id}}
}

// describe is what a waiver is called in messages.
func (w *Waiver) describe() string {
	if w.acknowledged {
		return "the acknowledgement of " + w.Rule + " at " + quote(cmp.Or(w.path, w.id))
	}
	if w.Fingerprint != "" {
		return "the waiver of " + w.Rule + " for fingerprint " + w.Fingerprint
	}
	return "the waiver of " + w.Rule + " for " + quote(w.Resource)
}

// glob matches a whole text against a pattern in which * stands for any text, the empty one and slashes
// included. It takes time in proportion to pattern × text at most.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0: // let the last star take one byte more
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Acknowledgement is a rule that a template's author accepts for a construct, as
// Validations.of(construct).acknowledge of the AWS CDK records it.
type Acknowledgement struct {
	Path   string `json:"path"` // construct path
	Rule   string `json:"rule"` // with its namespace: cellwall::SD001
	Reason string `json:"reason"`
}

// metadataAcknowledged is the key under which CDK keeps acknowledgements; in a resource's Metadata it
// may stand as well, for templates that no CDK makes.
const metadataAcknowledged = "aws:cdk:acknowledged-rules"

// namespace is before each of this tool's rules in acknowledgements.
const namespace = "cellwall::"

// acknowledgements are those of this tool's rules in all stacks, each once.
func (g *graph) acknowledgements() []Waiver {
	type key struct{ rule, path, file, id string }
	seen := map[key]bool{}
	var out []Waiver
	add := func(id, reason string, w Waiver) {
		var ok bool
		if w.Rule, ok = strings.CutPrefix(id, namespace); !ok {
			return
		}
		w.acknowledged = true
		w.Reason, w.Expires = ending(reason)
		k := key{w.Rule, w.path, "", w.id}
		if w.path == "" {
			k.file = w.File
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	for i := range g.stacks {
		for _, a := range g.stacks[i].Acknowledged {
			add(a.Rule, a.Reason, Waiver{File: g.stacks[i].File, path: a.Path})
		}
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.res == nil {
			continue
		}
		m, ok := n.res.Metadata.Get(metadataAcknowledged)
		if !ok {
			continue
		}
		for k := range m.Len() {
			if m.Key(k) == "" {
				continue
			}
			reason, _ := m.At(k).Str()
			add(m.Key(k), reason, Waiver{File: g.stacks[n.stack].File, id: n.id})
		}
	}
	slices.SortStableFunc(out, func(a, b Waiver) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.path, b.path), strings.Compare(a.File, b.File), strings.Compare(a.id, b.id))
	})
	return out
}

// ending takes the day on which an acknowledgement ends out of its reason: the last "expires DAY" in it.
func ending(reason string) (string, time.Time) {
	const word = "expires "
	at := strings.LastIndex(reason, word)
	if at < 0 {
		return strings.TrimSpace(reason), time.Time{}
	}
	rest := reason[at+len(word):]
	day, err := time.Parse(time.DateOnly, rest[:min(len(rest), len(time.DateOnly))])
	if err != nil {
		return strings.TrimSpace(reason), time.Time{}
	}
	return strings.TrimRight(reason[:at], " ,;(—-"), day
}
