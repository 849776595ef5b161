package audit

import (
	"cmp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// nameKey finds a resource by its physical name. Account and region are "" where the name is unique
// beyond them.
type nameKey struct {
	env
	typ, name string
}

// builder builds the graph. Its maps find nodes by what references say.
type builder struct {
	*graph
	params        []map[string]int32 // by stack and logical id
	outputs       []map[string]int32
	conds         []map[string]int32
	nested        []map[string]int // by stack and logical id: the stack nested there
	parent        []int            // by stack: the one that holds it, or -1
	byName        map[nameKey]int32
	bareNames     map[env]map[string][]int32 // for strings that may be names of any type
	exports       map[nameKey]int32
	stackName     map[nameKey]int
	external      map[string]int32
	pending       []tied
	patterns      []patternUse
	maybes        []maybe
	literals      map[literal]map[int32]mention // by shard
	ordered       []bool                        // by stack: whether its deployment order can hold back a shard
	reviews       map[reviewKey]bool
	regionExports []regionExport
	owners        []place          // of the nodes that templates define, by what names them alone
	cells         map[string]place // by SERVICE-CELL
	keys          [4]string        // of keysOf
	walker        template.Walker
	paths         map[string]string // property paths, each once
	path          []byte            // of dotted
}

// build makes the graph of everything that was read.
func build(in Input, opt Options) *graph {
	stacks := slices.Clone(in.Stacks)
	slices.SortFunc(stacks, func(a, b Stack) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File))
	})
	m := newMapping(opt.Mapping)
	g := &graph{stacks: stacks, places: placesOf(stacks, m), mapping: m, joined: map[int32][]joined{}}
	b := &builder{
		graph: g, byName: map[nameKey]int32{}, bareNames: map[env]map[string][]int32{}, exports: map[nameKey]int32{},
		stackName: map[nameKey]int{}, external: map[string]int32{}, reviews: map[reviewKey]bool{}, literals: map[literal]map[int32]mention{}, paths: map[string]string{},
	}
	b.nest()
	b.owners = b.addNodes()
	b.wholeCells(b.owners)
	b.addShards(b.owners)
	b.addCells(opt.Fleet)
	b.addOrdered()
	b.index()
	b.addRegionExports()
	for i := range stacks {
		b.referStack(i)
	}
	b.referRegionExports()
	b.tieUp()
	b.findWriters()
	g.findRouterGroups()
	g.findBoundaries()
	b.judgePatterns()
	b.judgeMaybes()
	b.judgeLiterals()
	g.finish()
	for _, n := range in.Notes {
		b.review(reviewKey{rule: &ruleUnread, file: n.File, what: n.What})
	}
	for k := range m.against {
		b.review(k)
	}
	g.notes = b.findings()
	g.crossings = b.cross()
	g.unseen = g.findUnseen(opt.Fleet)
	return g
}

// nest finds the parent of each nested stack and gives it the parent's place and environment.
func (b *builder) nest() {
	type key struct{ name, file string }
	byFile := make(map[key]int, len(b.stacks))
	for i := range b.stacks {
		byFile[key{b.stacks[i].Name, b.stacks[i].File}] = i
		b.nested = append(b.nested, map[string]int{})
		b.parent = append(b.parent, -1)
	}
	for i := range b.stacks {
		s := &b.stacks[i]
		if s.Nested == nil {
			continue
		}
		if p, ok := byFile[key{s.Nested.Name, s.Nested.File}]; ok && p != i {
			b.nested[p][s.Nested.Resource] = i
			b.parent[i] = p
		}
	}
	// places go down from the outermost; a chain of parents is as long as there are stacks at most
	for range b.stacks {
		changed := false
		for p, children := range b.nested {
			for _, c := range children {
				if b.places[c].nowhere() && !b.places[p].nowhere() {
					b.places[c] = b.places[p]
					changed = true
				}
			}
		}
		if !changed {
			break
		}
	}
	for i := range b.stacks {
		b.scopes = append(b.scopes, b.stacks[i].scope())
	}
	b.passValues()
}

// passValues gives each nested stack the parameter values that its parent passes, outermost first. What
// the parent itself does not know is no value, and no reason to take the default instead.
func (b *builder) passValues() {
	var todo []int
	for i, p := range b.parent {
		if p < 0 {
			todo = append(todo, i)
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		for id, c := range b.nested[p] {
			r := resourceOf(&b.stacks[p].Template, id)
			if r == nil {
				continue
			}
			todo = append(todo, c)
			passed, _ := r.Properties.Get("Parameters")
			sc := &b.scopes[c]
			sc.Values, sc.Unknown = map[string]string{}, map[string]bool{}
			for i := range passed.Len() {
				if passed.Kind() != template.Map {
					break
				}
				if v, ok := oneText(b.scopes[p], passed.At(i)); ok {
					sc.Values[passed.Key(i)] = v
				} else {
					sc.Unknown[passed.Key(i)] = true
				}
			}
		}
	}
}

// resourceOf is the resource of that logical id, or nil.
func resourceOf(t *template.Template, id string) *template.Resource {
	i, ok := slices.BinarySearchFunc(t.Resources, id, func(r template.Resource, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return &t.Resources[i]
}

func (b *builder) add(n node) int32 {
	b.nodes = append(b.nodes, n)
	b.out = append(b.out, nil)
	return int32(len(b.nodes) - 1)
}

// addNodes makes a node of everything that the templates define, and says where each belongs.
func (b *builder) addNodes() []place {
	count := 0
	for i := range b.stacks {
		t := &b.stacks[i].Template
		count += len(t.Resources) + len(t.Parameters) + len(t.Outputs) + len(t.Conditions)
	}
	b.nodes, b.out = make([]node, 0, count), make([][]edge, 0, count)
	owners := make([]place, 0, count)
	own := func(p place) { owners = append(owners, p) }
	for i := range b.stacks {
		s := &b.stacks[i]
		resources := make(map[string]int32, len(s.Template.Resources))
		for j := range s.Template.Resources {
			r := &s.Template.Resources[j]
			path := s.Paths[r.ID]
			if path == "" {
				path = r.Metadata.GetString("aws:cdk:path")
			}
			tags := tagsOf(r, b.scopes[i], b.mapping.keys)
			resources[r.ID] = b.add(node{kind: resourceNode, stack: int32(i), id: r.ID, typ: r.Type, res: r, tags: tags})
			own(b.mapping.placeOfResource(s, r.ID, path, b.places[i], tags))
		}
		values := func(kind nodeKind, n int, id func(int) string) map[string]int32 {
			m := make(map[string]int32, n)
			for j := range n {
				m[id(j)] = b.add(node{kind: kind, stack: int32(i), shard: -1, id: id(j)})
				own(place{})
			}
			return m
		}
		t := &s.Template
		b.resources = append(b.resources, resources)
		b.params = append(b.params, values(parameterNode, len(t.Parameters), func(j int) string { return t.Parameters[j].ID }))
		b.outputs = append(b.outputs, values(outputNode, len(t.Outputs), func(j int) string { return t.Outputs[j].ID }))
		b.conds = append(b.conds, values(conditionNode, len(t.Conditions), func(j int) string { return t.Conditions[j].ID }))
	}
	return owners
}

// wholeCell is the one shard of a cell where the mapping says cells and nothing says shards.
const wholeCell = "all"

// wholeCells makes each cell one shard where the mapping says cells and nothing says shards: the cell is then what is
// not to fail with its siblings.
func (b *builder) wholeCells(owners []place) {
	if len(b.mapping.rules) == 0 || slices.ContainsFunc(owners, func(p place) bool { return p.ID != "" }) {
		return
	}
	for i := range owners {
		if owners[i].Cell != "" {
			owners[i].ID = wholeCell
		}
	}
}

// addShards numbers the shards in their order and gives each node its own.
func (b *builder) addShards(owners []place) {
	// a place that does not say its service is of the one that its cell has elsewhere
	service := map[string]string{}
	for _, p := range owners {
		if p.Service == "" {
			continue
		}
		if other, ok := service[p.Cell]; ok && other != p.Service {
			service[p.Cell] = ""
			continue
		}
		service[p.Cell] = p.Service
	}
	seen := map[Shard]int32{}
	for i := range owners {
		if owners[i].ID == "" {
			continue
		}
		owners[i].Service = cmp.Or(owners[i].Service, service[owners[i].Cell])
		if _, ok := seen[owners[i]]; !ok {
			seen[owners[i]] = 0
			b.shards = append(b.shards, owners[i])
		}
	}
	slices.SortFunc(b.shards, compareShards)
	for i, s := range b.shards {
		seen[s] = int32(i)
	}
	b.hasShard = make([]bool, len(b.stacks))
	for i := range b.nodes {
		b.nodes[i].shard = -1
		if owners[i].ID != "" {
			b.nodes[i].shard = seen[owners[i]]
			b.hasShard[b.nodes[i].stack] = true
		}
	}
}

// addOrdered finds the stacks whose deployment order can hold back a shard: one of its resources is in
// the stack, or in a stack nested there. DependsOn orders one operation of one stack, so that what a
// shared stack makes last keeps no shard's own stack waiting.
func (b *builder) addOrdered() {
	b.ordered = make([]bool, len(b.stacks))
	for i := range b.nodes {
		if b.nodes[i].shard < 0 {
			continue
		}
		for s := int(b.nodes[i].stack); s >= 0 && !b.ordered[s]; s = b.parent[s] {
			b.ordered[s] = true
		}
	}
}
