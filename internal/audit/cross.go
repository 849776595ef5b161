package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The rules about what couples cells. A cell bounds a catastrophe only while nothing of it needs another cell.
var (
	ruleCrossExport    = rule{"SC001", Error, "export", "let each cell make its own, or pass the value through what belongs to no cell: while the import stands, the export's cell can neither change nor leave it"}
	ruleCrossParameter = rule{"SC002", Error, "SSM parameter", "write the value into the reading cell, too: otherwise one cell's edit changes another one at its next deployment"}
	ruleCrossName      = rule{"SC003", Error, "resource", "use the cell's own: with the other cell's, a fault of that cell is a fault of this one"}
	ruleCrossNetwork   = rule{"SC004", Error, "network path", "remove it: cells reach each other through their public front doors or not at all"}
	ruleCrossOrder     = rule{"SC005", Error, "stack", "remove the dependency, so that each cell can be deployed and rolled back while the other one is broken"}

	crossRules = []rule{ruleCrossExport, ruleCrossParameter, ruleCrossName, ruleCrossNetwork, ruleCrossOrder, ruleWithdrawn}
)

// cellOf is the cell of a node, as far as it is known; ID is always "".
func (b *builder) cellOf(i int32) place {
	n := &b.nodes[i]
	switch {
	case n.shard >= 0:
		return b.shards[n.shard].cell()
	case n.stack < 0:
		return b.cellOfName(n.name)
	case int(i) < len(b.owners) && b.owners[i].Cell != "":
		return b.owners[i].cell()
	}
	return b.places[n.stack].cell()
}

func (s Shard) cell() place { return place{Service: s.Service, Cell: s.Cell} }

// addCells finds the cells whose names can be recognised in others' strings: SERVICE-CELL-… is one.
func (b *builder) addCells(f *Fleet) {
	b.cells = map[string]place{}
	add := func(p place) {
		if p.Service != "" && p.Cell != "" {
			b.cells[p.Service+"-"+p.Cell] = p
		}
	}
	for _, p := range b.owners {
		add(p.cell())
	}
	for _, p := range b.places {
		add(p.cell())
	}
	for _, c := range b.fleetCells(f) {
		add(place{Service: f.Service, Cell: c.Name})
	}
}

// cellOfName is the cell that a physical name, path or host of cellwall's own names begins or ends with.
func (b *builder) cellOfName(name string) place {
	if len(b.cells) == 0 {
		return place{}
	}
	if rest, ok := strings.CutPrefix(name, "/cellwall/"); ok { // /cellwall/SERVICE/CELL/…
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 {
			return b.cells[parts[0]+"-"+parts[1]]
		}
		return place{}
	}
	if rest, ok := strings.CutSuffix(name, ".internal"); ok { // SHARD.CELL.SERVICE.internal
		if parts := strings.Split(rest, "."); len(parts) > 1 {
			return b.cells[parts[len(parts)-1]+"-"+parts[len(parts)-2]]
		}
		return place{}
	}
	for end := strings.LastIndexByte(name, '-'); end > 0; end = strings.LastIndexByte(name[:end], '-') {
		if p, ok := b.cells[name[:end]]; ok { // the longest one: eu-1 before eu
			return p
		}
	}
	return place{}
}

// apart says whether two places are in two cells. Services may share a cell's name: then it is one.
func apart(a, b place) bool { return a.Cell != "" && b.Cell != "" && a.Cell != b.Cell }

// crossing is one reference from one cell to another.
type crossing struct {
	from, to int32
	edge     edge
}

// cross finds what couples cells: every reference between resources of two, whichever way fate runs along it.
func (b *builder) cross() []finding {
	type key struct {
		rule *rule
		to   int32
	}
	found := map[key][]crossing{}
	note := func(from int32, e edge) {
		if e.how == byAttachment || !apart(b.cellOf(from), b.cellOf(e.to)) || peerings[b.nodes[from].typ] != nil {
			return
		}
		k := key{b.crossRule(&e), e.to}
		found[k] = append(found[k], crossing{from, e.to, e})
	}
	for i := range int32(len(b.nodes)) {
		for _, e := range b.out[i] {
			note(i, e)
		}
	}
	for _, p := range b.pending {
		note(p.from, edge{to: p.to, how: p.how, at: p.at})
	}
	keys := slices.SortedFunc(maps.Keys(found), func(x, y key) int {
		return cmp.Or(strings.Compare(x.rule.id, y.rule.id), cmp.Compare(x.to, y.to))
	})
	back := b.users()
	var out []finding
	for _, k := range keys {
		out = append(out, b.crossFinding(k.rule, k.to, found[k], back))
	}
	out = append(out, b.peers()...)
	return append(out, b.crossOrder()...)
}

func (b *builder) crossRule(e *edge) *rule {
	switch e.how {
	case byImport, byStackOutput:
		return &ruleCrossExport
	case byParameter:
		return &ruleCrossParameter
	case byDynamic, byARN, byName:
		if n := &b.nodes[e.to]; n.typ == typeParameter || n.kind == outputNode {
			return &ruleCrossParameter
		}
	case byRef, byGetAtt, byNesting, byCondition, byOrder:
		return &ruleCrossOrder // one stack holds resources of two cells
	}
	return &ruleCrossName
}

// users are, for each node that is no resource, a reference to it, the first one.
func (b *builder) users() map[int32]crossing {
	back := map[int32]crossing{}
	for i := range int32(len(b.nodes)) {
		for _, e := range b.out[i] {
			if k := b.nodes[e.to].kind; k == resourceNode || k == externalNode {
				continue
			}
			if _, ok := back[e.to]; !ok {
				back[e.to] = crossing{i, e.to, e}
			}
		}
	}
	return back
}

// crossFinding is one thing of a cell that others name, with one path for each shard, or cell's core, that does.
func (b *builder) crossFinding(r *rule, to int32, cs []crossing, back map[int32]crossing) finding {
	f := finding{rule: r, level: Info, node: to}
	paths := map[place]Path{}
	for _, c := range cs {
		if c.edge.bond != observed {
			f.level = r.level
		}
		hops := []hop{{node: c.from}, {node: to, edge: &c.edge}}
		for range maxNestedSteps {
			u, ok := back[hops[0].node]
			if !ok || b.nodes[hops[0].node].kind == resourceNode {
				break
			}
			hops[0].edge = &u.edge
			hops = append([]hop{{node: u.from}}, hops...)
		}
		p := b.cellOf(c.from)
		if s := b.nodes[hops[0].node].shard; s >= 0 {
			p = b.shards[s]
		}
		if old, ok := paths[p]; !ok || len(hops) < len(old.Steps) {
			paths[p] = b.witness(p, hops)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(paths), compareShards) {
		f.paths = append(f.paths, paths[p])
	}
	if f.level == Info {
		f.reason = "only alarms, dashboards or trust policies name it: no request needs it"
	}
	n := &b.nodes[to]
	noun := r.noun
	switch {
	case r == &ruleCrossOrder || r == &ruleCrossName && n.typ != "":
		noun = "value"
		if n.typ != "" {
			noun = nounOf(n.typ, traitsOf(n.typ).rule.noun)
		}
	case n.kind == outputNode && n.name == "": // which Fn::GetStackOutput reads
		noun = "output"
	}
	f.message = fmt.Sprintf("%s %s %s of cell %s", cellsOf(f.paths, "depends on", "depend on"), noun, quote(b.label(to)), b.cellOf(to).Cell)
	return f
}

// maxNestedSteps bounds how far a path goes back from a value to the resource that uses it.
const maxNestedSteps = 16

// cellsOf names the cells of paths, and the verb that fits them.
func cellsOf(paths []Path, one, many string) string {
	cells := map[string]bool{}
	for i := range paths {
		cells[paths[i].Shard.Cell] = true
	}
	names := slices.Sorted(maps.Keys(cells))
	if len(names) == 1 {
		return "cell " + names[0] + " " + one
	}
	return fmt.Sprintf("%d cells (%s) %s", len(names), strings.Join(names, ", "), many)
}

// crossOrder finds the stacks for which those of another cell wait: the manifest says so.
func (b *builder) crossOrder() []finding {
	at := map[StackID]int{}
	for i := range b.stacks {
		at[StackID{b.stacks[i].Name, b.stacks[i].File}] = i
	}
	waits := map[int][]Path{}
	for i := range b.stacks {
		for _, id := range b.stacks[i].After {
			j, ok := at[id]
			if !ok || !apart(b.places[i], b.places[j]) {
				continue
			}
			waits[j] = append(waits[j], Path{Shard: b.places[i], File: b.stacks[i].File, Steps: []Step{{Kind: "stack", Stack: b.stacks[i].Name},
				{Kind: "stack", Stack: b.stacks[j].Name, How: howNames[byOrder], At: "dependencies"}}})
		}
	}
	var out []finding
	for _, j := range slices.Sorted(maps.Keys(waits)) {
		paths := waits[j]
		slices.SortStableFunc(paths, func(x, y Path) int { return compareShards(x.Shard, y.Shard) })
		paths = slices.CompactFunc(paths, func(x, y Path) bool { return x.Shard == y.Shard })
		out = append(out, finding{rule: &ruleCrossOrder, level: Error, node: -1, file: b.stacks[j].File, paths: paths,
			message: fmt.Sprintf("%s for stack %s of cell %s to be deployed first", cellsOf(paths, "waits", "wait"), quote(b.stacks[j].Name), b.places[j].Cell)})
	}
	return out
}
