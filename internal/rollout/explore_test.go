package rollout

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var begin = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// whole explores every plan, which takes long: make soak.
var whole = flag.Bool("whole", false, "explore every plan of up to 5 cells")

const hour = Duration(time.Hour)

// shape is a plan as the sizes of its batches, wave by wave, and the number of stages of each cell.
type shape struct {
	waves  [][]int
	stages int
	revert bool
	full   bool // every kind of answer, also those that lead to no other kind of state than others do
}

func (sh shape) String() string {
	return fmt.Sprintf("%v/%d/%t/%t", sh.waves, sh.stages, sh.revert, sh.full)
}

func (sh shape) spec() Spec {
	p := Spec{ID: "r1", Service: "orders", Digest: "new", Phase: Release, MinRequests: 100, Revert: sh.revert}
	n := 0
	for _, w := range sh.waves {
		wave := Wave{Bake: hour}
		for _, size := range w {
			var batch []PlannedCell
			for range size {
				n++
				c := PlannedCell{Name: fmt.Sprintf("c%d", n)}
				for i := range sh.stages {
					c.Stages = append(c.Stages, PlannedStage{Name: fmt.Sprintf("s%d", i), Bake: hour})
				}
				batch = append(batch, c)
			}
			wave.Batches = append(wave.Batches, batch)
		}
		p.Waves = append(p.Waves, wave)
	}
	return p
}

// shapes is every way to put up to 5 cells into up to 3 waves, and smaller plans with batches, stages, and every answer.
func shapes() []shape {
	var all []shape
	for cells := 1; cells <= 5; cells++ {
		for a := 1; a <= cells; a++ {
			for b := 0; a+b <= cells; b++ {
				c := cells - a - b
				if b == 0 && c > 0 {
					continue
				}
				var waves [][]int
				for _, size := range []int{a, b, c} {
					if size > 0 {
						waves = append(waves, []int{size})
					}
				}
				all = append(all, shape{waves, 1, false, cells <= 3})
				if cells <= 3 {
					all = append(all, shape{waves, 1, true, true})
				}
			}
		}
	}
	all = append(all,
		shape{[][]int{{1}, {1}}, 2, false, true}, shape{[][]int{{2}}, 2, true, true}, shape{[][]int{{1}}, 3, false, true},
		shape{[][]int{{1}, {1, 2}, {1}}, 1, false, false}, shape{[][]int{{1, 1}, {2, 1}}, 1, true, false}, shape{[][]int{{1, 1, 1}}, 1, false, true},
		shape{[][]int{{1}, {1}, {1}}, 2, false, false})
	if !*whole {
		all = slices.DeleteFunc(all, func(sh shape) bool { return len(planned(sh.spec()))*sh.stages > 2 })
	}
	return all
}

// node is a state with what the test remembers of its own: which stages were read complete with the rollout's digest
// since they were last executed, and whether something was red. Neither is taken from the state.
type node struct {
	s      State
	proved [5][3]bool
	red    bool
}

var stepNumber = func() map[Step]byte {
	m := make(map[Step]byte)
	for i, s := range steps {
		m[s] = byte(i)
	}
	return m
}()

// key is equal for nodes of which one is the other but for times, words and the order of cells of one batch: Next
// tells none of those apart.
func (n *node) key() string {
	var cells [5][]byte
	var buffer [5][16]byte
	for i, c := range n.s.Cells {
		b := append(buffer[i][:0], byte(c.Wave), byte(c.Batch), stepNumber[c.Step], byte(c.Stage), byte(len(c.Before)))
		for j, s := range c.Stages {
			var f byte
			for bit, is := range []bool{s.Read, s.Touched, s.Back, s.Stays, s.Previous == "old", s.Previous == "new", n.proved[i][j]} {
				if is {
					f |= 1 << bit
				}
			}
			b = append(b, f)
		}
		cells[i] = b
	}
	used := cells[:len(n.s.Cells)]
	slices.SortFunc(used, bytes.Compare)
	head := byte(len(n.s.Despite)) << 1
	if n.red {
		head |= 1
	}
	key := append(make([]byte, 0, 64), byte(slices.Index(statuses, n.s.Status)), head)
	for _, b := range used {
		key = append(key, b...)
	}
	return string(key)
}

func (n *node) forward() bool { return n.s.Status == IsRunning || n.s.Status == IsPaused }

// possible is every event that may come next.
func (n *node) possible(full bool) []Event {
	var events []Event
	at := n.s.Updated.Add(time.Second)
	add := func(e Event) {
		if e.At.IsZero() {
			e.At = at
		}
		if e.Fencing == 0 {
			e.Fencing = n.s.Fencing
		}
		events = append(events, e)
	}
	add(Event{Kind: Taken, Fencing: n.s.Fencing + 1, By: "other"})
	add(Event{Kind: Abort})
	add(Event{Kind: Rollback})
	switch n.s.Status {
	case IsRunning:
		add(Event{Kind: Pause})
	case IsPaused:
		add(Event{Kind: Resume})
		if full && len(n.s.Despite) == 0 {
			add(Event{Kind: Resume, Despite: []Despite{{Alarm: "before", Because: "it is what the release repairs"}}})
		}
	}
	for _, c := range n.s.Cells {
		stage := c.Stages[c.Stage].Name
		switch c.Step {
		case Preparing:
			add(Event{Kind: Prepared, Cell: c.Name, Stage: stage})
			add(Event{Kind: Prepared, Cell: c.Name, Stage: stage, Error: "denied"})
		case Executing:
			add(Event{Kind: Executed, Cell: c.Name, Stage: stage})
		case Restoring:
			add(Event{Kind: Restored, Cell: c.Name, Stage: stage})
		case Reading, Settling, UndoReading, UndoSettling:
			read := func(status StackStatus, digest string) {
				add(Event{Kind: Read, Cell: c.Name, Stage: stage, Stack: status, Digest: digest})
			}
			read(Complete, "old")
			read(Complete, "new")
			read(RolledBack, "old")
			read(Unknown, "")
			if full {
				read(Absent, "")
				read(InProgress, "new")
				read(Failed, "new")
				read(Stuck, "old")
				read(Complete, "")
			}
		}
		if !n.forward() || c.Step != Looking && !c.watched() {
			continue
		}
		look := func(at time.Time, o Observation) {
			add(Event{Kind: Looked, Cell: c.Name, At: at, Observation: &o})
		}
		look(c.Since.Add(time.Hour), Observation{Requests: 100})
		look(at, Observation{Firing: []string{"fire"}})
		look(at, Observation{Missing: []string{"health"}})
		if full {
			look(c.Since.Add(time.Hour-1), Observation{Requests: 1000})
			look(c.Since.Add(time.Hour), Observation{Requests: 99})
			look(at, Observation{Fired: []string{"fire"}})
			look(at, Observation{Firing: []string{"before"}})
			look(at, Observation{Firing: []string{"fire"}, Elsewhere: []string{"fire"}})
			add(Event{Kind: Looked, Cell: c.Name, Error: "throttled"})
		}
	}
	return events
}

// well is the event that comes when all goes well, or none at the end.
func (n *node) well() (Event, bool) {
	at := n.s.Updated.Add(time.Second)
	if n.s.Status == IsPaused {
		return Event{Kind: Resume, At: at, Fencing: n.s.Fencing, Despite: []Despite{{Alarm: "before", Because: "known"}, {Alarm: "fire", Because: "known"}}}, true
	}
	var look *Event
	for _, c := range Due(n.s) {
		i := slices.IndexFunc(n.s.Cells, func(x Cell) bool { return x.Name == c.Cell })
		cell := n.s.Cells[i]
		e := Event{At: at, Fencing: n.s.Fencing, Cell: c.Cell, Stage: c.Stage}
		switch c.Kind {
		case Prepare:
			e.Kind = Prepared
		case Execute:
			e.Kind = Executed
		case Restore:
			e.Kind = Restored
		case AskRead:
			e.Kind, e.Stack, e.Digest = Read, Complete, "old"
			switch cell.Step {
			case Settling:
				e.Digest = "new"
			case UndoReading, UndoSettling:
				if e.Digest = cell.Stages[cell.Stage].Previous; e.Digest == "" {
					e.Stack = Absent
				}
			}
		case Look:
			if cell.Step != Done && look == nil {
				e.Kind, e.At, e.Observation = Looked, cell.Since.Add(time.Hour), &Observation{Requests: 100}
				look = &e
			}
			continue
		}
		return e, true
	}
	if look != nil {
		return *look, true
	}
	return Event{}, false
}

// isRed says, from the event and what was due alone, whether it shows that something went wrong.
func (n *node) isRed(e Event) bool {
	i := slices.IndexFunc(n.s.Cells, func(c Cell) bool { return c.Name == e.Cell })
	if !n.forward() || i < 0 {
		return false
	}
	c := n.s.Cells[i]
	switch e.Kind {
	case Looked:
		if e.Observation == nil || c.Step == Looking {
			return false
		}
		for _, a := range slices.Concat(e.Observation.Firing, e.Observation.Fired) {
			excused := slices.Contains(c.Before, a) && slices.ContainsFunc(n.s.Despite, func(d Despite) bool { return d.Alarm == a })
			if !excused && !slices.Contains(e.Observation.Elsewhere, a) {
				return true
			}
		}
	case Prepared:
		return e.Error != ""
	case Read:
		switch e.Stack {
		case Failed, Stuck, Unknown:
			return true
		case Complete:
			return c.Step == Settling && e.Digest != "new"
		case RolledBack, Absent:
			return c.Step == Settling || e.Stack == RolledBack && c.Stages[c.Stage].Touched
		}
	}
	return false
}

// explorer goes to every node of a shape, once.
type explorer struct {
	t     *testing.T
	shape shape
	seen  map[string]bool
	ends  map[string]Status // of all that goes well from there
	todo  []node
	check func(x *explorer, before, after node, e Event, commands []Command)
	edges int
}

func (x *explorer) start() node {
	s, err := New(x.shape.spec(), begin)
	if err != nil {
		x.t.Fatal(err)
	}
	s, _, err = Next(s, Event{Kind: Taken, Fencing: 1, At: begin})
	if err != nil {
		x.t.Fatal(err)
	}
	return node{s: s}
}

// after is the node that follows; fencing numbers are told apart by no more than which is the latest, so that all
// nodes have number 1.
func (x *explorer) after(n node, e Event) (node, []Command, error) {
	s, commands, err := Next(n.s, e)
	if err != nil {
		return n, nil, err
	}
	after := n
	after.s = s
	after.s.Fencing = 1
	after.red = n.red || n.isRed(e)
	for i := range s.Cells {
		if e.Kind == Read && e.Cell == s.Cells[i].Name && e.Stack == Complete && e.Digest == "new" {
			after.proved[i][n.s.Cells[i].Stage] = true
		}
		for _, c := range commands {
			if c.Kind == Execute && c.Cell == s.Cells[i].Name {
				after.proved[i][s.Cells[i].Stage] = false
			}
		}
	}
	return after, commands, nil
}

func (x *explorer) run() {
	x.seen, x.ends = make(map[string]bool), make(map[string]Status)
	first := x.start()
	x.seen[first.key()] = true
	x.todo = []node{first}
	for len(x.todo) > 0 && !x.t.Failed() {
		n := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		for _, e := range n.possible(x.shape.full) {
			after, commands, err := x.after(n, e)
			if err != nil {
				continue
			}
			x.edges++
			x.check(x, n, after, e, commands)
			if key := after.key(); !x.seen[key] {
				x.seen[key] = true
				x.todo = append(x.todo, after)
			}
		}
	}
}

// end is where a node comes to when all goes well.
func (x *explorer) end(n node) Status {
	var path []string
	for range 1000 {
		key := n.key()
		if end, known := x.ends[key]; known {
			for _, k := range path {
				x.ends[k] = end
			}
			return end
		}
		path = append(path, key)
		e, more := n.well()
		if !more {
			x.ends[key] = n.s.Status
			continue
		}
		after, _, err := x.after(n, e)
		if err != nil {
			x.t.Fatalf("%v: %+v is refused: %v\n%+v", x.shape, e, err, n.s)
		}
		n = after
	}
	x.t.Fatalf("%v: there is no end, though all goes well\n%+v", x.shape, n.s)
	return ""
}
