package audit

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Variant is what one app is synthesised to under one context.
type Variant struct {
	Name  string // of the directory that has it, with slashes; unique
	Input Input
}

// VariantRead is what was read of one variant.
type VariantRead struct {
	Name       string `json:"name"`
	Stacks     int    `json:"stacks"`
	Resources  int    `json:"resources"`
	References int    `json:"references"`
	Shards     int    `json:"shards"`
}

// RunVariants audits variants of one app, each by itself: they are never deployed together. Findings of one fingerprint
// are one, at the worst level; one that does not hold in all of them at that level names those in which it does. Waivers
// and the baseline are of the app: they speak of findings in whatever variant. Files of a report of several variants begin
// with the name of their variant. One variant alone is audited as Run does.
func RunVariants(variants []Variant, opt Options) Report {
	if len(variants) == 1 {
		return Run(variants[0].Input, opt)
	}
	m := merger{at: map[occurrence]int{}, report: Report{Schema: Schema, Findings: []Finding{}, Pools: []Pool{}, Skipped: []string{}}}
	for _, v := range variants {
		m.names = append(m.names, v.Name)
	}
	acks := map[ackKey]Waiver{}
	for i := range variants {
		r, own := examine(variants[i].Input, &opt)
		m.add(i, &r)
		for _, w := range own {
			w.home = i + 1
			if k := w.key(); acks[k].Rule == "" {
				acks[k] = w
			}
		}
	}
	m.finish()
	r := m.report
	r.settle(slices.SortedFunc(maps.Values(acks), func(a, b Waiver) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), compareAckKeys(a.key(), b.key()))
	}), &opt)
	for i := range r.Findings {
		r.Findings[i].settleIn(m.names)
	}
	return r
}

// ackKey tells acknowledgements apart that variants may have alike.
type ackKey struct{ rule, path, file, id, reason string }

func (w *Waiver) key() ackKey { return ackKey{w.Rule, w.path, w.File, w.id, w.Reason} }

func compareAckKeys(a, b ackKey) int {
	return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.file, b.file), strings.Compare(a.id, b.id), strings.Compare(a.reason, b.reason))
}

// occurrence is the nth finding of one fingerprint in a variant.
type occurrence struct {
	fingerprint string
	n           int
}

// merger puts the reports of variants together.
type merger struct {
	names  []string
	report Report
	at     map[occurrence]int
	levels []map[Level][]string // of each finding: in which variants it has which level
	shards map[Shard]bool
}

// add takes the report of variant i.
func (m *merger) add(i int, r *Report) {
	name, out := m.names[i], &m.report
	seen := map[string]int{}
	for _, f := range r.Findings {
		f.home = i + 1
		key := occurrence{fingerprint: f.fingerprint()}
		key.n = seen[key.fingerprint]
		seen[key.fingerprint]++
		at, ok := m.at[key]
		if !ok {
			m.at[key] = len(out.Findings)
			out.Findings = append(out.Findings, f)
			m.levels = append(m.levels, map[Level][]string{f.Level: {name}})
			continue
		}
		m.levels[at][f.Level] = append(m.levels[at][f.Level], name)
		if old := &out.Findings[at]; f.Level > old.Level || f.Level == old.Level && f.used() > old.used() {
			*old = f
		}
	}
	for _, p := range r.Pools {
		p.Variants = nil
		at := slices.IndexFunc(out.Pools, func(q Pool) bool { q.Variants = nil; return reflect.DeepEqual(p, q) })
		if at < 0 {
			at = len(out.Pools)
			out.Pools = append(out.Pools, p)
		}
		out.Pools[at].Variants = append(out.Pools[at].Variants, name)
	}
	for _, file := range r.Skipped {
		out.Skipped = append(out.Skipped, path.Join(name, file))
	}
	for k, rule := range r.Mapping {
		if k == len(out.Mapping) {
			out.Mapping = append(out.Mapping, Mapped{Rule: rule.Rule})
		}
		out.Mapping[k].Stacks += rule.Stacks
		out.Mapping[k].Resources += rule.Resources
	}
	if out.Proposal == nil {
		out.Proposal = r.Proposal
	}
	s := &r.Summary
	out.Variants = append(out.Variants, VariantRead{name, s.Stacks, s.Resources, s.References, len(s.Shards)})
	out.Summary.Stacks += s.Stacks
	out.Summary.Resources += s.Resources
	out.Summary.References += s.References
	if m.shards == nil {
		m.shards = map[Shard]bool{}
	}
	for _, shard := range s.Shards {
		m.shards[shard] = true
	}
}

func (f *Finding) used() int {
	if f.Limit == nil {
		return 0
	}
	return max(f.Limit.Used, f.Limit.Most)
}

// finish says of each finding and pool where it holds, when that is not everywhere.
func (m *merger) finish() {
	m.report.Summary.Shards = slices.SortedFunc(maps.Keys(m.shards), compareShards)
	if m.report.Summary.Shards == nil {
		m.report.Summary.Shards = []Shard{}
	}
	for i := range m.report.Findings {
		f := &m.report.Findings[i]
		if in := m.levels[i][f.Level]; len(in) < len(m.names) {
			f.Variants = in
		}
		for l := f.Level; l > Info; {
			l--
			if in := m.levels[i][l]; in != nil {
				f.Reason = join(f.Reason, fmt.Sprintf("%s in %s", l, strings.Join(in, ", ")))
			}
		}
	}
	for i := range m.report.Pools {
		if p := &m.report.Pools[i]; len(p.Variants) == len(m.names) {
			p.Variants = nil
		}
	}
	slices.SortStableFunc(m.report.Pools, func(a, b Pool) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Region, b.Region))
	})
}

// settleIn begins the files of a finding with the variant from which they are. Those of waivers are of none.
func (f *Finding) settleIn(names []string) {
	if f.home == 0 {
		return
	}
	name := names[f.home-1]
	in := func(file *string) {
		if *file != "" {
			*file = path.Join(name, *file)
		}
	}
	if f.Resource != nil {
		r := *f.Resource
		in(&r.File)
		f.Resource = &r
	}
	f.Paths = slices.Clone(f.Paths)
	for i := range f.Paths {
		in(&f.Paths[i].File)
	}
}
