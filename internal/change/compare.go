package change

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Types with rules of their own.
const (
	typeFunction  = "AWS::Lambda::Function"
	typeVersion   = "AWS::Lambda::Version"
	typeParameter = "AWS::SSM::Parameter"
)

// comparison is the work of one Compare.
type comparison struct {
	was, next side
	table     map[string]resourceType
	edits     []Edit
	found     map[stackKey]map[string]*Resource // by logical id, in stacks of both sides
	passed    map[shared]news                   // what stacks are given from others
}

// own finds what the templates themselves say, resource by resource, in the stacks of both sides.
func (c *comparison) own() {
	c.found = map[stackKey]map[string]*Resource{}
	for i := range c.next.stacks {
		b := &c.next.stacks[i]
		a := c.was.stack(keyOf(b))
		if a == nil {
			continue
		}
		found := map[string]*Resource{}
		for j := range a.Template.Resources {
			r := &a.Template.Resources[j]
			if find(&b.Template, r.ID) == nil {
				found[r.ID] = gone(a, r)
			}
		}
		for j := range b.Template.Resources {
			r := &b.Template.Resources[j]
			old := find(&a.Template, r.ID)
			if old == nil {
				found[r.ID] = entry(b, r, Added)
			} else if e := c.changed(a, b, old, r); e != nil {
				found[r.ID] = e
			}
		}
		versions(found, a, b)
		c.found[keyOf(b)] = found
	}
}

// entry is the report of one resource, without what changes.
func entry(s *audit.Stack, r *template.Resource, kind Kind) *Resource {
	e := &Resource{ID: r.ID, Type: r.Type, Path: pathIn(s, r.ID), Kind: kind, Stateful: stateful(r)}
	e.Name = nameOf(s, r)
	if kind == Added || kind == Removed {
		template.Uses(r.Properties, e.names)
	}
	return e
}

// gone is the report of a resource that is removed.
func gone(s *audit.Stack, r *template.Resource) *Resource {
	e := entry(s, r, Removed)
	e.Kept = retained(r.DeletionPolicy)
	if r.DeletionPolicy == "Snapshot" {
		e.Why = append(e.Why, "a snapshot of it is taken first")
	}
	return e
}

// nameOf is a resource's physical name, or "" where AWS gives it one or it is not known.
func nameOf(s *audit.Stack, r *template.Resource) string {
	property, ok := naming[r.Type]
	if !ok {
		return ""
	}
	v, ok := r.Properties.Get(property)
	if !ok {
		return ""
	}
	name, _ := literal(scope(s), v)
	return name
}

// A construct's id may have another's unique id in it: that one's path, without all that is no letter and no
// digit, and hashDigits digits of a hash.
var alnum = regexp.MustCompile(`[A-Za-z0-9]+`)

const hashDigits = 8

// pathIn is the construct path of a logical id below its stack, or "". Where it has another construct's path in
// it, the stack's is left out of that, too, so that shards of one make have the same paths.
func pathIn(s *audit.Stack, id string) string {
	path := s.Paths[id]
	if path == "" {
		return ""
	}
	path = strings.TrimPrefix(strings.TrimPrefix(path, s.Path), "/")
	path = strings.TrimSuffix(path, "/Resource")
	prefix := strings.Join(alnum.FindAllString(s.Path, -1), "")
	if prefix == "" {
		return path
	}
	return alnum.ReplaceAllStringFunc(path, func(word string) string {
		rest, ok := strings.CutPrefix(word, prefix)
		if n := len(rest) - hashDigits; ok && n > 0 && strings.Trim(rest[n:], "0123456789ABCDEF") == "" {
			return rest[:n]
		}
		return word
	})
}

// changed compares one resource with what it was; nil when all is the same.
func (c *comparison) changed(a, b *audit.Stack, old, r *template.Resource) *Resource {
	e := entry(b, r, "")
	raise := func(k Kind) {
		if k.rank() > e.Kind.rank() {
			e.Kind = k
		}
	}
	if old.Type != r.Type {
		e.Kind, e.Stateful = Replaced, stateful(old) || stateful(r)
		e.Why = append(e.Why, "it was "+old.Type)
	} else {
		differences(nil, object(old.Properties), object(r.Properties), func(path []string, from, to *template.Node) {
			kind := decided(r, effect(c.table, r.Type, path, from, to), path)
			e.Properties = append(e.Properties, Property{Path: strings.Join(path, "."), From: from, To: to, Kind: kind})
			raise(kind)
			for _, n := range []*template.Node{from, to} {
				if n != nil {
					template.Uses(*n, e.names)
				}
			}
		})
		e.Stateful = e.Stateful || stateful(old)
		var takes bool
		if e.leaves, takes = rekeyed(a, b, old, r); e.Kind == Replaced {
			e.leaves = nil // the new one is empty, and the old one keeps its key
		} else if takes {
			e.Why = append(e.Why, keyedTypes[r.Type].taken)
		} else if len(e.leaves) > 0 {
			e.Why = append(e.Why, keyedTypes[r.Type].left)
		}
	}
	for _, p := range []struct{ name, from, to string }{
		{"DeletionPolicy", old.DeletionPolicy, r.DeletionPolicy},
		{"UpdateReplacePolicy", old.UpdateReplacePolicy, r.UpdateReplacePolicy},
	} {
		if p.from != p.to {
			e.Why = append(e.Why, fmt.Sprintf("its %s was %s and is %s", p.name, cmp.Or(p.from, "Delete"), cmp.Or(p.to, "Delete")))
		}
	}
	for _, p := range []struct {
		name     string
		from, to template.Node
	}{{"Metadata", old.Metadata, r.Metadata}, {"CreationPolicy", old.CreationPolicy, r.CreationPolicy}, {"UpdatePolicy", old.UpdatePolicy, r.UpdatePolicy}} {
		if !equal(p.from, p.to) {
			e.Why = append(e.Why, "its "+p.name+" changes")
		}
	}
	if old.Condition != r.Condition {
		e.Why = append(e.Why, fmt.Sprintf("it depends on the condition %q instead of %q: it may come, go or stay", r.Condition, old.Condition))
		raise(MayReplace)
	}
	if len(e.Why) > 0 {
		raise(Changed)
	}
	if e.Kind == "" {
		return nil
	}
	return e
}

// object is a node for which no properties and an empty object are the same.
func object(n template.Node) template.Node {
	if n.Kind() == template.Null {
		var b template.MapBuilder
		return b.Node()
	}
	return n
}

// versions makes one change of a function's version that goes and the one that comes for it: with each change
// of a function the CDK publishes a version, under another logical id.
func versions(found map[string]*Resource, a, b *audit.Stack) {
	of := func(s *audit.Stack, kind Kind) map[string][]string { // by function
		ids := map[string][]string{}
		for _, id := range slices.Sorted(maps.Keys(found)) {
			if e := found[id]; e.Type == typeVersion && e.Kind == kind {
				fn, _ := find(&s.Template, id).Properties.Get("FunctionName")
				text, _ := fn.MarshalJSON() // only strings could fail, and they do not
				ids[string(text)] = append(ids[string(text)], id)
			}
		}
		return ids
	}
	went := of(a, Removed)
	for fn, came := range of(b, Added) {
		if len(came) != 1 || len(went[fn]) != 1 {
			continue
		}
		e, old := found[came[0]], found[went[fn][0]]
		e.Kind, e.Kept, e.Was = Replaced, old.Kept, old.ID
		e.Why = append(e.Why, "a new version of the function is published")
		template.Uses(find(&b.Template, came[0]).Properties, e.names)
		delete(found, old.ID)
	}
}

// report lists all stacks that change, by cell, shard and name.
func (c *comparison) report() []Stack {
	stacks := []Stack{}
	for i := range c.was.stacks {
		s := &c.was.stacks[i]
		if c.next.stack(keyOf(s)) != nil {
			continue
		}
		out := head(s, c.was.places[i], Removed)
		for j := range s.Template.Resources {
			out.Resources = append(out.Resources, *gone(s, &s.Template.Resources[j]))
		}
		stacks = append(stacks, out)
	}
	for i := range c.next.stacks {
		s := &c.next.stacks[i]
		old := c.was.stack(keyOf(s))
		out := head(s, c.next.places[i], Changed)
		if old == nil {
			out.Kind = Added
			for j := range s.Template.Resources {
				out.Resources = append(out.Resources, *entry(s, &s.Template.Resources[j], Added))
			}
		} else {
			out.Tags = !maps.Equal(old.Tags, s.Tags)
			found := c.found[keyOf(s)]
			for _, id := range slices.Sorted(maps.Keys(found)) {
				e := *found[id]
				if e.Kind == Replaced {
					e.Kept = e.Kept || keptWhenReplaced(old, s, id)
				}
				if why := rolls(s, &e); why != "" {
					e.Why = append(e.Why, why)
				}
				out.Resources = append(out.Resources, e)
			}
			if len(out.Resources) == 0 && !out.Tags {
				continue
			}
		}
		stacks = append(stacks, out)
	}
	for i := range stacks {
		attribute(&stacks[i], c.edits)
		inherit(&stacks[i])
	}
	slices.SortStableFunc(stacks, func(a, b Stack) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Region, b.Region))
	})
	return stacks
}

// keptWhenReplaced says whether the old one stays: which of the two templates' policies counts is not
// documented, so both must say so.
func keptWhenReplaced(old, s *audit.Stack, id string) bool {
	was, is := find(&old.Template, id), find(&s.Template, id)
	return was != nil && is != nil && retained(was.UpdateReplacePolicy) && retained(is.UpdateReplacePolicy)
}

// rolls says what becomes of the instances of a group whose launch template or subnets change.
func rolls(s *audit.Stack, e *Resource) string {
	r := find(&s.Template, e.ID)
	if r == nil || r.Type != typeGroup || e.Kind != Changed {
		return ""
	}
	moves := func(path string) bool {
		first, _, _ := strings.Cut(path, ".")
		return slices.Contains(properties()[typeGroup].May, first)
	}
	if !slices.ContainsFunc(e.Properties, func(p Property) bool { return moves(p.Path) }) && !slices.ContainsFunc(e.Why, moves) {
		return ""
	}
	policy, ok := r.UpdatePolicy.Get("AutoScalingRollingUpdate")
	if !ok {
		return "instances that run stay as they are until an instance refresh"
	}
	batch := 1 // CloudFormation's default
	if v, ok := policy.Get("MaxBatchSize"); ok {
		batch, _ = number(scope(s), v)
	}
	return fmt.Sprintf("its instances are replaced, %d at a time", batch)
}

func head(s *audit.Stack, p audit.Shard, kind Kind) Stack {
	return Stack{Name: s.Name, Account: s.Account, Region: s.Region, Cell: p.Cell, Shard: p.ID, Kind: kind, Resources: []Resource{}}
}

// notes are what the reader must know of what was not looked at.
func (c *comparison) notes(inputs ...audit.Input) []string {
	said := map[string]bool{}
	for _, in := range inputs {
		for _, n := range in.Notes {
			said[n.File+": "+n.What] = true
		}
	}
	for _, side := range []side{c.was, c.next} {
		for i := range side.stacks {
			s := &side.stacks[i]
			if t := s.Template.Transforms; len(t) > 0 {
				said[fmt.Sprintf("stack %s is rewritten by %s when it is deployed: what that does is not compared", s.Name, strings.Join(t, ", "))] = true
			}
			if l := s.Template.Loops; len(l) > 0 {
				said[fmt.Sprintf("stack %s makes resources by %s: they are not compared", s.Name, strings.Join(l, ", "))] = true
			}
		}
	}
	for _, e := range c.edits {
		if e.Path == "placement" || strings.HasPrefix(e.Path, "placement.") {
			said["how tenants are placed is in no stack: after a deployment, cellwall topology publish and migrate bring it about, cell by cell"] = true
		}
	}
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(said))))
}
