package show

import (
	"fmt"
	"strings"

	"cellwall.dev/cellwall/internal/rollout"
)

// kind groups the steps of a cell that look alike.
type kind struct {
	word   string
	ascii  string
	pretty string // one column wide in every terminal that has UTF-8
	colour string // SGR parameters
	steps  []rollout.Step
}

// kinds are in the order in which a cell passes them.
var kinds = []kind{
	{"waiting", ".", "·", "2", []rollout.Step{rollout.Waiting}},
	{"checking", "?", "?", "36", []rollout.Step{rollout.Looking, rollout.Seen, rollout.Reading, rollout.WasRead}},
	{"preparing", "~", "~", "36", []rollout.Step{rollout.Preparing, rollout.Ready}},
	{"deploying", ">", "▸", "33;1", []rollout.Step{rollout.Executing, rollout.Settling}},
	{"baking", "%", "%", "34;1", []rollout.Step{rollout.Proving, rollout.Baking}},
	{"done", "+", "✓", "32", []rollout.Step{rollout.Done}},
	{"failed", "X", "✗", "31;1", []rollout.Step{rollout.Broken}},
	{"returning", "<", "◂", "33;1", []rollout.Step{rollout.UndoReading, rollout.Restoring, rollout.UndoSettling}},
	{"rolled back", "-", "-", "35", []rollout.Step{rollout.Undone}},
	{"stays", "=", "=", "33", []rollout.Step{rollout.Stays}},
	{"stuck", "!", "!", "31;1;7", []rollout.Step{rollout.UndoStuck}},
}

// kindOf is a map from the step, made of kinds.
var kindOf = func() map[rollout.Step]int {
	of := map[rollout.Step]int{}
	for i, k := range kinds {
		for _, s := range k.steps {
			of[s] = i
		}
	}
	return of
}()

// Look is how a picture is drawn.
type Look struct {
	Width  int  // columns; at least 20 are used
	Height int  // lines; at least 8 are used
	Colour bool // ANSI colours
	UTF8   bool // marks beyond ASCII
}

func (l Look) mark(k int) string {
	if l.UTF8 {
		return kinds[k].pretty
	}
	return kinds[k].ascii
}

// paint puts a colour around a text, if there are colours.
func (l Look) paint(colour, text string) string {
	if !l.Colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// colours of the statuses of a rollout.
var statusColour = map[rollout.Status]string{
	rollout.IsRunning: "1", rollout.IsPaused: "33;1", rollout.IsHalted: "31;1", rollout.IsRollingBack: "33;1",
	rollout.IsRolledBack: "35;1", rollout.IsAborted: "31;1", rollout.IsDone: "32;1",
}

// tally counts the cells by kind.
func tally(cells []rollout.Cell) []int {
	n := make([]int, len(kinds))
	for _, c := range cells {
		n[kindOf[c.Step]]++
	}
	return n
}

// legend says what the marks are and how many cells have each, in lines of at most width columns.
func (l Look) legend(cells []rollout.Cell, most int) []string {
	var parts []string
	for k, n := range tally(cells) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d %s", l.mark(k), n, kinds[k].word))
		}
	}
	var lines []string
	line := ""
	for _, p := range parts {
		switch {
		case line == "":
			line = p
		case columns(line)+3+columns(p) <= l.Width:
			line += "   " + p
		default:
			lines = append(lines, line)
			line = p
		}
	}
	lines = append(lines, line)
	if len(lines) > most {
		return []string{cut(strings.Join(parts, "   "), l.Width)}
	}
	return lines
}
