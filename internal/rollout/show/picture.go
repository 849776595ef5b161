package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Sight is the last that was seen of a cell's gate.
type Sight struct {
	At          time.Time
	Observation rollout.Observation
}

// View is what a picture is drawn of.
type View struct {
	State  rollout.State
	Now    time.Time
	Sights map[string]Sight // by cell; of those that this process has looked at
	Lease  *run.Lease       // the latest; nil where the last holder drives
	Hint   string           // what to do next
	Note   string           // what went wrong and is tried again
}

// least is the size below which no picture is drawn.
const (
	leastWidth  = 20
	leastHeight = 8
)

// Lines draws the rollout.
func (v View) Lines(l Look) []string {
	l.Width, l.Height = max(l.Width, leastWidth), max(l.Height, leastHeight)
	head := v.head(l)
	legend := l.legend(v.State.Cells, 2)
	var foot []string
	if v.Note != "" && l.Height >= 2*leastHeight {
		foot = wrap("note: ", clean(v.Note), l.Width, 2)
	}
	if v.Hint != "" && l.Height >= 2*leastHeight {
		foot = append(foot, wrap("next: ", clean(v.Hint), l.Width, 3)...)
	}
	active := v.active()
	room := l.Height - len(head) - len(legend) - len(foot)
	gap := l.Height >= 2*leastHeight // an empty line between the parts
	if gap {
		room -= 3
	}
	grid := v.grid(l, max(1, room-min(len(active), max(2, room/3))))
	details := v.details(l, active, room-len(grid))
	out := head
	add := func(part []string) {
		if len(part) > 0 && gap {
			out = append(out, "")
		}
		out = append(out, part...)
	}
	add(grid)
	out = append(out, legend...)
	add(details)
	add(foot)
	return out[:min(len(out), l.Height)]
}

// head says which rollout it is, how it stands and why, and who drives it.
func (v View) head(l Look) []string {
	s := v.State
	title := fmt.Sprintf("rollout %s of %s: ", clean(s.Spec.ID), clean(s.Spec.Service))
	status := string(s.Status)
	var after string
	if s.Status.Over() {
		after = " after " + length(s.Updated.Sub(s.Started))
	} else {
		after = " for " + length(v.Now.Sub(s.Started))
		if left := Left(s, v.Now); left > 0 && (s.Status == rollout.IsRunning || s.Status == rollout.IsPaused) {
			after += ", " + length(left) + " of bakes left"
		}
	}
	var out []string
	if columns(title)+len(status)+len(after) <= l.Width {
		out = append(out, title+l.paint(statusColour[s.Status], status)+after)
	} else {
		out = wrap("", title+status+after, l.Width, 3)
	}
	short := l.Height < 2*leastHeight
	if !short {
		what := Digest(s.Spec.Digest)
		if s.Spec.Phase != rollout.Release {
			what += ", phase " + string(s.Spec.Phase)
		}
		if t := NewTenants(s); t != nil {
			what += fmt.Sprintf(", all shards of %s of %s tenants on it", grouped(int64(t.Whole)), grouped(int64(t.Of)))
		}
		out = append(out, wrap("", what+v.driver(), l.Width, 3)...)
	}
	if s.Why != "" {
		lines := wrap("why: ", clean(s.Why), l.Width, map[bool]int{true: 2, false: 4}[short])
		for i := range lines {
			lines[i] = l.paint(statusColour[s.Status], lines[i])
		}
		out = append(out, lines...)
	}
	if len(s.Despite) > 0 && !short {
		var names []string
		for _, d := range s.Despite {
			names = append(names, d.Alarm)
		}
		slices.Sort(names)
		out = append(out, wrap("despite: ", alarms(slices.Compact(names)), l.Width, 2)...)
	}
	return out
}

// driver says who holds the lease.
func (v View) driver() string {
	switch {
	case v.Lease == nil && v.State.Holder != "" && !v.State.Status.Over():
		return ", driven by " + cleanTo(v.State.Holder, 120)
	case v.Lease == nil:
		return ""
	case v.Lease.Until.After(v.Now) && v.Lease.Holder != "":
		return fmt.Sprintf(", driven by %s until %s at least", cleanTo(v.Lease.Holder, 120), v.Lease.Until.UTC().Format("15:04:05Z"))
	case v.State.Status.Over():
		return ""
	}
	return ", nobody drives it"
}

// active are the cells of which there is something to say, those in need of a hand first.
func (v View) active() []rollout.Cell {
	var bad, busy []rollout.Cell
	for _, c := range v.State.Cells {
		switch c.Step {
		case rollout.Broken, rollout.UndoStuck:
			bad = append(bad, c)
		case rollout.Waiting, rollout.Done, rollout.Undone:
		default:
			busy = append(busy, c)
		}
	}
	return append(bad, busy...)
}

// details has a line for each of the cells, or two where it is long, and says how many more there are.
func (v View) details(l Look, cells []rollout.Cell, room int) []string {
	if room < 1 || len(cells) == 0 {
		return nil
	}
	name := 0
	for _, c := range cells {
		name = max(name, columns(clean(c.Name)))
	}
	name = min(name, l.Width/3)
	var out []string
	for i, c := range cells {
		k := kindOf[c.Step]
		lead := l.mark(k) + " " + pad(cut(clean(c.Name), name), name) + "  "
		lines := wrap(lead, v.sentence(c), l.Width, 2)
		last := i == len(cells)-1
		if left := room - len(out); len(lines) > left || !last && len(lines) == left {
			if !last {
				return append(out, cut(fmt.Sprintf("and %d more", len(cells)-i), l.Width))
			}
			lines = wrap(lead, v.sentence(c), l.Width, left)
		}
		for j := range lines {
			lines[j] = l.paintFirst(j == 0, kinds[k].colour, lines[j])
		}
		out = append(out, lines...)
	}
	return out
}

// paintFirst paints the mark at the beginning of a line.
func (l Look) paintFirst(first bool, colour, line string) string {
	if !first {
		return line
	}
	mark, rest, _ := strings.Cut(line, " ")
	return l.paint(colour, mark) + " " + rest
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// sentence is what a cell is about.
func (v View) sentence(c rollout.Cell) string {
	stage := c.Stages[c.Stage]
	in := clean(stage.Name)
	if len(c.Stages) > 1 {
		in += fmt.Sprintf(" (%d of %d)", c.Stage+1, len(c.Stages))
	}
	switch c.Step {
	case rollout.Waiting:
		return "waits for its wave"
	case rollout.Looking:
		return "looks for alarms that fire before the wave" + v.sees(c)
	case rollout.Seen:
		return "ready; waits for the cells before it"
	case rollout.Reading:
		return in + ": reads what runs there, and waits while somebody else is changing it"
	case rollout.WasRead:
		return in + ": waits to be prepared"
	case rollout.Preparing:
		return in + ": is prepared"
	case rollout.Ready:
		return in + ": waits to be deployed"
	case rollout.Executing:
		return in + ": is deployed"
	case rollout.Settling:
		return in + ": deployed, and read until it has settled"
	case rollout.Proving:
		return in + ": " + v.bakes(c)
	case rollout.Baking:
		return "all deployed: " + v.bakes(c)
	case rollout.Done:
		return "done"
	case rollout.Broken, rollout.UndoStuck:
		return clean(strings.TrimPrefix(c.Why, "cell "+c.Name+", "))
	case rollout.UndoReading:
		return in + ": reads what runs there, to bring it back"
	case rollout.Restoring:
		return in + ": is brought back to " + Digest(stage.Previous)
	case rollout.UndoSettling:
		return in + ": brought back, and read until it has settled"
	case rollout.Undone:
		return "rolled back"
	case rollout.Stays:
		var stay []string
		for _, s := range c.Stages {
			if s.Stays {
				stay = append(stay, s.Name)
			}
		}
		return alarms(stay) + " stays as it is: there is no digest to go back to"
	}
	return clean(string(c.Step))
}

// bakes says how long the cell bakes, and what it waits for.
func (v View) bakes(c rollout.Cell) string {
	total, since, need := Bake(v.State, c)
	gone := baked(since, v.Now)
	var out string
	switch {
	case total == 0:
		out = "waits for a green look"
	case gone < total:
		out = fmt.Sprintf("baked %s of %s, %s left", length(gone), length(total), length(total-gone))
	default:
		out = "baked " + length(total)
	}
	sight, seen := v.Sights[c.Name]
	if need > 0 && seen {
		requests := sight.Observation.Requests
		out += fmt.Sprintf(", %s of %s requests", grouped(requests), grouped(need))
		if gone >= total && requests < need {
			out += ": waits for more"
		}
	} else if need > 0 {
		out += fmt.Sprintf(", needs %s requests", grouped(need))
	}
	return out + v.sees(c)
}

// sees is what the gate of a cell shows that keeps it from being green.
func (v View) sees(c rollout.Cell) string {
	sight, seen := v.Sights[c.Name]
	if !seen {
		return ""
	}
	out := ""
	if firing := sight.Observation.Firing; len(firing) > 0 {
		out += "; fires: " + alarms(firing)
	}
	if missing := sight.Observation.Missing; len(missing) > 0 {
		out += "; no data of " + alarms(missing)
	}
	return out
}

// grouped is a number with commas between thousands.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
