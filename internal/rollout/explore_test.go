package rollout

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// explorer goes to every node of a shape, once, and asks every rule there. After the first fault it goes no further.
type explorer struct {
	shape shape
	next  func(State, Event) (State, []Command, error) // Next, or one that a test has spoilt
	edge  map[string]edgeRule
	node  map[string]nodeRule
	long  bool // the long key
	seen  map[string]bool
	ends  map[string]Status // of all that goes well from there
	todo  []node
	edges int
	reach map[Status]int
	fault string // the name of the rule
	why   string
}

func newExplorer(sh shape) *explorer {
	return &explorer{shape: sh, next: Next, edge: edgeRules, node: nodeRules, seen: make(map[string]bool), ends: make(map[string]Status), reach: make(map[Status]int)}
}

func (x *explorer) start() node {
	s, err := New(x.shape.spec(), begin)
	if err != nil {
		panic(err)
	}
	s, _, err = Next(s, Event{Kind: Taken, Fencing: 1, At: begin})
	if err != nil {
		panic(err)
	}
	return node{s: s}
}

// after is the node that follows. Fencing numbers are told apart by no more than which is the latest, so that all nodes
// have number 1.
func (x *explorer) after(n *node, e Event) (node, []Command, error) {
	s, commands, err := x.next(n.s, e)
	if err != nil {
		return *n, nil, err
	}
	after := *n
	after.s = s
	after.s.Fencing = 1
	after.red = n.red || n.isRed(e)
	for i := range s.Cells {
		at, was := &s.Cells[i], &n.s.Cells[i]
		if e.Cell == at.Name && e.Kind == Read && e.Stack == Complete && e.Digest == "new" {
			after.proved[i][was.Stage] = true
		}
		if e.Cell == at.Name && e.Untouched && e.Kind == Executed && n.told[i][was.Stage] == 1 {
			after.told[i][was.Stage] = 0
		}
		for _, c := range commands {
			if c.Kind == Execute && c.Cell == at.Name {
				after.proved[i][at.Stage] = false
				after.told[i][at.Stage] = min(2, after.told[i][at.Stage]+1)
			}
		}
	}
	return after, commands, nil
}

func (x *explorer) run() {
	first := x.start()
	x.arrive(&first)
	for len(x.todo) > 0 && x.fault == "" {
		n := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		for _, e := range n.possible(x.shape.full) {
			after, commands, err := x.after(&n, e)
			if err != nil {
				continue
			}
			x.edges++
			for name, rule := range x.edge {
				if why := rule(&n, &after, e, commands); why != "" {
					x.fail(name, "%s\nbefore %+v\nevent  %+v\nafter  %+v\ndue    %+v", why, n.s, e, after.s, commands)
					return
				}
			}
			x.arrive(&after)
		}
	}
}

// arrive is at a node that may be new.
func (x *explorer) arrive(n *node) {
	key := n.key(!x.long)
	if x.seen[key] {
		return
	}
	x.seen[key] = true
	x.reach[n.s.Status]++
	x.todo = append(x.todo, *n)
	for name, rule := range x.node {
		if why := rule(x, n); why != "" {
			x.fail(name, "%s\nat %+v", why, n.s)
			return
		}
	}
}

func (x *explorer) fail(rule, format string, args ...any) {
	if x.fault == "" {
		x.fault, x.why = rule, fmt.Sprintf("shape %v: %s", x.shape, fmt.Sprintf(format, args...))
	}
}

// end is where a node comes to when all goes well, and "" when that is nowhere.
func (x *explorer) end(n node) Status {
	var path []string
	end, known := Status(""), false
	for !known && len(path) < 1000 {
		key := n.key(!x.long)
		if end, known = x.ends[key]; known {
			break
		}
		path = append(path, key)
		moved := false
		for _, e := range n.well() {
			after, _, err := x.after(&n, e)
			if moved = err == nil && after.key(!x.long) != key; moved {
				n = after
				break
			}
		}
		if !moved {
			end, known = n.s.Status, true
		}
	}
	for _, k := range path {
		x.ends[k] = end
	}
	return end
}

// explored is what came of all shapes, which are gone through once for all tests.
var explored = sync.OnceValue(func() map[string]string {
	all := shapes()
	slices.SortFunc(all, func(a, b shape) int { return cmp.Compare(weight(b), weight(a)) }) // the longest first
	var mu sync.Mutex
	var group sync.WaitGroup
	faults := make(map[string]string)
	reach := make(map[Status]int)
	states, steps := 0, 0
	begun := time.Now()
	todo := make(chan shape)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for sh := range todo {
				x, begun := newExplorer(sh), time.Now()
				x.run()
				mu.Lock()
				if x.fault != "" {
					faults[x.fault] = cmp.Or(faults[x.fault], x.why)
				}
				states, steps = states+len(x.seen), steps+x.edges
				for s, n := range x.reach {
					reach[s] += n
				}
				if took := time.Since(begun); took > 10*time.Second || *whole {
					fmt.Printf("%v: %d states, %d steps, %v\n", sh, len(x.seen), x.edges, took.Round(time.Millisecond))
				}
				mu.Unlock()
			}
		})
	}
	for _, sh := range all {
		todo <- sh
	}
	close(todo)
	group.Wait()
	for _, s := range statuses {
		if reach[s] == 0 {
			faults["Reached"] = fmt.Sprintf("no order of events leads to %s", s)
		}
	}
	fmt.Printf("%d plans, %d states, %d steps, %v\n", len(all), states, steps, time.Since(begun).Round(time.Millisecond))
	return faults
})

func weight(sh shape) int {
	w := sh.cells() * sh.stages
	if sh.full {
		w *= 4
	}
	return w
}

// held fails the test when a rule does not hold anywhere in any shape.
func held(t *testing.T, rules ...string) {
	t.Helper()
	faults := explored()
	for _, name := range rules {
		if edgeRules[name] == nil && nodeRules[name] == nil && name != "Reached" {
			t.Fatalf("there is no rule %s", name)
		}
		if why := faults[name]; why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
}
