package audit

import (
	"cmp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

type nodeKind uint8

const (
	resourceNode  nodeKind = iota
	parameterNode          // of a template
	outputNode             // of a template, exported or not
	conditionNode          // of a template
	externalNode           // something that no template that was read defines
)

// node is one thing in the graph. Nodes are ordered as their stacks are, and by name within one.
type node struct {
	kind  nodeKind
	stack int32 // -1 for what is external
	shard int32 // index into graph.shards, -1 for nobody's
	id    string
	typ   string // CloudFormation type; of an external one as far as known
	name  string // physical name, as far as known
	tags  map[string]string
	res   *template.Resource
}

// alias says whether a node stands for what it refers to.
func (n *node) alias() bool {
	return n.kind == parameterNode || n.kind == outputNode || n.typ == typeParameter
}

// how is what makes an edge.
type how uint8

const (
	byRef how = iota
	byGetAtt
	byImport
	byStackOutput
	byParameter // a typed parameter reads the SSM parameter
	byDynamic   // {{resolve:…}}
	byName
	byARN
	byID
	byCondition
	byOrder
	byNesting
	byPart       // one names the other within its ARN
	byEndpoint   // a host name or URL
	byAttachment // against the direction of the reference
)

var howNames = [...]string{"Ref", "Fn::GetAtt", "Fn::ImportValue", "Fn::GetStackOutput", "SSM parameter type",
	"dynamic reference", "name", "ARN", "id", "Condition", "DependsOn", "nested stack", "ARN", "endpoint", "attached by"}

// bond is how strong an edge is. A question about bonds up to one includes the stronger ones.
type bond uint8

const (
	strong   bond = iota // requests travel it, or what serves them needs it
	order                // it is deployed later
	observed             // it only watches, or is only let in
)

// edge says: when to fails, its owner fails.
type edge struct {
	to   int32
	how  how
	bond bond
	at   string // property path of the reference
}

// graph is everything that was read, as nodes and edges of fate.
type graph struct {
	stacks  []Stack
	places  []place // of the stacks
	mapping *mapping
	shards  []Shard
	scopes  []template.Scope // of the stacks
	nodes   []node
	// resources are the nodes of what a stack's template defines, by logical id.
	resources []map[string]int32
	out       [][]edge
	notes     []finding
	// crossings are what couples cells.
	crossings []finding
	// writers are who may change what is shared as identity or configuration.
	writers map[int32][]writer
	// hasShard are the stacks with a shard's resources in them.
	hasShard []bool
	// unseen is what the fleet has and the input lacks.
	unseen []unseenCell
	// joined are the attachments of each node in the direction of the reference: as edges they may run
	// the other way.
	joined map[int32][]joined
	// runtimeRead are the nodes that something other than CloudFormation's parameters reads.
	runtimeRead map[int32]bool
	// routerGroups are the security groups of the cells' routers.
	routerGroups map[int32]bool
	// boundaries are policies outside of what was read, whether roles have them as permissions boundary alone.
	boundaries map[int32]bool
}

func (g *graph) shardOf(i int32) int32 { return g.nodes[i].shard }

// maxAliases bounds how many nodes are followed to find what one alias stands for, so that a chain of
// exports cannot make the audit quadratic. Real chains have up to six.
const maxAliases = 64

// targets are the nodes that i stands for: itself, or what an alias leads to. Beyond maxAliases it is
// the alias that was reached.
func (g *graph) targets(i int32) []int32 {
	if !g.nodes[i].alias() {
		return []int32{i}
	}
	var found []int32
	seen := map[int32]bool{i: true}
	for todo := []int32{i}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		end := true
		if g.nodes[at].alias() && len(seen) < maxAliases {
			for _, e := range g.out[at] {
				if g.nodes[e.to].kind == conditionNode {
					continue
				}
				end = false
				if !seen[e.to] {
					seen[e.to] = true
					todo = append(todo, e.to)
				}
			}
		}
		if end {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return found
}

// joined is one attachment of a node: the property and what it leads to.
type joined struct {
	property string
	to       int32
	tie      tie
}

// named are the targets of the references and attachments of node i below property, directly or in a
// list.
func (g *graph) named(i int32, property string) []int32 {
	var found []int32
	for _, e := range g.out[i] {
		if e.how != byAttachment && firstKey(e.at) == property {
			found = append(found, g.targets(e.to)...)
		}
	}
	for _, j := range g.joined[i] {
		if j.property == property {
			found = append(found, j.to)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func firstKey(at string) string {
	first, _, _ := strings.Cut(at, ".")
	return first
}

// finish sorts the edges and drops the double ones, so that the graph is the same whatever the order in
// which it was built. The strongest of parallel edges comes first, so paths prefer it.
func (g *graph) finish() {
	for i, es := range g.out {
		slices.SortFunc(es, func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.bond, b.bond), cmp.Compare(a.how, b.how), strings.Compare(a.at, b.at))
		})
		g.out[i] = slices.CompactFunc(es, func(a, b edge) bool {
			return a.to == b.to && a.bond == b.bond && a.how == b.how && a.at == b.at
		})
	}
}
