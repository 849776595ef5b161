package audit_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// mutant is a sample fleet in which several shards use one resource where each had its own.
type mutant struct {
	testing testing.TB
	sample  sample
	one     bool // the cell is one stack
	res     shardResource
	home    home
	users   []string
	shared  string // logical id of what is shared, at home
}

// at is the stack of a shard and what precedes its logical ids there.
func (m *mutant) at(shard string) (path, prefix string) {
	if m.one {
		return "everything", onePrefix(shard)
	}
	return "eu-canary/shard-" + shard, ""
}

// make cuts the hole.
func (m *mutant) make(k sampleKind) {
	m.share(k)
	for _, shard := range m.users {
		path, prefix := m.at(shard)
		own := prefix + m.res.idIn("eu-canary", shard)
		m.sample.edit(m.testing, path, func(body object) {
			if k.apply != nil {
				k.apply(m, shard, prefix, body)
				return
			}
			uses := m.replaceUses(k, shard, own, body)
			if uses == 0 {
				m.setting(body, prefix, "SHARED", k.value(m, body, ""))
			}
		})
	}
}

// share puts the resource where it is to be shared: a shard's own stays what it is, anywhere else stands a copy of it and
// of what it needs.
func (m *mutant) share(k sampleKind) {
	if m.home.shard != "" {
		m.shared = m.res.idIn(m.home.cell, m.home.shard)
		if m.one {
			m.shared = onePrefix(m.home.shard) + m.shared
		}
		if k.named {
			m.sample.edit(m.testing, m.home.path, func(body object) { m.rename(body, m.shared) })
		}
		return
	}
	donor := m.sample["eu-canary/shard-s01"]
	if m.one {
		donor = m.sample["everything"]
	}
	_, prefix := m.at("s01")
	root := prefix + m.res.idIn("eu-canary", "s01")
	needed := closure(resourcesOf(donor.body), root)
	name := func(id string) string {
		if !needed[id] {
			return id
		}
		return "Shared" + strings.ReplaceAll(strings.TrimPrefix(id, prefix), "s01", "one")
	}
	copied := resourcesOf(renamed(donor.body, name))
	m.shared = name(root)
	m.sample.edit(m.testing, m.home.path, func(body object) {
		for id := range needed {
			r := replaced(copied[name(id)], func(v any) (any, bool) {
				s, ok := v.(string)
				// what is shared names nothing of the first shard, and what it needs at home is its home's
				s = strings.ReplaceAll(s, "s01", "one")
				if m.home.cell == "eu-2" {
					s = strings.ReplaceAll(s, "eu-canary", "eu-2")
				}
				return s, ok
			}).(object)
			delete(r, "DependsOn")
			if m.one {
				r["Metadata"] = object{"aws:cdk:path": "eu-canary/core/" + name(id)}
			}
			resourcesOf(body)[name(id)] = r
		}
		if p, ok := donor.body["Parameters"].(object); ok {
			for id, v := range p {
				if _, have := body["Parameters"].(object)[id]; !have {
					body["Parameters"].(object)[id] = replaced(v, func(v any) (any, bool) {
						s, ok := v.(string)
						if m.home.cell == "eu-2" {
							s = strings.ReplaceAll(s, "eu-canary", "eu-2")
						}
						return s, ok
					})
				}
			}
		}
		m.rename(body, m.shared)
	})
}

// rename gives a resource the name that all users know.
func (m *mutant) rename(body object, id string) {
	if m.res.name == "" {
		return
	}
	r := maps.Clone(resourcesOf(body)[id].(object))
	properties := maps.Clone(r["Properties"].(object))
	properties[m.res.name] = m.res.sharedName()
	r["Properties"] = properties
	resourcesOf(body)[id] = r
}

// closure are the resources that one leads to by reference, itself included.
func closure(resources object, root string) map[string]bool {
	seen := map[string]bool{root: true}
	for todo := []string{root}; len(todo) > 0; todo = todo[1:] {
		replaced(resources[todo[0]].(object)["Properties"], func(v any) (any, bool) {
			id, _, ok := reference(v)
			if _, own := resources[id]; ok && own && !seen[id] {
				seen[id] = true
				todo = append(todo, id)
			}
			return v, ok
		})
	}
	return seen
}

// observers are the types whose references no request travels: a use by one of them alone makes no hole.
var observers = []string{"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"}

// replaceUses takes the shard's own resource away and puts a reference to the shared one wherever the shard's others
// named it, by reference, by name or by ARN. It says in how many places something that works did.
func (m *mutant) replaceUses(k sampleKind, shard, own string, body object) int {
	resources := resourcesOf(body)
	ownName := ""
	if m.res.name != "" {
		ownName, _ = resources[own].(object)["Properties"].(object)[m.res.name].(string)
	}
	delete(resources, own)
	uses := 0
	for id, v := range resources {
		if m.one && !strings.HasPrefix(id, onePrefix(shard)) {
			continue
		}
		r := v.(object)
		counts := !slices.Contains(observers, r["Type"].(string))
		found := false
		properties := replaced(r["Properties"], func(v any) (any, bool) {
			attr, ok := m.names(v, own, ownName)
			if !ok {
				return nil, false
			}
			found = true
			if counts {
				uses++
			}
			return k.value(m, body, attr), true
		})
		after, ordered := r["DependsOn"].([]any)
		if ordered = ordered && slices.Contains(after, any(own)); !found && !ordered {
			continue
		}
		r = maps.Clone(r)
		r["Properties"] = properties
		if ordered {
			r["DependsOn"] = slices.DeleteFunc(slices.Clone(after), func(v any) bool { return v == own })
		}
		resources[id] = r
	}
	return uses
}

// names says whether a value is the shard's own resource, and by which attribute; "" is what Ref gives.
func (m *mutant) names(v any, own, ownName string) (attr string, ok bool) {
	if id, attr, ok := reference(v); ok && id == own {
		return attr, true
	}
	s, isText := v.(string)
	if !isText || ownName == "" {
		return "", false
	}
	if s == ownName {
		return "", !m.res.refARN
	}
	arn := strings.ReplaceAll(m.res.arn, "NAME", ownName)
	if arn != "" && (s == arn || s == arn+"/*") {
		return "Arn", true
	}
	return "", false
}

// setting adds an environment variable to the shard's function, or, where that is what was taken away, to its instances'
// launch template.
func (m *mutant) setting(body object, prefix, key string, v any) {
	worker, ok := resourcesOf(body)[prefix+"Worker11F36D0F"].(object)
	if !ok {
		m.testing.Fatalf("%s %s has no function to set %s at", m.res.typ, m.res.id, key)
	}
	change(body, prefix+"Worker11F36D0F", func(properties object) {
		environment := worker["Properties"].(object)["Environment"].(object)
		variables := maps.Clone(environment["Variables"].(object))
		variables[key] = v
		properties["Environment"] = object{"Variables": variables}
	})
}

// change changes a copy of one resource's properties.
func change(body object, id string, f func(properties object)) {
	r := maps.Clone(resourcesOf(body)[id].(object))
	properties := maps.Clone(r["Properties"].(object))
	f(properties)
	r["Properties"] = properties
	resourcesOf(body)[id] = r
}

// judge audits the mutant.
func (m *mutant) judge(name string, k sampleKind) {
	t := m.testing
	r := audit.Run(m.sample.input(), audit.Options{})
	var want []string
	for _, u := range m.users {
		want = append(want, "eu-canary/"+u)
	}
	if m.home.shard != "" {
		want = append(want, m.home.cell+"/"+m.home.shard)
	}
	slices.Sort(want)
	rule, own := m.res.rule, cmp.Or(m.res.own, m.res.rule)
	if k.rule != "" {
		rule, own = k.rule, k.rule
	}
	least := audit.Warning
	if k.observed && slices.Contains(observers, m.res.typ) {
		least = audit.Info // no request travels between two alarms
	}
	hit := false
	for _, f := range r.Findings {
		if f.Level < least || strings.HasPrefix(f.Rule, "PL") || strings.HasPrefix(f.Rule, "SC") {
			continue
		}
		var shards []string
		for _, s := range f.Shards {
			shards = append(shards, s.String())
		}
		slices.Sort(shards)
		itself := (f.Resource.LogicalID == m.shared || m.res.name != "" && f.Resource.Name == m.res.sharedName()) && f.Rule == own
		whole := m.res.found != "" && f.Resource.Type == m.res.found && f.Rule == rule
		if (itself || whole) && slices.Equal(shards, want) {
			hit = true
			continue
		}
		if f.Level < audit.Warning {
			continue
		}
		switch { // what the shared one needs is shared with it
		case m.home.shard == "" && slices.Equal(shards, want):
		case m.home.cell == "eu-2": // and with whoever shares it in its own cell
		case m.home.shard != "" && !slices.ContainsFunc(shards, func(s string) bool { return !slices.Contains(want, s) }):
		default:
			t.Errorf("%s: %s of %s %s is found with %v, want %v", name, f.Rule, f.Resource.Type, f.Resource.LogicalID, shards, want)
		}
	}
	if !hit {
		var got []string
		for _, f := range r.Findings {
			if f.Level >= audit.Review || f.Resource.LogicalID == m.shared {
				got = append(got, f.Level.String()+" "+f.Rule+" "+f.Message)
			}
		}
		t.Errorf("%s: survives: no %s of %s with %v in\n\t%s", name, rule, m.shared, want, strings.Join(got, "\n\t"))
	}
}
