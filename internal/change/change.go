package change

import (
	"cmp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Kind says what happens to a stack or a resource.
type Kind string

// The kinds of change. A changed stack has resources of any kind.
const (
	Added      Kind = "added"
	Changed    Kind = "changed"     // where it is
	MayReplace Kind = "may replace" // changed where it is, or replaced: what decides is not known here
	Replaced   Kind = "replaced"    // a new one is made, and the old one goes
	Removed    Kind = "removed"
)

// rank orders kinds by how much they change of a resource that was there.
func (k Kind) rank() int { return slices.Index([]Kind{"", Changed, MayReplace, Replaced}, k) }

// Resource is one resource that changes.
type Resource struct {
	ID   string `json:"id"` // logical id
	Type string `json:"type"`
	Path string `json:"path,omitempty"` // of its construct, below the stack
	Name string `json:"name,omitempty"` // the physical one, where the template says it
	Kind Kind   `json:"change"`
	// Was is the logical id of the one that it comes for, where that is another: of a function's version.
	Was string `json:"was,omitempty"`
	// Kept says that what is removed or replaced stays in the account, out of every stack.
	Kept bool `json:"kept,omitempty"`
	// Stateful says that it keeps data.
	Stateful   bool       `json:"stateful,omitempty"`
	Properties []Property `json:"properties,omitempty"`
	// Why has what no property says, in words.
	Why []string `json:"why,omitempty"`
	// Causes are the keys of the fleet whose change leads to this one, as far as that can be told.
	Causes []string `json:"causes,omitempty"`
	leaves []string // keys by which its data was encrypted, and is not any more
	after  []string // logical ids of the stack with which it changes, since it names them
}

// names keeps that the resource changes with what it refers to.
func (e *Resource) names(u template.Use) {
	if u.Kind == template.UseRef || u.Kind == template.UseGetAtt {
		e.after = append(e.after, u.Name)
	}
}

// Property is one value that changes. From or To is nil where it was not, or is not any more.
type Property struct {
	Path string         `json:"path"` // with dots; elements of lists have numbers from 0
	From *template.Node `json:"from,omitempty"`
	To   *template.Node `json:"to,omitempty"`
	Kind Kind           `json:"change"` // Changed, MayReplace or Replaced: what it does to the resource
}

// Stack is one stack that changes.
type Stack struct {
	Name    string `json:"stack"`
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	Cell    string `json:"cell,omitempty"`
	Shard   string `json:"shard,omitempty"`
	Kind    Kind   `json:"change"` // Added, Changed or Removed
	// Tags says that the tags of the whole stack change, and with them those of what is in it.
	Tags      bool       `json:"tags,omitempty"`
	Resources []Resource `json:"resources"`
}

// Refusal is a reason not to deploy.
type Refusal struct {
	Stack    string `json:"stack,omitempty"`
	Resource string `json:"resource,omitempty"` // logical id
	What     string `json:"what"`
	Why      string `json:"why"`
	Next     string `json:"next"` // what to do instead
	// Accept is the name under which the reader may accept it, or "" for what nobody should.
	Accept string `json:"accept,omitempty"`
}

// Accepted is a refusal that somebody took back.
type Accepted struct {
	Refusal
	Reason string `json:"reason"`
}

// Report is all that deploying the second assembly over the first does, in the order of cells, shards and
// names.
type Report struct {
	Fleet       []Edit   `json:"fleet,omitempty"` // of the fleet's description, where both are known
	Stacks      []Stack  `json:"stacks"`
	Billed      []Billed `json:"billed"`
	Concurrency []Room   `json:"concurrency"`
	// Exports are those that go, or change, while deployed stacks import them.
	Exports  []audit.Withdrawal `json:"exports,omitempty"`
	Refused  []Refusal          `json:"refused"`
	Accepted []Accepted         `json:"accepted,omitempty"`
	Notes    []string           `json:"notes"`
}

// Empty says that nothing changes.
func (r *Report) Empty() bool { return len(r.Stacks) == 0 }

// Options are what assemblies do not say.
type Options struct {
	// Concurrency is the concurrent executions that Lambda allows by account, for each region; an account
	// without an entry has audit.DefaultConcurrency.
	Concurrency map[string]int
	// Fleet are the edits that lead from the first assembly's fleet to the second's, where both are known.
	Fleet []Edit
}

// stackKey tells stacks apart: CloudFormation's names are unique in an account and region.
type stackKey struct{ account, region, name string }

func keyOf(s *audit.Stack) stackKey { return stackKey{s.Account, s.Region, s.Name} }

// side is one of the two assemblies.
type side struct {
	stacks []audit.Stack // in the order of their keys
	places []audit.Shard // of each
	at     map[stackKey]int
}

func newSide(in audit.Input) side {
	s := side{stacks: slices.SortedFunc(slices.Values(in.Stacks), func(a, b audit.Stack) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	}), at: map[stackKey]int{}}
	s.places = audit.Places(s.stacks)
	for i := range s.stacks {
		s.at[keyOf(&s.stacks[i])] = i
	}
	return s
}

func (s side) stack(k stackKey) *audit.Stack {
	i, ok := s.at[k]
	if !ok {
		return nil
	}
	return &s.stacks[i]
}

// Compare says what deploying next over was does.
func Compare(was, next audit.Input, opt Options) Report {
	a, b := newSide(was), newSide(next)
	c := comparison{was: a, next: b, table: properties(), edits: opt.Fleet}
	c.own()
	c.spread()
	r := Report{
		Fleet: opt.Fleet, Stacks: c.report(), Concurrency: rooms(a, b, &c, opt.Concurrency),
		Billed: []Billed{}, Refused: []Refusal{}, Notes: c.notes(was, next),
	}
	r.Billed = append(r.Billed, billed(a, b, r.Stacks)...)
	for i := range r.Stacks {
		r.Refused = append(r.Refused, refusals(&r.Stacks[i])...)
	}
	r.Refused = append(r.Refused, collisions(r.Stacks)...)
	var notes []string
	r.Exports, notes = c.withdrawn()
	r.Notes = append(r.Notes, notes...)
	r.Refused = append(r.Refused, exportRefusals(r.Exports)...)
	for _, room := range r.Concurrency {
		r.Refused = append(r.Refused, room.refusals()...)
	}
	return r
}

func (s *Stack) key() stackKey { return stackKey{s.Account, s.Region, s.Name} }

// scope is where a stack's expressions are evaluated.
func scope(s *audit.Stack) template.Scope {
	sc := template.Scope{Template: &s.Template, Values: s.Values, Pseudo: map[string]string{"AWS::StackName": s.Name}}
	for name, value := range map[string]string{"AWS::AccountId": s.Account, "AWS::Region": s.Region} {
		if value != "" {
			sc.Pseudo[name] = value
		}
	}
	return sc
}

// literal is the text of an expression, where there is exactly one and all of it is known.
func literal(sc template.Scope, n template.Node) (string, bool) {
	if texts := sc.Eval(n); len(texts) == 1 {
		return texts[0].Literal()
	}
	return "", false
}

// find is the resource of a template with that logical id, or nil.
func find(t *template.Template, id string) *template.Resource {
	i, ok := slices.BinarySearchFunc(t.Resources, id, func(r template.Resource, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return &t.Resources[i]
}
