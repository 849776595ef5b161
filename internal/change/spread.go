package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// moving are attributes of a resource that change with a change of it where it is.
var moving = map[string][]string{
	"AWS::EC2::LaunchTemplate": {"LatestVersionNumber", "DefaultVersionNumber"},
}

// shared is a value that stacks of one account and region pass on: an SSM parameter or an export.
type shared struct{ account, region, name string }

// news is why a value that a resource is given changes, though the template's text does not.
type news struct {
	sure bool // it does; else it may
	why  string
}

// spread follows changes to those that are given a changed resource's id, attributes or parameters, until
// nothing more comes of it. It ends, since what happens to a resource only rises.
func (c *comparison) spread() {
	c.passed = map[shared]news{}
	for again := true; again; {
		again = false
		for i := range c.next.stacks {
			s := &c.next.stacks[i]
			old := c.was.stack(keyOf(s))
			if old == nil {
				continue
			}
			f := follower{c: c, old: old, stack: s, found: c.found[keyOf(s)]}
			for j := range s.Template.Resources {
				if f.follow(&s.Template.Resources[j]) {
					again = true
				}
			}
			if f.pass() {
				again = true
			}
		}
	}
}

// follower follows changes inside of one stack.
type follower struct {
	c          *comparison
	old, stack *audit.Stack
	found      map[string]*Resource
}

// follow raises what happens to one resource by what it is given, and says whether that rose.
func (f *follower) follow(r *template.Resource) bool {
	if e := f.found[r.ID]; e != nil && e.Kind == Added {
		return false
	}
	rose := false
	take := func(path []string, n news, after ...string) {
		kind := decided(r, effect(f.c.table, r.Type, path, nil, nil), path)
		if kind == Replaced && !n.sure {
			kind = MayReplace
		}
		rose = f.raise(r, kind, strings.Join(path, ".")+" "+n.why, after...) || rose
		if r.Type == typeParameter && path[0] == "Value" {
			rose = f.publishes(nameOf(f.stack, r), n.sure) || rose
		}
	}
	template.Uses(r.Properties, func(u template.Use) {
		path := slices.Clone(u.Path)
		switch u.Kind {
		case template.UseRef:
			if p, ok := f.stack.Template.Parameter(u.Name); ok {
				if n, ok := f.parameter(p); ok {
					take(path, n)
				}
			} else if n, ok := f.resource(u.Name, "", false); ok {
				take(path, n, u.Name)
			}
		case template.UseGetAtt:
			fixed := effect(f.c.table, r.Type, path, nil, nil) == Changed // then a doubt has nothing to decide
			if n, ok := f.resource(u.Name, u.Attr, !fixed); ok {
				take(path, n, u.Name)
			}
		case template.UseCondition:
			if f.condition(u.Name) {
				take(path, news{false, "depends on the condition " + u.Name + ", which reads otherwise or is given another value"})
			}
		case template.UseImport:
			if name, ok := literal(scope(f.stack), u.Node); ok {
				if n, ok := f.c.passed[shared{f.stack.Account, f.stack.Region, "export " + name}]; ok {
					take(path, n)
				}
			}
		}
	})
	if !equal(f.old.Template.Mappings, f.stack.Template.Mappings) {
		for i := range r.Properties.Len() {
			if calls(r.Properties.At(i), "Fn::FindInMap") {
				take([]string{r.Properties.Key(i)}, news{false, "is found in the template's Mappings, which change"})
			}
		}
	}
	if r.Condition != "" && f.condition(r.Condition) {
		rose = f.raise(r, MayReplace, "its condition "+r.Condition+" reads otherwise or is given another value: it may come, go or stay") || rose
	}
	return rose
}

// raise lets at least kind happen to a resource, with the resources named by after, and says whether that is more
// than before.
func (f *follower) raise(r *template.Resource, kind Kind, why string, after ...string) bool {
	e := f.found[r.ID]
	if e == nil {
		e = entry(f.stack, r, "")
		f.found[r.ID] = e
	}
	if kind.rank() <= e.Kind.rank() {
		return false
	}
	e.Kind = kind
	e.after = append(e.after, after...)
	if !slices.Contains(e.Why, why) {
		e.Why = append(e.Why, why)
	}
	return true
}

// resource says what becomes of a reference to another resource of the stack: to its id when attr is "". A
// doubtful attribute, of one that changes where it is, is news only to those who want to hear of doubts.
func (f *follower) resource(id, attr string, doubts bool) (news, bool) {
	e := f.found[id]
	if e == nil {
		return news{}, false
	}
	name := label(e)
	switch e.Kind {
	case Replaced:
		return news{true, "names " + name + ", which is replaced"}, true
	case MayReplace:
		return news{false, "names " + name + ", which may be replaced"}, true
	case Changed:
		if slices.Contains(moving[e.Type], attr) {
			return news{true, fmt.Sprintf("is the %s of %s, which changes", attr, name)}, true
		}
		if doubts && attr != "" && !f.stays(e.Type, attr) {
			return news{false, fmt.Sprintf("is the %s of %s, which changes", attr, name)}, true
		}
	}
	return news{}, false
}

// stays says whether an attribute lives as long as its resource: identities, and what they are called.
func (f *follower) stays(typ, attr string) bool {
	t, known := f.c.table[typ]
	if known && (slices.Contains(t.Fixed, attr) || slices.Contains(t.Replace, attr)) {
		return true
	}
	return strings.HasSuffix(attr, "Arn") || strings.HasSuffix(attr, "Id") || strings.HasSuffix(attr, "Name")
}

// parameter says whether a parameter of the stack has another value than it had.
func (f *follower) parameter(p template.Parameter) (news, bool) {
	old, was := f.old.Template.Parameter(p.ID)
	if !was {
		return news{}, false // whoever refers to it does so newly
	}
	before, hadBefore := scope(f.old).Value(old)
	after, hasAfter := scope(f.stack).Value(p)
	if before != after || hadBefore != hasAfter || old.Type != p.Type {
		return news{true, fmt.Sprintf("is the parameter %s, which was %q and is %q", p.ID, before, after)}, true
	}
	if p.IsSSM() && hasAfter {
		n, ok := f.c.passed[shared{f.stack.Account, f.stack.Region, "parameter " + after}]
		return n, ok
	}
	return news{}, false
}

// condition says whether a condition reads otherwise than before, or may, since parameters have changed.
func (f *follower) condition(name string) bool {
	expr := func(t *template.Template) template.Node {
		for _, c := range t.Conditions {
			if c.ID == name {
				return c.Expr
			}
		}
		return template.Node{}
	}
	n := expr(&f.stack.Template)
	if !equal(n, expr(&f.old.Template)) {
		return true
	}
	changed := false
	template.Uses(n, func(u template.Use) {
		if p, ok := f.stack.Template.Parameter(u.Name); ok && u.Kind == template.UseRef {
			_, other := f.parameter(p)
			changed = changed || other
		}
		changed = changed || u.Kind == template.UseCondition && u.Name != name && f.condition(u.Name)
	})
	return changed
}

// tell keeps a value that other stacks are given, and says whether that is news.
func (f *follower) tell(name string, n news) bool {
	key := shared{f.stack.Account, f.stack.Region, name}
	if known, ok := f.c.passed[key]; ok && (known.sure || !n.sure) {
		return false
	}
	f.c.passed[key] = n
	return true
}

// publishes tells other stacks that an SSM parameter's value changes.
func (f *follower) publishes(name string, sure bool) bool {
	if name == "" {
		return false
	}
	return f.tell("parameter "+name, news{sure, fmt.Sprintf("is read from the parameter %s of stack %s, which changes", name, f.stack.Name)})
}

// pass tells other stacks of the values that this one gives them, and says whether that is news.
func (f *follower) pass() bool {
	more := false
	tell := func(name string, n news) { more = f.tell(name, n) || more }
	for _, id := range slices.Sorted(maps.Keys(f.found)) {
		e := f.found[id]
		if e.Type == typeParameter && slices.ContainsFunc(e.Properties, func(p Property) bool { return p.Path == "Value" || strings.HasPrefix(p.Path, "Value.") }) {
			more = f.publishes(e.Name, true) || more
		}
	}
	for _, o := range f.stack.Template.Outputs {
		if !o.HasExport {
			continue
		}
		name, ok := literal(scope(f.stack), o.Export)
		if !ok {
			continue
		}
		for _, was := range f.old.Template.Outputs {
			if was.ID == o.ID && !equal(was.Value, o.Value) {
				tell("export "+name, news{true, fmt.Sprintf("is the export %s of stack %s, which changes", name, f.stack.Name)})
			}
		}
		template.Uses(o.Value, func(u template.Use) {
			if u.Kind != template.UseRef && u.Kind != template.UseGetAtt {
				return
			}
			if n, ok := f.resource(u.Name, u.Attr, false); ok {
				tell("export "+name, news{n.sure, fmt.Sprintf("is the export %s of stack %s, which %s", name, f.stack.Name, n.why)})
			}
		})
	}
	return more
}
