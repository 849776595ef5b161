package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// finding is a Finding before it is written out. node is -1 when there is none.
type finding struct {
	rule     *rule
	level    Level
	node     int32
	file, id string // of a review item
	message  string
	reason   string
	limit    *Limit
	fix      string // instead of the rule's
	shards   []int32
	on       []int32        // shards that a limit reaches, to which no path leads
	bond     bond           // the strongest over which it is shared
	resource *Resource      // of what is no node
	paths    []Path         // of a finding that has its own, instead of those of shards
	cells    map[place]bool // that draw on a pool
}

// Why nothing that is shared was judged.
const (
	noShards = "no stack or resource says which shard it belongs to: what is shared was not judged"
	oneShard = "one shard alone shares nothing: what is shared was not judged, audit the stacks of all shards together"
)

// Unjudged says why nothing that shards share was judged, or "" when it was.
func (r *Report) Unjudged() string {
	switch len(r.Summary.Shards) {
	case 0:
		return noShards + r.Proposal.text()
	case 1:
		return oneShard
	}
	return ""
}

// Run audits stacks. It cannot fail: what it cannot judge is a review item.
func Run(in Input, opt Options) Report {
	r, acks := examine(in, &opt)
	r.settle(acks, &opt)
	return r
}

// examine is a report of which nothing is suppressed yet, and the acknowledgements that the templates have.
func examine(in Input, options *Options) (Report, []Waiver) {
	opt := *options
	g := build(in, opt)
	if opt.Fleet != nil && len(g.fleetCells(opt.Fleet)) == 0 {
		opt.PerTenant = nil // that of another fleet
	}
	found := g.shareFindings()
	c := newCounter(g, opt)
	found = append(found, c.limitFindings()...)
	pools, over := c.concurrency()
	found = append(found, over...)
	found = append(found, g.versionFindings(opt.Fleet)...)
	found = append(found, g.crossings...)
	found = append(found, g.unseenFindings()...)
	found = append(found, g.withdrawnFindings(opt.Before)...)
	mapped, unused := g.mapping.report()
	found = append(found, unused...)
	found = append(found, g.notes...)
	proposal := g.propose()
	switch len(g.shards) {
	case 0: // an audit that could not tell one shard has nothing to vouch for, so it must not pass
		found = append(found, finding{rule: &ruleNoShards, level: Error, node: -1, message: noShards, fix: proposal.fix(&ruleNoShards)})
	case 1:
		found = append(found, finding{rule: &ruleNoShards, level: Review, node: -1, message: oneShard, fix: proposal.fix(&ruleNoShards)})
	default:
		if proposal != nil {
			found = append(found, finding{rule: &ruleUnplaced, level: Review, node: -1, fix: proposal.fix(&ruleUnplaced),
				message: plural(proposal.Stacks, "stack") + " belong nowhere and are like each other, as shards are: what they share was not judged"})
		}
	}
	all := g.size(&opt)
	for i := range found {
		found[i].weigh(all)
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(-cmp.Compare(a.level, b.level), -cmp.Compare(len(a.shards)+len(a.on), len(b.shards)+len(b.on)),
			strings.Compare(a.rule.id, b.rule.id), cmp.Compare(a.node, b.node))
	})
	r := Report{Schema: Schema, Findings: g.write(found, &opt), Pools: pools, Mapping: mapped, Proposal: proposal, Skipped: slices.Sorted(slices.Values(in.Skipped))}
	if r.Skipped == nil {
		r.Skipped = []string{}
	}
	r.Summary = g.summary()
	return r, g.acknowledgements()
}

// summary is what was read; what was found is counted when the findings are settled.
func (g *graph) summary() Summary {
	s := Summary{Stacks: len(g.stacks), Shards: append([]Shard{}, g.shards...)}
	for i := range g.nodes {
		if g.nodes[i].kind == resourceNode {
			s.Resources++
		}
		s.References += len(g.out[i])
	}
	return s
}

// count counts findings, those that are suppressed apart.
func (s *Summary) count(fs []Finding) {
	s.Findings = map[string]int{}
	for _, name := range levelNames {
		s.Findings[name] = 0
	}
	for i := range fs {
		if fs[i].Suppressed != nil {
			s.Suppressed++
			continue
		}
		s.Findings[fs[i].Level.String()]++
	}
}

// shareFindings are the resources on which more than one shard depends.
func (g *graph) shareFindings() []finding {
	if len(g.shards) < 2 {
		return nil
	}
	by := g.shares()
	inCell := map[place]int{}
	for _, s := range g.shards {
		inCell[place{Service: s.Service, Cell: s.Cell}]++
	}
	var out []finding
	for i := range int32(len(g.nodes)) {
		n := &g.nodes[i]
		if n.kind != resourceNode && n.kind != externalNode || !by[observed].shared(i) {
			continue
		}
		f := finding{node: i}
		for !by[f.bond].shared(i) {
			f.bond++
		}
		f.shards = by[f.bond].of(i)
		g.judge(&f, by[f.bond])
		f.message = g.dependMessage(&f, inCell)
		out = append(out, f)
	}
	return out
}

// judge decides rule, level and reason of a shared resource.
func (g *graph) judge(f *finding, s *sharers) {
	n := &g.nodes[f.node]
	t := traitsOf(n.typ)
	f.rule = t.rule
	if n.kind == externalNode && (n.typ == typeParameter || n.typ == typeExport) {
		f.rule, f.level = &ruleUnresolved, Review
		f.reason = "what it stands for was not read"
		if strings.HasPrefix(n.id, "/aws/") {
			f.rule, f.level, f.reason = &ruleValue, Info, "AWS publishes it; it is read at deployment"
		}
		return
	}
	f.level, f.fix = f.rule.level, fixes[n.typ]
	if reason := g.expected(f.node); reason != "" && !g.beyondCell(f, reason) {
		f.level, f.reason = Info, reason
		return
	}
	switch f.bond {
	case order:
		f.rule, f.level, f.fix = &ruleOrder, ruleOrder.level, ""
		f.reason = "only DependsOn leads to it: no request does, but a failed update of it holds back the shards behind it"
		return
	case observed:
		f.level, f.reason = Info, "only alarms, dashboards or trust policies lead to it: no request does"
		return
	}
	for _, whole := range g.named(f.node, t.partOf) {
		if t.partOf != "" && whole != f.node && s.covers(whole, f.node) {
			f.level, f.reason = Info, "part of "+g.describe(whole)+", which is judged itself"
			return
		}
	}
	if n.typ == typeParameter && g.readAtDeployment(f.node) {
		f.level, f.reason = Info, "CloudFormation reads it at deployment; what it names is judged itself"
		return
	}
	if f.level == Warning {
		if why := g.severalWrite(f, s); why != "" {
			f.level, f.reason = Error, why
		}
	}
}

// readAtDeployment says whether only CloudFormation reads an SSM parameter, and no running code.
func (g *graph) readAtDeployment(i int32) bool {
	if g.runtimeRead == nil {
		g.runtimeRead = map[int32]bool{}
		for _, es := range g.out {
			for _, e := range es {
				if e.how != byParameter && e.how != byDynamic {
					g.runtimeRead[e.to] = true
				}
			}
		}
	}
	return !g.runtimeRead[i]
}

// dependMessage is "8 of 16 shards of cell eu-1 depend on …".
func (g *graph) dependMessage(f *finding, inCell map[place]int) string {
	var cells []place
	for _, i := range f.shards {
		cells = append(cells, place{Service: g.shards[i].Service, Cell: g.shards[i].Cell})
	}
	cells = slices.Compact(cells) // shards are sorted by service and cell
	total := 0
	var labels []string
	for _, c := range cells {
		total += inCell[c]
		labels = append(labels, cmp.Or(c.Cell, "without a name"))
	}
	where := " of cell " + labels[0]
	switch {
	case len(labels) > 1:
		where = fmt.Sprintf(" of %d cells (%s)", len(labels), strings.Join(labels, ", "))
	case cells[0].Cell == "":
		where = ""
	}
	n := &g.nodes[f.node]
	noun := f.rule.noun
	if f.rule != &ruleOrder { // whose word says what the resource is shared by
		noun = nounOf(n.typ, noun)
	}
	if n.kind == externalNode {
		noun += " outside of what was read,"
	}
	return fmt.Sprintf("%d of %d shards%s depend on %s %s", len(f.shards), total, where, noun, quote(cmp.Or(n.name, g.pathOf(n), n.id)))
}

// pathOf is the construct path of a resource, or "".
func (g *graph) pathOf(n *node) string {
	if n.stack < 0 {
		return ""
	}
	if p := g.stacks[n.stack].Paths[n.id]; p != "" {
		return p
	}
	if n.res != nil {
		return n.res.Metadata.GetString("aws:cdk:path")
	}
	return ""
}

// write turns findings into their public form, with paths.
func (g *graph) write(found []finding, opt *Options) []Finding {
	out := make([]Finding, len(found))
	var wants [observed + 1][][]int // by bond and shard: findings
	for b := range wants {
		wants[b] = make([][]int, len(g.shards))
	}
	for i, f := range found {
		out[i] = Finding{Rule: f.rule.id, Level: f.level, Message: f.message, Reason: f.reason, Limit: f.limit, Fix: cmp.Or(f.fix, f.rule.fix), Resource: g.where(&f),
			Hits: g.hits(&f, opt)}
		if f.level == Info {
			out[i].Fix = ""
		}
		if out[i].Paths = f.paths; f.paths != nil {
			for _, p := range f.paths {
				if p.Shard.ID != "" && f.on == nil {
					out[i].Shards = append(out[i].Shards, p.Shard)
				}
			}
		}
		if f.paths != nil {
			for _, shard := range f.on {
				out[i].Shards = append(out[i].Shards, g.shards[shard])
			}
		}
		for _, shard := range f.shards {
			out[i].Shards = append(out[i].Shards, g.shards[shard])
			wants[f.bond][shard] = append(wants[f.bond][shard], i)
		}
	}
	most := pathsPerFinding(found)
	s := g.searcher()
	for shard := range g.shards {
		for b := range wants {
			if len(wants[b][shard]) == 0 {
				continue
			}
			s.search(int32(shard), bond(b))
			for _, i := range wants[b][shard] {
				if len(out[i].Paths) == most {
					continue
				}
				out[i].Paths = append(out[i].Paths, g.witness(g.shards[shard], s.path(found[i].node)))
			}
		}
	}
	return out
}

// Bounds on the paths of one report: a template of thousands of resources that hundreds of shards reach
// would otherwise have millions, which nobody reads.
const (
	maxPaths = 200_000
	fewPaths = 3
)

// pathsPerFinding is how many paths each finding gets: all, unless there are too many in all.
func pathsPerFinding(found []finding) int {
	total, most := 0, 0
	for _, f := range found {
		total += len(f.shards)
		most = max(most, len(f.shards))
	}
	if total > maxPaths {
		return fewPaths
	}
	return most
}

func (g *graph) where(f *finding) *Resource {
	if f.resource != nil {
		return f.resource
	}
	if f.node < 0 {
		if f.file == "" {
			return nil
		}
		r := &Resource{File: f.file, LogicalID: f.id}
		for i := range g.stacks {
			if st := &g.stacks[i]; st.File == f.file {
				r.Stack, r.Path = st.Name, st.Paths[f.id]
				if f.id == "" {
					r.Path = st.Path
				}
			}
		}
		return r
	}
	n := &g.nodes[f.node]
	r := &Resource{Type: n.typ, Name: n.name}
	if n.stack < 0 {
		r.Name = n.id
		return r
	}
	st := &g.stacks[n.stack]
	r.File, r.Stack, r.LogicalID, r.Path = st.File, st.Name, n.id, g.pathOf(n)
	return r
}

// witness is the path of a shard, or of a cell's core, over these hops.
func (g *graph) witness(of place, hops []hop) Path {
	p := Path{Shard: of, Steps: g.steps(hops)}
	if len(hops) > 0 {
		if st := g.nodes[hops[0].node].stack; st >= 0 {
			p.File = g.stacks[st].File
		}
	}
	return p
}

var kindNames = [...]string{"resource", "parameter", "output", "condition", "external"}

func (g *graph) steps(hops []hop) []Step {
	steps := make([]Step, len(hops))
	for i, h := range hops {
		n := &g.nodes[h.node]
		st := Step{Kind: kindNames[n.kind], Type: n.typ, Name: n.name, LogicalID: n.id}
		if n.stack >= 0 {
			st.Stack = g.stacks[n.stack].Name
		} else {
			st.Name, st.LogicalID = n.id, ""
		}
		if h.edge != nil {
			st.How, st.At = howNames[h.edge.how], h.edge.at
		}
		steps[i] = st
	}
	return steps
}
