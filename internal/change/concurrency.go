package change

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// Step is the deployment, or the removal, of one stack whose functions' reservations change.
type Step struct {
	Stack string `json:"stack"`
	From  int    `json:"from"` // reserved by the stack's functions before
	To    int    `json:"to"`   // and after
	// Peak is the most that they reserve meanwhile: inside of a stack a raise may come before what is lowered,
	// and what goes does so last.
	Peak   int  `json:"peak"`
	Before int  `json:"before"` // reserved in the account and region when the step begins
	Gone   bool `json:"removed,omitempty"`
	lowest int  // of the smaller one of both values of each function
}

// Room is the order in which reserved concurrency changes in one account and region.
type Room struct {
	Account string `json:"account"`
	Region  string `json:"region"`
	Limit   int    `json:"limit"` // concurrent executions of the account
	Room    int    `json:"room"`  // that functions may reserve: Limit less what Lambda keeps free
	From    int    `json:"from"`  // reserved by all functions of both assemblies before
	To      int    `json:"to"`    // and after
	// Steps are the stacks whose reservations change, in an order that never takes more than Room. Where Fits
	// is false there is none, and the order is the one that needs least.
	Steps []Step `json:"steps"`
	Fits  bool   `json:"fits"`
	// Twice says that two deployments would fit where one does not: first all that is lowered, which always fits,
	// then the rest, in which no stack has a peak above its end.
	Twice bool `json:"twice,omitempty"`
	// Unknown are functions whose reservation only a deployment knows.
	Unknown []string `json:"unknown,omitempty"`
}

type place struct{ account, region string }

// rooms are the accounts and regions in which a function's reservation changes.
func rooms(was, next side, c *comparison, limits map[string]int) []Room {
	steps, unknown := map[place][]Step{}, map[place][]string{}
	before, after := map[place]int{}, map[place]int{}
	keys := map[stackKey]bool{}
	for _, s := range []side{was, next} {
		for i := range s.stacks {
			keys[keyOf(&s.stacks[i])] = true
		}
	}
	for k := range keys {
		p := place{k.account, k.region}
		a, lost := reservations(was.stack(k))
		b, more := reservations(next.stack(k))
		for _, id := range append(lost, more...) {
			unknown[p] = append(unknown[p], k.name+"."+id)
		}
		st := Step{Stack: k.name, Gone: next.stack(k) == nil}
		for _, id := range slices.Sorted(maps.Keys(a)) {
			st.From += a[id]
		}
		ids := map[string]bool{}
		for id := range a {
			ids[id] = true
		}
		for id := range b {
			st.To += b[id]
			ids[id] = true
		}
		changes := false
		for id := range ids {
			high, low := max(a[id], b[id]), min(a[id], b[id])
			if e := c.found[k][id]; e != nil && (e.Kind == Replaced || e.Kind == MayReplace) {
				high, low = a[id]+b[id], a[id] // both stand until the old one goes
			}
			changes = changes || high != low
			st.Peak, st.lowest = st.Peak+high, st.lowest+low
		}
		before[p], after[p] = before[p]+st.From, after[p]+st.To
		if changes {
			steps[p] = append(steps[p], st)
		}
	}
	out := []Room{}
	for _, p := range slices.SortedFunc(maps.Keys(steps), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.region, b.region))
	}) {
		limit := cmp.Or(limits[p.account], audit.DefaultConcurrency)
		r := Room{Account: p.account, Region: p.region, Limit: limit, Room: limit - audit.UnreservedConcurrency, From: before[p], To: after[p]}
		slices.Sort(unknown[p])
		r.Unknown = slices.Compact(unknown[p])
		r.order(steps[p])
		out = append(out, r)
	}
	return out
}

// reservations are the functions of a stack that reserve concurrency, and those of which it is not known.
func reservations(s *audit.Stack) (known map[string]int, unknown []string) {
	known = map[string]int{}
	if s == nil {
		return known, nil
	}
	for i := range s.Template.Resources {
		r := &s.Template.Resources[i]
		v, ok := r.Properties.Get("ReservedConcurrentExecutions")
		if r.Type != typeFunction || !ok {
			continue
		}
		n, ok := number(scope(s), v)
		if !ok {
			unknown = append(unknown, r.ID)
			continue
		}
		known[r.ID] = n
	}
	return known, unknown
}

// number is a whole number of a template, which may be written as a string.
func number(sc template.Scope, n template.Node) (int, bool) {
	text, ok := literal(sc, n)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || v > 1e9 || v != float64(int(v)) {
		return 0, false
	}
	return int(v), true
}

// order puts the steps in the order that needs least room, and says whether it fits. Steps that lower come
// first, the one that needs least beyond what it had before the others; those that raise follow, the one with
// the highest peak above what it ends with first. No order needs less: this is the scheduling of tasks that
// take memory and give it back (Abdel-Wahab and Kameda, Operations Research 26(1), 1978). Among equals a stack
// that goes does so in reverse order of names, so that a core outlives its shards, and others in their order.
func (r *Room) order(steps []Step) {
	slices.SortFunc(steps, func(a, b Step) int {
		lowers := func(s Step) int {
			if s.To <= s.From {
				return 0
			}
			return 1
		}
		if by := cmp.Compare(lowers(a), lowers(b)); by != 0 {
			return by
		}
		by := cmp.Compare(a.Peak-a.From, b.Peak-b.From)
		if lowers(a) == 1 {
			by = cmp.Compare(b.Peak-b.To, a.Peak-a.To)
		}
		if by != 0 {
			return by
		}
		switch {
		case a.Gone && b.Gone:
			return cmp.Compare(b.Stack, a.Stack)
		case a.Gone != b.Gone && a.Gone:
			return -1
		case a.Gone != b.Gone:
			return 1
		}
		return cmp.Compare(a.Stack, b.Stack)
	})
	now := r.From
	r.Fits = true
	for i := range steps {
		s := &steps[i]
		s.Before = now
		r.Fits = r.Fits && (now-s.From+s.Peak <= r.Room || s.Peak <= s.From)
		now += s.To - s.From
	}
	r.Steps = steps
	r.Twice = !r.Fits && r.To <= r.Room && !slices.ContainsFunc(steps, func(s Step) bool {
		return s.Peak+s.lowest != s.From+s.To // a function that is replaced stands twice for a while
	})
}

// refusals are why reservations cannot change as they are to.
func (r *Room) refusals() []Refusal {
	var out []Refusal
	where := fmt.Sprintf("account %s in %s", r.Account, r.Region)
	for _, name := range r.Unknown {
		out = append(out, Refusal{Resource: name, What: "changes reservations in " + where, Why: "what " + name + " reserves only a deployment knows, so whether all fits is not known", Next: "write its reserved concurrency as a number"})
	}
	if r.Fits {
		return out
	}
	e := Refusal{What: fmt.Sprintf("takes the reserved concurrency of %s over its room", where),
		Why:  fmt.Sprintf("%d are reserved now and %d are to be, of %d: %d less the %d that Lambda keeps free; on the way no order of stacks fits", r.From, r.To, r.Room, r.Limit, audit.UnreservedConcurrency),
		Next: "reserve less, or have AWS raise the quota L-B99A9384 and write that in the fleet's accounts"}
	if r.Twice {
		e.Next = "deploy twice: first a fleet in which each function has the smaller one of its two values, then this one"
	}
	return append(out, e)
}
