package audit

import "cellwall.dev/cellwall/internal/template"

// The custom resources of CDK's crossRegionReferences: one in the producing stack writes values to the Parameter
// Store of another region, one in the consuming stack reads them there.
const (
	typeRegionWriter = "Custom::CrossRegionExportWriter"
	typeRegionReader = "Custom::CrossRegionExportReader"
)

// addRegionExports makes a node of each value that a stack writes to another region, by the name of its
// parameter there, which no template has as a resource.
func (b *builder) addRegionExports() {
	for i := range b.stacks {
		t := &b.stacks[i].Template
		for j := range t.Resources {
			r := &t.Resources[j]
			if r.Type != typeRegionWriter {
				continue
			}
			props, _ := r.Properties.Get("WriterProps")
			e := b.stacks[i].env()
			if v, ok := props.Get("region"); ok {
				if region, ok := single(b.scopes[i].Eval(v)); ok {
					e.region = region
				}
			}
			exports, _ := props.Get("exports")
			for k := range exports.Len() {
				if exports.Kind() != template.Map {
					break
				}
				name := exports.Key(k)
				key := nameKeyOf(e, typeParameter, name)
				if _, taken := b.byName[key]; taken {
					continue
				}
				to := b.add(node{kind: outputNode, stack: int32(i), shard: -1, id: name, name: name})
				b.byName[key] = to
				b.regionExports = append(b.regionExports, regionExport{i, to, exports.At(k)})
			}
		}
	}
}

// regionExport is one value that a stack writes to another region.
type regionExport struct {
	stack int
	node  int32
	value template.Node
}

// referRegionExports makes the edges of these values.
func (b *builder) referRegionExports() {
	for _, x := range b.regionExports {
		b.referValue(x.stack, x.node, x.value, []string{"Value"})
	}
}

// regionRead follows Fn::GetAtt of a reader to the one value that it names, and not to all that the reader reads.
func (b *builder) regionRead(i int, from, reader int32, path []string, attr string) bool {
	if b.nodes[reader].typ != typeRegionReader || attr == "" {
		return false
	}
	b.refer(from, b.parameterStore(b.stacks[i].env(), attr), byDynamic, path)
	return true
}
