// Package page writes a report of the audit as one HTML page: shards in columns, and what crosses the
// wall between them in rows.
//
// # Guarantees
//
//  1. Self-contained: the page loads nothing. Its policy (Content-Security-Policy) allows its own style
//     and script by their hashes and forbids all else.
//  2. Harmless: no text of a template becomes markup, script, or a control character.
//  3. Bounded: at most maxRows resources, maxColumns shards and maxPaths paths are shown, whatever the
//     report has; the page says what it leaves out.
//  4. Readable without script: what is found stands in the markup. The script adds the panel with the
//     path behind each mark, the filter, and the arrow keys.
package page

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/audit"
)

// Bounds of one page.
const (
	maxRows    = 200  // of each section of the table
	maxColumns = 96   // shards
	maxPaths   = 4000 // behind marks
	maxListed  = 500  // findings in full
	maxSteps   = 64   // of one path
	maxText    = 600  // bytes of one text
	maxName    = 160  // of one in the table
	shortID    = 5    // letters of a shard that stand upright above a wide column
	fewColumns = 12   // up to which they are wide enough for the names of their cells
)

//go:embed page.html page.css page.js
var sources embed.FS

var layout = template.Must(template.New("page.html").Funcs(template.FuncMap{"text": text, "name": name, "plural": plural, "percent": percent, "parts": parts}).ParseFS(sources, "page.html"))

func source(name string) string {
	data, err := sources.ReadFile(name)
	if err != nil {
		panic(err) // embedded above
	}
	return string(data)
}

// hash is how a policy names an inline style or script.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// view is what the template shows.
type view struct {
	Title    string
	Policy   string
	Style    template.CSS
	Script   template.JS
	Report   *audit.Report
	Counts   []count
	Verdict  string
	Cells    []cell
	Columns  []column
	Sections []section
	Findings []*finding
	Left     []string // what is left out
	Paths    []path
}

type count struct {
	Level string
	N     int
}

// cell is a group of columns.
type cell struct {
	Name string
	Span int
}

// Few says whether there is room for wide columns.
func (v *view) Few() bool { return len(v.Columns) <= fewColumns }

// Short says whether the names of all shards have room on one line.
func (v *view) Short() bool {
	return !slices.ContainsFunc(v.Columns, func(c column) bool { return utf8.RuneCountInString(c.Shard.ID) > shortID })
}

// Wide is how many columns the table has.
func (v *view) Wide() int { return 1 + len(v.Columns) }

type column struct {
	Shard audit.Shard
	First bool // of its cell
}

type section struct {
	Title string
	Note  string
	Rows  []row
}

type row struct {
	*finding
	Marks  []mark
	Hit    int // shards that depend on it
	Unseen int // of these that have no column
}

// mark is one place of the table.
type mark struct {
	Shard string
	On    bool   // the shard depends on it
	Path  int    // index into the paths, or -1
	Class string // bar from the first (from) to the last (to) shard that does; first of its cell
}

type finding struct {
	*audit.Finding
	Index   int
	Name    string // what is shared
	Kind    string // its type
	Level   string // css class as well; a suppressed one has its own
	Paths   []string
	More    int // paths that are not shown
	Shards  []string
	Crowded int // shards that are not named
}

// path is what the script shows: it is small because there are many.
type path struct {
	Finding int    `json:"f"`
	Name    string `json:"n"` // what is shared, as its row calls it
	Shard   string `json:"s"`
	Steps   []step `json:"p"`
}

type step struct {
	How   string `json:"h,omitempty"`
	Stack string `json:"k,omitempty"`
	Name  string `json:"n"`
	Type  string `json:"t"`
}

// text is a text of a template, made printable and no longer than the page needs.
func text(s string) string {
	head, rest := audit.Clip(s, maxText)
	if rest > 0 {
		return audit.Printable(head) + "…"
	}
	return audit.Printable(head)
}

func percent(share *float64) string { return fmt.Sprintf("%.4g %%", *share*100) }

// name is a text for the table, of which the finding below has more.
func name(s string) string {
	head, rest := audit.Clip(s, maxName)
	if rest > 0 {
		return text(head) + "…"
	}
	return text(s)
}

// parts are the parts of a type, between which a line may break.
func parts(typ string) []string {
	if typ == "" {
		return nil
	}
	return strings.Split(typ, "::")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Write writes the page of a report. title says what was audited.
func Write(w io.Writer, r *audit.Report, title string) error {
	style, script := source("page.css"), source("page.js")
	v := view{Title: text(title), Style: template.CSS(style), Script: template.JS(script), Report: r, Paths: []path{}}
	v.Policy = "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) + "; base-uri 'none'; form-action 'none'"
	for _, l := range []audit.Level{audit.Fatal, audit.Error, audit.Warning, audit.Review, audit.Info} {
		v.Counts = append(v.Counts, count{l.String(), r.Summary.Findings[l.String()]})
	}
	if r.Summary.Suppressed > 0 {
		v.Counts = append(v.Counts, count{"suppressed", r.Summary.Suppressed})
	}
	v.Verdict = verdict(r)
	v.list()
	v.columns()
	v.sections()
	return layout.Execute(w, &v)
}

func verdict(r *audit.Report) string {
	if why := r.Unjudged(); why != "" {
		return "Not judged: " + why + "."
	}
	holes, others := 0, 0
	for i := range r.Findings {
		switch f := &r.Findings[i]; {
		case f.Suppressed != nil || f.Level < audit.Error:
		case len(f.Shards) > 1: // those have a row
			holes++
		default:
			others++
		}
	}
	switch {
	case holes > 0 && others > 0:
		return fmt.Sprintf("%s in the wall: what stands in a red row takes every marked shard with it. Besides, %s at or above error.", plural(holes, "hole"), plural(others, "finding"))
	case holes > 0:
		return fmt.Sprintf("%s in the wall: what stands in a red row takes every marked shard with it.", plural(holes, "hole"))
	case others > 0:
		return fmt.Sprintf("No hole in the wall, but %s at or above error.", plural(others, "finding"))
	case r.AtLeast(audit.Warning) > 0:
		return "No hole in the wall; some warnings."
	}
	return "No hole in the wall."
}

// list takes the findings that are shown in full.
func (v *view) list() {
	for i := range v.Report.Findings {
		f := &v.Report.Findings[i]
		out := &finding{Finding: f, Index: i, Level: f.Level.String()}
		if f.Suppressed != nil {
			out.Level = "suppressed"
		}
		if res := f.Resource; res != nil {
			out.Name = cmp.Or(res.Name, res.Path, res.LogicalID, res.Stack, res.File)
			out.Kind = res.Type
		} else if f.Limit != nil {
			out.Name = f.Limit.Name
		}
		for k := range f.Paths {
			if k == 3 {
				break
			}
			out.Paths = append(out.Paths, f.Paths[k].Text())
		}
		out.More = len(f.Shards) - len(out.Paths)
		for k, s := range f.Shards {
			if k == maxColumns {
				out.Crowded = len(f.Shards) - k
				break
			}
			out.Shards = append(out.Shards, s.String())
		}
		v.Findings = append(v.Findings, out)
		if len(v.Findings) == maxListed && i+1 < len(v.Report.Findings) {
			v.Left = append(v.Left, fmt.Sprintf("%d findings of %d, the last in order of weight", len(v.Report.Findings)-i-1, len(v.Report.Findings)))
			break
		}
	}
}

// columns takes the shards that are shown: all, or of each cell as many, those that the worst findings hit.
func (v *view) columns() {
	all := v.Report.Summary.Shards
	shown := all
	if len(all) > maxColumns {
		keep := v.chosen(all)
		shown = slices.DeleteFunc(slices.Clone(all), func(s audit.Shard) bool { return !keep[s] })
		v.Left = append(v.Left, fmt.Sprintf("%d shards of %d", len(all)-len(shown), len(all)))
	}
	for i, s := range shown {
		first := i == 0 || shown[i-1].Cell != s.Cell || shown[i-1].Service != s.Service
		v.Columns = append(v.Columns, column{s, first})
		if first {
			v.Cells = append(v.Cells, cell{Name: cmp.Or(s.Cell, s.Service, "shards")})
		}
		v.Cells[len(v.Cells)-1].Span++
	}
}

// chosen are at most maxColumns shards, divided among the cells.
func (v *view) chosen(all []audit.Shard) map[audit.Shard]bool {
	type place struct{ service, cell string }
	of := func(s audit.Shard) place { return place{s.Service, s.Cell} }
	cells := map[place]int{}
	for _, s := range all {
		cells[of(s)] = 0
	}
	each := max(1, maxColumns/len(cells))
	keep := map[audit.Shard]bool{}
	take := func(s audit.Shard) {
		if len(keep) < maxColumns && cells[of(s)] < each && !keep[s] {
			keep[s] = true
			cells[of(s)]++
		}
	}
	for _, f := range v.Findings {
		for _, s := range f.Finding.Shards {
			take(s)
		}
	}
	for _, s := range all {
		take(s)
	}
	return keep
}

// sections are the rows of the table: what counts, what is shared by design, what is suppressed.
func (v *view) sections() {
	at := map[audit.Shard]int{}
	for i, c := range v.Columns {
		at[c.Shard] = i
	}
	all := []section{
		{Title: "Crosses the wall"},
		{Title: "Shared by design", Note: "listed with the reason; nothing to do"},
		{Title: "Suppressed", Note: "by a waiver, an acknowledgement or the baseline"},
	}
	left := 0
	for _, f := range v.Findings {
		if len(f.Finding.Shards) < 2 {
			continue
		}
		s := &all[0]
		switch {
		case f.Suppressed != nil:
			s = &all[2]
		case f.Finding.Level == audit.Info:
			s = &all[1]
		}
		if len(s.Rows) == maxRows {
			left++
			continue
		}
		s.Rows = append(s.Rows, v.row(f, at))
	}
	if left > 0 {
		v.Left = append(v.Left, fmt.Sprintf("%d rows of the table", left))
	}
	for _, s := range all {
		if len(s.Rows) > 0 {
			v.Sections = append(v.Sections, s)
		}
	}
}

// Seen is how many of the shards that depend on it have a column.
func (r row) Seen() int { return r.Hit - r.Unseen }

func (v *view) row(f *finding, at map[audit.Shard]int) row {
	r := row{finding: f, Marks: make([]mark, len(v.Columns)), Hit: len(f.Finding.Shards)}
	for i, c := range v.Columns {
		r.Marks[i] = mark{Shard: c.Shard.String(), Path: -1}
	}
	from, to := len(v.Columns), -1
	for k, s := range f.Finding.Shards {
		i, ok := at[s]
		if !ok {
			r.Unseen++
			continue
		}
		from, to = min(from, i), max(to, i)
		r.Marks[i].On = true
		if k < len(f.Finding.Paths) && f.Finding.Paths[k].Shard == s && len(v.Paths) < maxPaths {
			r.Marks[i].Path = len(v.Paths)
			v.Paths = append(v.Paths, shorten(f, &f.Finding.Paths[k]))
		}
	}
	for i := range r.Marks {
		class := []string{}
		add := func(name string, is bool) {
			if is {
				class = append(class, name)
			}
		}
		add("first", v.Columns[i].First)
		add("bar", from <= i && i <= to)
		add("from", i == from)
		add("to", i == to)
		r.Marks[i].Class = strings.Join(class, " ")
	}
	return r
}

func shorten(f *finding, p *audit.Path) path {
	out := path{Finding: f.Index, Name: name(f.Name), Shard: text(p.Shard.String()), Steps: []step{}}
	for i, s := range p.Steps {
		if i == maxSteps {
			out.Steps = append(out.Steps, step{Name: plural(len(p.Steps)-i, "more step"), Type: "…"})
			break
		}
		how := s.How
		if s.At != "" && s.At != s.How {
			how += " " + s.At
		}
		typ := s.Kind
		if s.Kind == "resource" || s.Kind == "external" && s.Type != "" {
			typ = s.Type
		}
		out.Steps = append(out.Steps, step{How: text(how), Stack: text(s.Stack), Name: text(cmp.Or(s.LogicalID, s.Name)), Type: text(typ)})
	}
	return out
}
