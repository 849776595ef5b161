package audit

import "cellwall.dev/cellwall/internal/template"

// index finds physical names, exports and stacks by name.
func (b *builder) index() {
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.kind != resourceNode {
			continue
		}
		t := traitsOf(n.typ)
		if t.name == "" {
			continue
		}
		v, ok := n.res.Properties.Get(t.name)
		if !ok {
			continue
		}
		name, ok := oneText(b.scopes[n.stack], v)
		if !ok || name == "" {
			continue
		}
		n.name = name
		e := b.stacks[n.stack].env()
		key := nameKeyOf(e, n.typ, name)
		if first, taken := b.byName[key]; taken {
			// two resources of one name are one resource at AWS
			b.refer(int32(i), first, byName, []string{t.name})
			continue
		}
		b.byName[key] = int32(i)
		b.addBare(e, name, int32(i))
		for _, region := range b.replicaRegions(n) {
			there := env{e.account, region}
			if key := nameKeyOf(there, n.typ, name); region != e.region {
				if _, taken := b.byName[key]; !taken {
					b.byName[key] = int32(i)
					b.addBare(there, name, int32(i))
				}
			}
		}
	}
	for i := range b.stacks {
		s := &b.stacks[i]
		e := s.env()
		if _, taken := b.stackName[nameKey{env: e, name: s.Name}]; !taken {
			b.stackName[nameKey{env: e, name: s.Name}] = i
		}
		for _, o := range s.Template.Outputs {
			if !o.HasExport {
				continue
			}
			name, ok := single(b.scopes[i].Eval(o.Export))
			if !ok {
				b.review(reviewKey{&ruleUnresolved, s.File, o.ID, "the name of this export is not known before deployment"})
				continue
			}
			at := b.outputs[i][o.ID]
			b.nodes[at].name = name
			if _, taken := b.exports[nameKey{env: e, name: name}]; !taken {
				b.exports[nameKey{env: e, name: name}] = at
			}
		}
	}
}

// addBare notes a physical name in the account and region in which code may call it so.
func (b *builder) addBare(e env, name string, i int32) {
	if b.bareNames[e] == nil {
		b.bareNames[e] = map[string][]int32{}
	}
	b.bareNames[e][name] = append(b.bareNames[e][name], i)
}

// replicas are the properties that list the regions in which a resource stands again under its name, as one: what is
// written in one region is so in all.
var replicas = map[string]string{"AWS::DynamoDB::GlobalTable": "Replicas", "AWS::SecretsManager::Secret": "ReplicaRegions"}

// replicaRegions are the regions in which a resource has a replica, as far as they are known.
func (b *builder) replicaRegions(n *node) []string {
	property := replicas[n.typ]
	if property == "" {
		return nil
	}
	var out []string
	list, _ := n.res.Properties.Get(property)
	for k := range list.Len() {
		if list.Kind() != template.List {
			break
		}
		if v, ok := list.At(k).Get("Region"); ok {
			if region, ok := oneText(b.scopes[n.stack], v); ok {
				out = append(out, region)
			}
		}
	}
	return out
}

// nameKeyOf is the key of a physical name in the scope in which the type's names are unique.
func nameKeyOf(e env, typ, name string) nameKey {
	switch typ { // one namespace for two types
	case "AWS::DynamoDB::GlobalTable":
		typ = "AWS::DynamoDB::Table"
	case "AWS::CloudWatch::CompositeAlarm":
		typ = "AWS::CloudWatch::Alarm"
	}
	if made, ok := transformed[typ]; ok {
		typ = made
	}
	switch traitsOf(typ).global {
	case perAccount:
		e.region = ""
	case perPartition:
		e = env{}
	}
	return nameKey{e, typ, name}
}

// find is the resource of that type and name, and whether one was read. Where the environment of a
// template is unknown, its resources count as being in the one that asks.
func (b *builder) find(e env, typ, name string) (int32, bool) {
	for _, try := range []env{e, {unknownAccount, e.region}, {unknownAccount, unknownRegion}} {
		if i, ok := b.byName[nameKeyOf(try, typ, name)]; ok {
			return i, true
		}
	}
	return 0, false
}

// outside is the node of something that no template defines.
func (b *builder) outside(typ, id, name string) int32 {
	key := typ + " " + id
	if i, ok := b.external[key]; ok {
		return i
	}
	i := b.add(node{kind: externalNode, stack: -1, shard: -1, id: id, typ: typ, name: name})
	b.external[key] = i
	return i
}
