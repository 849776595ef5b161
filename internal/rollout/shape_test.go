package rollout

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"slices"
	"time"
)

var begin = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// whole explores with every kind of event what is otherwise explored with the lesser ones, which takes long: make soak.
var whole = flag.Bool("whole", false, "explore larger plans with every kind of event")

const hour = Duration(time.Hour)

// shape is a plan as the sizes of its batches, wave by wave, and the number of stages of each cell.
type shape struct {
	waves  [][]int
	stages int
	revert bool
	full   bool // every kind of event; otherwise one of each that leads to another kind of state
}

func (sh shape) String() string {
	text := fmt.Sprintf("%v of %d stages", sh.waves, sh.stages)
	if sh.revert {
		text += ", reverting"
	}
	if sh.full {
		text += ", every event"
	}
	return text
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

func (sh shape) cells() int {
	n := 0
	for _, w := range sh.waves {
		for _, size := range w {
			n += size
		}
	}
	return n
}

// splits is every way to put cells into up to three waves of one batch each.
func splits(cells int) [][][]int {
	var all [][][]int
	for a := 1; a <= cells; a++ {
		for b := 0; a+b <= cells; b++ {
			waves := [][]int{{a}}
			if b > 0 {
				waves = append(waves, []int{b})
			}
			if c := cells - a - b; c > 0 && b > 0 {
				waves = append(waves, []int{c})
			} else if c > 0 {
				continue
			}
			all = append(all, waves)
		}
	}
	return all
}

// shapes is every way to put up to 5 cells into up to 3 waves, and plans with batches and stages. Without whole four or five
// cells at once are left out, since what they do to each other three do, too; only the smallest plans have every kind of
// event; and of larger ones few revert.
func shapes() []shape {
	var all []shape
	for cells := 1; cells <= 5; cells++ {
		for _, waves := range splits(cells) {
			widest := slices.MaxFunc(waves, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })[0]
			full := cells == 1 || cells == 2 && (*whole || widest == 1)
			if *whole || widest <= 3 && (cells < 5 || len(waves) == 3) {
				all = append(all, shape{waves, 1, false, full})
			}
			if *whole || cells <= 3 {
				all = append(all, shape{waves, 1, true, full})
			}
		}
	}
	all = append(all,
		shape{[][]int{{2}}, 1, false, true},
		shape{[][]int{{1}}, 2, false, true},
		shape{[][]int{{1}}, 2, true, true},
		shape{[][]int{{1, 1}}, 1, false, *whole},
		shape{[][]int{{1}, {1}}, 2, false, *whole},
		shape{[][]int{{2}}, 2, true, false},
		shape{[][]int{{1}}, 3, false, *whole},
		shape{[][]int{{1, 1, 1}}, 1, false, false},
		shape{[][]int{{1}, {1}, {1}}, 2, false, false},
		shape{[][]int{{1}, {1, 2}, {1}}, 1, false, false},
		shape{[][]int{{1, 1}, {2, 1}}, 1, true, false})
	if *whole {
		all = append(all, shape{[][]int{{1}, {1}, {1}}, 1, false, true}, shape{[][]int{{1}, {2}}, 1, true, true}, shape{[][]int{{2}, {1}}, 1, false, true})
	}
	return all
}

// node is a state with what the test remembers of its own and does not take from the state.
type node struct {
	s      State
	proved [5][3]bool // the stage was read complete with the rollout's digest since it was last executed
	told   [5][3]byte // how often it was executed: 2 is twice or more
	red    bool       // something went wrong
}

func (n *node) forward() bool { return n.s.Status == IsRunning || n.s.Status == IsPaused }

var stepNumber = func() map[Step]byte {
	m := make(map[Step]byte)
	for i, s := range steps {
		m[s] = byte(i + 1)
	}
	return m
}()

// key is equal for nodes of which one is the other but for times, words and the order of cells of one batch: Next tells
// none of those apart. TestReductions holds that what the shorter key leaves out, besides, makes no difference any more.
func (n *node) key(short bool) string {
	var cells [5][]byte
	var buffer [5][16]byte
	for i := range n.s.Cells {
		b := buffer[i][:0]
		if short && !n.forward() {
			b = n.keyBack(b, i)
		} else {
			b = n.keyForward(b, i, short)
		}
		cells[i] = b
	}
	used := cells[:len(n.s.Cells)]
	slices.SortFunc(used, bytes.Compare)
	key := append(make([]byte, 0, 64), byte(slices.Index(statuses, n.s.Status)))
	if n.forward() || !short {
		var head byte
		if n.red {
			head = 1
		}
		for _, d := range n.s.Despite {
			head |= alarmBit(d.Alarm)
		}
		key = append(key, head)
	}
	for _, b := range used {
		key = append(append(key, byte(len(b))), b...)
	}
	return string(key)
}

func alarmBit(alarm string) byte {
	if alarm == "fire" {
		return 2
	}
	return 4
}

func (n *node) keyForward(b []byte, i int, short bool) []byte {
	c := &n.s.Cells[i]
	var before byte
	for _, a := range c.Before {
		before |= alarmBit(a)
	}
	if c.First {
		before |= 1
	}
	if c.baking() && c.Since.IsZero() {
		before |= 8
	}
	over := short && c.Step == Done
	b = append(b, byte(c.Wave), byte(c.Batch), stepNumber[c.Step], before)
	if !over {
		b = append(b, byte(c.Stage))
	}
	for j, s := range c.Stages {
		var f byte
		switch {
		case short && !s.Touched && (over || j < c.Stage): // it was ours before
		default:
			for bit, is := range []bool{s.Read, s.Touched, s.Back, s.Stays, s.Previous == "old", s.Previous == "new"} {
				if is {
					f |= 1 << bit
				}
			}
		}
		if n.proved[i][j] && !over {
			f |= 1 << 6
		}
		if c.Step == Executing && j == c.Stage && n.told[i][j] == 2 {
			f |= 1 << 7
		}
		b = append(b, f)
	}
	return b
}

// keyBack is of what can never go forward again: what lies before a cell's way back makes no difference, and of which
// wave it is neither.
func (n *node) keyBack(b []byte, i int) []byte {
	c := &n.s.Cells[i]
	if !c.touched() && c.Step != Executing {
		return append(b, 0)
	}
	switch c.Step {
	case WasRead, Preparing, Ready, Executing, Reading, Settling, UndoReading, Restoring, UndoSettling:
		var first byte
		if c.Step == Executing {
			first = 2 * n.told[i][c.Stage]
			if c.First {
				first++
			}
		}
		b = append(b, stepNumber[c.Step], byte(c.Stage), first)
	case Undone, Stays, UndoStuck:
		b = append(b, stepNumber[c.Step])
	default: // it rests
		b = append(b, 1)
	}
	for _, s := range c.Stages {
		var f byte
		if s.Touched {
			for bit, is := range []bool{s.Touched, s.Back, s.Stays, s.Previous == "old", s.Previous == "new"} {
				if is {
					f |= 1 << bit
				}
			}
		}
		b = append(b, f)
	}
	return b
}
