// Package sarif writes a report of the audit as SARIF 2.1.0, the form that code hosts and editors read
// (Static Analysis Results Interchange Format Version 2.1.0 Plus Errata 01, OASIS, 2023).
//
// # Guarantees
//
//  1. Valid: what is written conforms to the schema of the standard, whatever the templates say.
//  2. Complete: each finding of the report is one result, in the same order, with one related location
//     for each shard that depends on it, up to maxRelated, and each stands in a file.
//  3. Stable: partialFingerprints is the report's fingerprint, which survives other logical ids.
//  4. Quiet: what is suppressed carries its suppression; what is only listed is of the kind
//     informational, and what could not be judged of the kind review. Neither is a failure.
package sarif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"cellwall.dev/cellwall/internal/audit"
)

// Options are what a report does not say itself.
type Options struct {
	Version string // of this tool
	// Dir is the directory that was audited, relative to the root of the project or absolute, with
	// slashes. Locations begin with it.
	Dir string
	// Line is the line of a resource in a file of Dir, from 1, or 0 where that is unknown. nil knows none.
	Line func(file, logicalID string) int
	// Whole is where a result stands that is of no file, such as a limit of an account: the directory that was
	// audited. "" is Dir.
	Whole string
}

// Bounds on one result. GitHub takes 1,000 locations of each and shows 100.
const (
	maxRelated = 1000
	maxText    = 8192 // bytes of one text
)

// FingerprintName is the name and version of the fingerprints.
const FingerprintName = "cellwallAudit/v1"

const (
	schemaURI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	homepage  = "https://cellwall.dev/cellwall"
)

type document struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []run  `json:"runs"`
}

type run struct {
	Tool       tool         `json:"tool"`
	Invoked    []invocation `json:"invocations"`
	ColumnKind string       `json:"columnKind"`
	Results    []result     `json:"results"`
}

type tool struct {
	Driver driver `json:"driver"`
}

type driver struct {
	Name    string       `json:"name"`
	Version string       `json:"version,omitempty"`
	URI     string       `json:"informationUri"`
	Rules   []descriptor `json:"rules"`
}

type invocation struct {
	Successful    bool           `json:"executionSuccessful"`
	Notifications []notification `json:"toolExecutionNotifications,omitempty"`
}

type notification struct {
	Level   string  `json:"level"`
	Message message `json:"message"`
}

type message struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

type descriptor struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Short    message        `json:"shortDescription"`
	Full     message        `json:"fullDescription"`
	Help     message        `json:"help"`
	Default  configuration  `json:"defaultConfiguration"`
	Property map[string]any `json:"properties"`
}

type configuration struct {
	Level string `json:"level"`
}

type result struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Kind         string            `json:"kind"`
	Level        string            `json:"level"`
	Message      message           `json:"message"`
	Locations    []location        `json:"locations,omitempty"`
	Related      []location        `json:"relatedLocations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Suppressions []suppression     `json:"suppressions,omitempty"`
	Property     map[string]any    `json:"properties,omitempty"`
}

type location struct {
	ID       *int      `json:"id,omitempty"`
	Physical *physical `json:"physicalLocation,omitempty"`
	Logical  []logical `json:"logicalLocations,omitempty"`
	Message  *message  `json:"message,omitempty"`
}

type physical struct {
	Artifact artifact `json:"artifactLocation"`
	Region   *region  `json:"region,omitempty"`
}

type artifact struct {
	URI string `json:"uri"`
}

type region struct {
	StartLine int `json:"startLine"`
}

type logical struct {
	Name      string `json:"name,omitempty"`
	Qualified string `json:"fullyQualifiedName,omitempty"`
	Kind      string `json:"kind,omitempty"`
}

type suppression struct {
	Kind          string         `json:"kind"`
	Status        string         `json:"status"`
	Justification string         `json:"justification,omitempty"`
	Property      map[string]any `json:"properties,omitempty"`
}

// Write writes a report as one SARIF log with one run.
func Write(w io.Writer, r *audit.Report, opt Options) error {
	index := map[string]int{}
	out := run{ColumnKind: "utf16CodeUnits", Results: []result{}}
	out.Tool.Driver = driver{Name: "cellwall", Version: opt.Version, URI: homepage, Rules: []descriptor{}}
	for i, rule := range audit.Rules() {
		index[rule.ID] = i
		out.Tool.Driver.Rules = append(out.Tool.Driver.Rules, describe(rule))
	}
	i := invocation{Successful: true}
	if why := r.Unjudged(); why != "" {
		i.Notifications = []notification{{"warning", message{Text: plain(why)}}}
	}
	out.Invoked = []invocation{i}
	for i := range r.Findings {
		res := opt.result(&r.Findings[i])
		res.RuleIndex = index[res.RuleID]
		out.Results = append(out.Results, res)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(document{schemaURI, "2.1.0", []run{out}})
}

// describe is a rule with its help, as text and as Markdown.
func describe(r audit.Rule) descriptor {
	help := r.Help + "\n\nWhat to do: " + r.Fix + ".\n\nExample:\n\n" + r.Example
	markdown := r.Help + "\n\n**What to do:** " + r.Fix + ".\n\n**Example**\n\n" + fenced(r.Example)
	severity := map[audit.Level]string{audit.Fatal: "error", audit.Error: "error", audit.Warning: "warning"}[r.Level]
	return descriptor{
		ID: r.ID, Name: pascal(r.Title), Short: message{Text: r.Title + "."}, Full: message{Text: r.Help},
		Help: message{Text: help, Markdown: markdown}, Default: configuration{level(r.Level)},
		Property: map[string]any{"tags": []string{"cellwall", r.Family}, "problem.severity": cmp.Or(severity, "recommendation"), "precision": "high"},
	}
}

func fenced(text string) string { return "```\n" + text + "\n```\n" }

// pascal is "SharedLoadBalancer" of "shared load balancer".
func pascal(title string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(title, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// level is SARIF's level of a failure of this one; what is no failure has the level none in its result.
func level(l audit.Level) string {
	switch {
	case l >= audit.Error:
		return "error"
	case l == audit.Warning:
		return "warning"
	}
	return "note"
}

func (opt *Options) result(f *audit.Finding) result {
	res := result{RuleID: f.Rule, Kind: "fail", Level: level(f.Level), Message: message{Text: sentence(f)},
		Fingerprints: map[string]string{FingerprintName: f.Fingerprint}, Property: map[string]any{"level": f.Level.String()}}
	switch f.Level {
	case audit.Review:
		res.Kind, res.Level = "review", "none"
	case audit.Info:
		res.Kind, res.Level = "informational", "none"
	}
	if len(f.Shards) > 0 {
		res.Property["shards"] = len(f.Shards)
	}
	if len(f.Variants) > 0 {
		names := make([]string, len(f.Variants))
		for i, name := range f.Variants {
			names[i] = plain(name)
		}
		res.Property["variants"] = names
	}
	if f.Limit != nil {
		res.Property["limit"] = f.Limit
	}
	if f.Resource != nil {
		if l, ok := opt.resource(f.Resource); ok {
			res.Locations = []location{l}
		}
	}
	for i, s := range f.Shards {
		if i == maxRelated {
			break
		}
		l := location{ID: new(i), Logical: []logical{{Name: plain(s.String()), Kind: "shard"}}, Message: &message{Text: plain("shard " + s.String() + " depends on it")}}
		if i < len(f.Paths) && f.Paths[i].Shard == s {
			p := &f.Paths[i]
			l.Message.Text = plain(p.Text())
			id := ""
			if len(p.Steps) > 0 {
				id = p.Steps[0].LogicalID
				l.Logical = append(l.Logical, logical{Name: plain(id), Qualified: plain(p.Steps[0].Stack + "/" + id), Kind: "resource"})
			}
			l.Physical = opt.physical(p.File, id, 0)
		}
		res.Related = append(res.Related, l)
	}
	res.Locations = opt.somewhere(res.Locations, res.Related)
	if s := f.Suppressed; s != nil {
		sup := suppression{Kind: "external", Status: "accepted", Justification: plain(s.Reason), Property: map[string]any{"by": s.Kind}}
		if s.Kind == audit.ByAcknowledgement {
			sup.Kind = "inSource"
		}
		if s.Kind == audit.ByBaseline {
			sup.Justification = "known from the baseline"
		}
		if s.Expires != "" {
			sup.Property["expires"] = s.Expires
		}
		res.Suppressions = []suppression{sup}
	}
	return res
}

// somewhere are the locations of a result with a file in the first of them: where the first shard depends on what no
// file defines, else the whole of what was audited. Code hosts refuse a log in which one result has no file.
func (opt *Options) somewhere(at, related []location) []location {
	if len(at) == 0 {
		at = []location{{}}
	}
	if at[0].Physical != nil {
		return at
	}
	for _, l := range related {
		if l.Physical != nil {
			at[0].Physical = l.Physical
			return at
		}
	}
	at[0].Physical = &physical{Artifact: artifact{uriOf(cmp.Or(opt.Whole, opt.Dir, "."), "")}}
	return at
}

// sentence is what a finding says, why at this level, and what to do.
func sentence(f *audit.Finding) string {
	text := f.Message + "."
	if f.Reason != "" {
		text += " " + f.Reason + "."
	}
	if len(f.Variants) > 0 {
		text += " Only in " + strings.Join(f.Variants, ", ") + "."
	}
	if f.Fix != "" {
		text += " To mend it: " + f.Fix + "."
	}
	return plain(text)
}

func (opt *Options) resource(r *audit.Resource) (location, bool) {
	l := location{Physical: opt.physical(r.File, r.LogicalID, r.Line)}
	name := cmp.Or(r.Path, r.Name)
	if name == "" && r.LogicalID != "" {
		name = r.Stack + "/" + r.LogicalID
	}
	if name != "" {
		l.Logical = []logical{{Name: plain(cmp.Or(r.LogicalID, r.Name)), Qualified: plain(name), Kind: "resource"}}
	}
	return l, l.Physical != nil || l.Logical != nil
}

// physical is where a resource stands in a file. A line that is known goes for a line of a file outside
// of Dir, such as one of waivers.
func (opt *Options) physical(file, logicalID string, line int) *physical {
	if file == "" {
		return nil
	}
	dir := opt.Dir
	if line > 0 {
		dir = ""
	} else if opt.Line != nil {
		line = opt.Line(file, logicalID)
	}
	p := &physical{Artifact: artifact{uriOf(dir, file)}}
	if line > 0 {
		p.Region = &region{line}
	}
	return p
}

// uriOf is the URI of a file of dir: relative, or with the scheme file where dir is absolute.
func uriOf(dir, file string) string {
	full := path.Join(filepath.ToSlash(dir), filepath.ToSlash(file))
	u := url.URL{Path: full}
	if path.IsAbs(full) {
		u.Scheme = "file"
	}
	return u.String()
}

// plain is a text of a bounded length on one line, without control characters and without the links of
// the standard's message syntax, [text](target).
func plain(s string) string {
	head, rest := audit.Clip(s, maxText)
	head = strings.ReplaceAll(audit.Printable(head), "](", "] (")
	if rest > 0 {
		head += fmt.Sprintf("… and %d bytes more", rest)
	}
	return head
}
