package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// Withdrawal is an export that deploying one assembly over another drops or changes while stacks that are deployed
// import it. CloudFormation refuses that as long as one of them does ("Using exports", AWS CloudFormation User Guide).
type Withdrawal struct {
	Account string     `json:"account,omitempty"`
	Region  string     `json:"region,omitempty"`
	Export  string     `json:"export"`
	Stack   string     `json:"stack"`  // that exports it now
	Change  string     `json:"change"` // dropped, changed, moved (another stack exports it then) or removed (with its stack)
	Imports []Importer `json:"imports"`
	// Fits says that an order of deployments works: first those that import it, in the order in which they stand here,
	// then the stack that exports it.
	Fits bool `json:"fits"`

	file, output string // of the export
}

// Importer is a stack that imports a withdrawn export as it is deployed.
type Importer struct {
	Stack string `json:"stack"`
	// Change is what becomes of its import: stops, stays, or gone, when the stack is not in the new assembly and
	// therefore stays as it is until somebody removes it.
	Change string `json:"change"`
	// Why is why it cannot go first; "" when it can.
	Why string `json:"why,omitempty"`

	place place
	at    Step // the importing resource
}

// What becomes of an export, and of an import.
const (
	exportDropped, exportChanged, exportMoved, exportRemoved = "dropped", "changed", "moved", "removed"
	importStops, importStays, importGone                     = "stops", "stays", "gone"
)

// Verb is what happens to the export, as the end of a sentence about its stack.
func (w *Withdrawal) Verb() string {
	return map[string]string{exportDropped: "drops", exportChanged: "changes", exportMoved: "leaves to another stack", exportRemoved: "goes with"}[w.Change]
}

// Order is the order that works, in words, or "" when none does.
func (w *Withdrawal) Order() string {
	if !w.Fits {
		return ""
	}
	var steps []string
	for _, c := range w.Imports {
		do := "deploy "
		if c.Change == importGone {
			do = "remove "
		}
		steps = append(steps, do+c.Stack)
	}
	last := "deploy "
	if w.Change == exportRemoved {
		last = "remove "
	}
	return strings.Join(steps, ", ") + ", and only then " + last + w.Stack
}

// Why is why no order works, or "".
func (w *Withdrawal) Why() string {
	var all []string
	for _, c := range w.Imports {
		if c.Why != "" && !slices.Contains(all, c.Why) {
			all = append(all, c.Why)
		}
	}
	return strings.Join(all, "; ")
}

// Next is what to do.
func (w *Withdrawal) Next() string {
	if w.Fits {
		return w.Order() + ", each by itself (cdk deploy --exclusively); or keep the export for one release (in the CDK, exportValue) and drop it in the next"
	}
	if !slices.ContainsFunc(w.Imports, func(c Importer) bool { return c.Why != "" && c.Change != importGone }) {
		var gone []string
		for _, c := range w.Imports {
			if c.Change == importGone {
				gone = append(gone, c.Stack)
			}
		}
		return fmt.Sprintf("remove %s first (cdk destroy, over the old assembly), or keep the export for as long as it is there (in the CDK, exportValue)", strings.Join(gone, ", "))
	}
	if w.Change == exportChanged {
		return "keep the export with its value (in the CDK, exportValue) and export the new value under another name; drop the old one when nobody imports it any more"
	}
	return "keep the export for one release (in the CDK, exportValue), deploy those that import it without it, and drop it in the next"
}

// envKey names something of one account and region.
type envKey struct {
	env
	name string
}

// exportOf is an export of one assembly.
type exportOf struct {
	root   envKey // the stack that is deployed for it
	stack  *Stack
	output string
	value  string // as far as known
	known  bool
}

// linked is what stacks of one assembly export to and import from each other. Nested stacks go with the outermost one,
// which is what is deployed.
type linked struct {
	roots   map[envKey]bool
	exports map[envKey]exportOf
	imports map[envKey]map[envKey]Step // by stack and export: the first resource that imports it
	places  map[envKey]place
	after   map[envKey][]envKey
	vague   []string // stacks with an import whose name only a deployment knows
}

func link(stacks []Stack) linked {
	stacks = slices.SortedFunc(slices.Values(stacks), func(a, b Stack) int { // of two that export one name, the last one has it
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File))
	})
	l := linked{roots: map[envKey]bool{}, exports: map[envKey]exportOf{}, imports: map[envKey]map[envKey]Step{}, places: map[envKey]place{}, after: map[envKey][]envKey{}}
	at := map[StackID]int{}
	for i := range stacks {
		at[StackID{stacks[i].Name, stacks[i].File}] = i
	}
	rootOf := func(i int) envKey {
		for range stacks { // a chain of parents is as long as there are stacks at most
			n := stacks[i].Nested
			if n == nil {
				break
			}
			parent, ok := at[StackID{n.Name, n.File}]
			if !ok {
				break
			}
			i = parent
		}
		return envKey{stacks[i].env(), stacks[i].Name}
	}
	places := Places(stacks)
	for i := range stacks {
		s := &stacks[i]
		root := rootOf(i)
		l.roots[root] = true
		if s.Nested == nil {
			l.places[root] = places[i]
		}
		for _, id := range s.After {
			if j, ok := at[id]; ok {
				l.after[root] = append(l.after[root], rootOf(j))
			}
		}
		scope := s.scope()
		for j := range s.Template.Outputs {
			o := &s.Template.Outputs[j]
			if !o.HasExport {
				continue
			}
			if name, ok := theOne(scope, o.Export); ok {
				e := exportOf{root: root, stack: s, output: o.ID}
				e.value, e.known = theOne(scope, o.Value)
				l.exports[envKey{s.env(), name}] = e
			}
		}
		use := func(id, typ string, n template.Node) {
			template.Uses(n, func(u template.Use) {
				if u.Kind != template.UseImport {
					return
				}
				names := scope.Eval(u.Node)
				for _, text := range names {
					name, ok := text.Literal()
					if !ok {
						l.vague = append(l.vague, s.Name)
						continue
					}
					if l.imports[root] == nil {
						l.imports[root] = map[envKey]Step{}
					}
					if key := (envKey{s.env(), name}); l.imports[root][key].Kind == "" {
						l.imports[root][key] = Step{Kind: kindNames[resourceNode], Stack: s.Name, LogicalID: id, Type: typ, At: strings.Join(u.Path, ".")}
					}
				}
			})
		}
		for j := range s.Template.Resources {
			r := &s.Template.Resources[j]
			for _, n := range []template.Node{r.Properties, r.Metadata, r.UpdatePolicy, r.CreationPolicy} {
				use(r.ID, r.Type, n)
			}
		}
		for _, o := range s.Template.Outputs {
			use(o.ID, "", o.Value)
		}
	}
	slices.Sort(l.vague)
	l.vague = slices.Compact(l.vague)
	return l
}

// theOne is the text of an expression when there is exactly one and all of it is known.
func theOne(s template.Scope, n template.Node) (string, bool) {
	if texts := s.Eval(n); len(texts) == 1 {
		return texts[0].Literal()
	}
	return "", false
}

// Withdrawals are the exports that deploying next over was would take from stacks that are deployed, in the order of
// accounts, regions and names. changes, which may be nil, knows of further exports of next whose value becomes another
// one. vague are the stacks of was with an import whose name only a deployment knows, when any export goes.
func Withdrawals(was, next []Stack, changes func(account, region, export string) bool) (out []Withdrawal, vague []string) {
	before, then := link(was), link(next)
	order := before.order(&then)
	lost := false
	for _, key := range slices.SortedFunc(maps.Keys(before.exports), compareEnvKeys) {
		e := before.exports[key]
		now, stays := then.exports[key]
		w := Withdrawal{Export: key.name, Stack: e.root.name, Account: e.stack.Account, Region: e.stack.Region, file: e.stack.File, output: e.output, Fits: true}
		switch {
		case !then.roots[e.root]:
			w.Change = exportRemoved
		case !stays:
			w.Change = exportDropped
		case now.root != e.root:
			w.Change = exportMoved
		case e.known && now.known && e.value != now.value, changes != nil && changes(e.stack.Account, e.stack.Region, key.name):
			w.Change = exportChanged
		default:
			continue
		}
		lost = true
		for _, c := range slices.SortedFunc(maps.Keys(before.imports), order.compare) {
			at, ok := before.imports[c][key]
			if !ok || c == e.root {
				continue
			}
			i := Importer{Stack: c.name, place: before.places[c], at: at, Change: importStops}
			_, still := then.imports[c][key]
			switch {
			case !then.roots[c]:
				i.Change = importGone
				if w.Change != exportRemoved {
					i.Why = fmt.Sprintf("stack %s is not in the new assembly, so no deployment of it ends what it imports", c.name)
				}
			case still:
				i.Change = importStays
				i.Why = fmt.Sprintf("stack %s imports it still", c.name)
			default:
				i.Why = order.path(e.root, c)
			}
			w.Fits = w.Fits && i.Why == ""
			w.Imports = append(w.Imports, i)
		}
		if len(w.Imports) > 0 {
			out = append(out, w)
		}
	}
	if lost {
		vague = before.vague
	}
	return out, vague
}

func compareEnvKeys(a, b envKey) int {
	return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.region, b.region), strings.Compare(a.name, b.name))
}

// mustPrecede is one reason to deploy a stack before another one.
type mustPrecede struct {
	then envKey
	why  string
}

// deployOrder is which stacks have to be deployed before which.
type deployOrder struct {
	before map[envKey][]mustPrecede
	rank   map[envKey]int
}

// order finds what has to be deployed before what: an import ends before its export goes, an export comes before who
// imports it newly, one name has one exporter at a time, and the new assembly's dependencies hold.
func (l *linked) order(then *linked) *deployOrder {
	o := &deployOrder{map[envKey][]mustPrecede{}, map[envKey]int{}}
	add := func(first, second envKey, format string, args ...any) {
		if first != second {
			o.before[first] = append(o.before[first], mustPrecede{second, fmt.Sprintf(format, args...)})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.exports), compareEnvKeys) {
		e := l.exports[key]
		now, stays := then.exports[key]
		if stays && now.root == e.root {
			continue
		}
		for _, c := range slices.SortedFunc(maps.Keys(l.imports), compareEnvKeys) {
			_, has := l.imports[c][key]
			if _, still := then.imports[c][key]; has && !still {
				add(c, e.root, "%s drops the export %s, which %s imports until it is deployed", e.root.name, key.name, c.name)
			}
		}
		if stays {
			add(e.root, now.root, "%s takes over the export %s, which %s has until it is deployed", now.root.name, key.name, e.root.name)
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(then.imports), compareEnvKeys) {
		for _, key := range slices.SortedFunc(maps.Keys(then.imports[c]), compareEnvKeys) {
			e, ok := then.exports[key]
			if old, was := l.exports[key]; ok && (!was || old.root != e.root) {
				add(e.root, c, "stack %s imports %s, which stack %s exports only from then on", c.name, key.name, e.root.name)
			}
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(then.after), compareEnvKeys) {
		for _, first := range then.after[c] {
			add(first, c, "the new assembly has stack %s deployed before stack %s", first.name, c.name)
		}
	}
	o.number(then, l)
	return o
}

// number ranks the stacks in an order that keeps to what precedes what, as far as there is one; among equals by name.
func (o *deployOrder) number(sides ...*linked) {
	waits, all := map[envKey]int{}, map[envKey]bool{}
	for _, s := range sides {
		for k := range s.roots {
			all[k] = true
		}
	}
	for _, next := range o.before {
		for _, n := range next {
			waits[n.then]++
		}
	}
	left := slices.SortedFunc(maps.Keys(all), compareEnvKeys)
	free := slices.DeleteFunc(slices.Clone(left), func(k envKey) bool { return waits[k] > 0 })
	for len(free) > 0 {
		k := free[0]
		free = free[1:]
		o.rank[k] = len(o.rank)
		for _, n := range o.before[k] {
			if waits[n.then]--; waits[n.then] == 0 {
				free = append(free, n.then)
			}
		}
		slices.SortFunc(free, compareEnvKeys)
	}
	for _, k := range left { // those of a circle, and behind one
		if _, ok := o.rank[k]; !ok {
			o.rank[k] = len(o.rank)
		}
	}
}

func (o *deployOrder) compare(a, b envKey) int { return cmp.Compare(o.rank[a], o.rank[b]) }

// path says why one stack has to be deployed before another one, in words, or "" when nothing demands it.
func (o *deployOrder) path(first, last envKey) string {
	type step struct {
		from envKey
		why  string
	}
	came := map[envKey]step{first: {}}
	for todo := []envKey{first}; len(todo) > 0; todo = todo[1:] {
		for _, n := range o.before[todo[0]] {
			if _, seen := came[n.then]; !seen {
				came[n.then] = step{todo[0], n.why}
				todo = append(todo, n.then)
			}
		}
	}
	if _, ok := came[last]; !ok {
		return ""
	}
	var why []string
	for at := last; at != first; at = came[at].from {
		why = append(why, came[at].why)
	}
	slices.Reverse(why)
	return strings.Join(why, ", and ")
}
