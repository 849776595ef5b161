package change

import (
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// refusals are what must not happen to the resources of one stack.
func refusals(s *Stack) []Refusal {
	stays := s.Kind == Changed
	var out []Refusal
	for i := range s.Resources {
		e := &s.Resources[i]
		refuse := func(what, why, next string) {
			out = append(out, Refusal{Stack: s.Name, Resource: e.ID, What: what, Why: why, Next: next})
		}
		switch {
		case e.Stateful && e.Kind == Removed && !e.Kept:
			refuse("removes "+label(e), "the data that it keeps goes with it",
				"have it kept first, in a deployment of its own: DeletionPolicy Retain, in the CDK RemovalPolicy.RETAIN")
		case e.Stateful && e.Kind == Replaced:
			why := "the data that it keeps goes with it"
			if e.Kept {
				why = "the new one is empty, and the data stays behind in the old one"
			}
			refuse("replaces "+label(e), why+": "+reasons(e), "leave that as it is, or make a second one beside it and move the data")
		case e.Stateful && e.Kind == MayReplace:
			refuse("may replace "+label(e), "it keeps data: "+reasons(e), "see what a change set of stack "+s.Name+" says before anything is deployed")
		}
		if !stays || e.Kind == Added || e.Kind == Removed {
			continue
		}
		if len(e.leaves) > 0 {
			refusal := e.leavesKey()
			refusal.Stack = s.Name
			out = append(out, refusal)
		}
		if what, why := oneAtATime(e); what != "" {
			refuse(what, why, "make one of them in each deployment")
		}
		if e.Kind != Replaced {
			continue
		}
		switch {
		case len(e.Why) > 0 && strings.HasPrefix(e.Why[0], "it was "):
			refuse("makes "+e.ID+" a resource of another type", "CloudFormation refuses that", "give it another logical id")
		case e.Name != "" && !renamed(e):
			refuse("replaces "+label(e)+" under the name that it has", "CloudFormation makes the new one before the old one goes, and the name is taken: "+reasons(e),
				"change its name with it, or leave that as it is")
		}
	}
	return out
}

// oneAtATime says what of a table changes more than one of at once, where DynamoDB takes one in an update: replicas
// of a global table (Amazon DynamoDB developer guide, global tables), and global secondary indexes (Amazon DynamoDB
// API, UpdateTable).
func oneAtATime(e *Resource) (what, why string) {
	for _, l := range []struct{ typ, property, name, word string }{
		{"AWS::DynamoDB::GlobalTable", "Replicas", "Region", "replica"},
		{"AWS::DynamoDB::GlobalTable", "GlobalSecondaryIndexes", "IndexName", "global secondary index"},
		{"AWS::DynamoDB::Table", "GlobalSecondaryIndexes", "IndexName", "global secondary index"},
	} {
		if e.Type != l.typ {
			continue
		}
		for _, p := range e.Properties {
			if p.Path != l.property {
				continue // lists of one length: each is what it was, or changes where it is
			}
			if n := differing(elements(p.From, l.name), elements(p.To, l.name)); n > 1 {
				return fmt.Sprintf("adds or removes %s of %s at once", plural(n, l.word), label(e)), "DynamoDB takes one " + l.word + " in an update"
			}
		}
	}
	return "", ""
}

// elements are the names of the elements of a list.
func elements(n *template.Node, key string) []string {
	if n == nil {
		return nil
	}
	var names []string
	for i := range n.Len() {
		names = append(names, n.At(i).GetString(key))
	}
	return names
}

// differing is how many names only one of two lists has.
func differing(a, b []string) int {
	n := 0
	for _, name := range a {
		if !slices.Contains(b, name) {
			n++
		}
	}
	for _, name := range b {
		if !slices.Contains(a, name) {
			n++
		}
	}
	return n
}

// renamed says whether a resource's physical name changes.
func renamed(e *Resource) bool {
	for _, p := range e.Properties {
		if p.Path == naming[e.Type] {
			return true
		}
	}
	return false
}

// reasons are what makes a resource be replaced, in words.
func reasons(e *Resource) string {
	var all []string
	for _, p := range e.Properties {
		if p.Kind != Changed {
			all = append(all, p.Path+" changes")
		}
	}
	return strings.Join(append(all, e.Why...), "; ")
}

// collisions are physical names that a resource is to have while another one has them still: one of the
// same stack, which goes only after all is made, or one that stays behind.
func collisions(stacks []Stack) []Refusal {
	type key struct{ typ, account, region, name string }
	type holder struct {
		stack *Stack
		e     *Resource
	}
	held := map[key]holder{}
	each := func(kind Kind, visit func(key, holder)) {
		for i := range stacks {
			for j := range stacks[i].Resources {
				if e := &stacks[i].Resources[j]; e.Kind == kind && e.Name != "" {
					visit(key{e.Type, stacks[i].Account, stacks[i].Region, e.Name}, holder{&stacks[i], e})
				}
			}
		}
	}
	each(Removed, func(k key, h holder) { held[k] = h })
	var out []Refusal
	each(Added, func(k key, h holder) {
		old, taken := held[k]
		if !taken || old.stack != h.stack && !old.e.Kept {
			return
		}
		why := fmt.Sprintf("%s of stack %s has that name and goes only after all is made", old.e.ID, old.stack.Name)
		if old.e.Kept {
			why = fmt.Sprintf("%s of stack %s has that name, and stays behind", old.e.ID, old.stack.Name)
		}
		out = append(out, Refusal{Stack: h.stack.Name, Resource: h.e.ID, What: "adds " + label(h.e) + ", named " + k.name, Why: why,
			Next: "keep its logical id, or give the new one another name"})
	})
	return out
}
