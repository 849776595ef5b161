package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// observation is what was seen; a look that failed or says nothing is missing data.
func (n *next) observation() Observation {
	if n.e.Observation == nil || n.e.Error != "" {
		return Observation{Missing: []string{"the whole gate" + n.error()}}
	}
	return *n.e.Observation
}

// baseline notes what fires before the wave changes anything, until the cell's turn comes. It begins only with what is
// excused.
func (n *next) baseline(c *Cell) error {
	o := n.observation()
	if len(o.Missing) > 0 {
		n.lookAgain(c)
		n.pause(missing(c, o))
		return nil
	}
	if before := sorted(o.Firing); !slices.Equal(before, c.Before) {
		c.Before, n.changed = before, true
	}
	if loud := n.loud(c, o.Firing); len(loud) > 0 {
		n.lookAgain(c)
		n.pause(fmt.Sprintf("cell %s: %s fires before the wave; repair it, or resume with --despite ALARM --because \"…\"", c.Name, strings.Join(loud, ", ")))
		return nil
	}
	if c.Step == Looking {
		n.step(c, Seen)
	}
	return nil
}

func (n *next) lookAgain(c *Cell) {
	if c.Step == Seen {
		n.step(c, Looking)
	}
}

func missing(c *Cell, o Observation) string {
	return fmt.Sprintf("cell %s has no data of %s: inconclusive; resume when it has", c.Name, strings.Join(o.Missing, ", "))
}

// watch judges a look at a cell that was changed. Red goes before missing data: what fires is known, whatever else is not.
//
// An alarm that fires in cells that are not deployed, too, is noted and pauses. As long as the rollout is paused a noted
// one is not blamed on it, also when it ends elsewhere first. Once it is quiet it is forgotten, and what fired counts from
// there. Who resumes before that answers for it by name, or has it judged.
func (n *next) watch(c *Cell) error {
	o := n.observation()
	loud := n.loud(c, slices.Concat(o.Firing, o.Fired))
	quiet := without(n.noted(c), o.Firing)
	storm := without(loud, quiet)
	own := without(storm, o.Elsewhere)
	if n.Status == IsPaused {
		own = without(own, c.Before)
	}
	switch {
	case len(own) > 0:
		why := fmt.Sprintf("cell %s: %s fired", c.Name, strings.Join(own, ", "))
		c.Why, n.changed = why, true
		n.halt(why)
	case len(storm) > 0:
		if before := sorted(slices.Concat(c.Before, storm)); !slices.Equal(before, c.Before) {
			c.Before, n.changed = before, true
		}
		n.pierce(c)
		n.pause(fmt.Sprintf("cell %s: %s fires, as it does in cells that are not deployed yet; wait, or resume with --despite ALARM --because \"…\"", c.Name, strings.Join(storm, ", ")))
	case len(o.Missing) > 0:
		n.pierce(c)
		n.pause(missing(c, o))
	case len(quiet) > 0:
		c.Before = sorted(without(c.Before, quiet))
		c.From, n.changed = n.e.At, true
		if c.baking() {
			c.Since = n.e.At
		}
	case c.baking() && c.Since.IsZero():
		c.Since, n.changed = n.e.At, true
	case c.baking():
		wait, requests := n.bake(c)
		if !n.e.At.Before(c.Since.Add(wait)) && o.Requests >= requests {
			n.baked(c)
		}
	}
	return nil
}

func (c *Cell) baking() bool { return c.Step == Proving || c.Step == Baking }

// pierce makes a hole in a bake, which is none then: it begins again with the first look without one.
func (n *next) pierce(c *Cell) {
	if c.baking() && !c.Since.IsZero() {
		c.Since, n.changed = time.Time{}, true
	}
}

// noted is the alarms of a changed cell that fired elsewhere, too, and that nobody has excused.
func (n *next) noted(c *Cell) []string {
	if !c.watched() {
		return nil
	}
	return without(c.Before, n.excused())
}

// doubtful says that something is noted of which it is not known whose fault it is: nothing new begins.
func (n *next) doubtful() bool {
	for i := range n.Cells {
		if len(n.noted(&n.Cells[i])) > 0 {
			return true
		}
	}
	return false
}

func (n *next) excused() []string {
	names := make([]string, len(n.Despite))
	for i, d := range n.Despite {
		names[i] = d.Alarm
	}
	return names
}

// without is what of the list is not in the other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(a string) bool { return slices.Contains(other, a) })
}

// loud is the alarms that count: all but those that were noted as not this rollout's and are excused by name.
func (n *next) loud(c *Cell, alarms []string) []string {
	excused := n.excused()
	return slices.DeleteFunc(sorted(alarms), func(a string) bool {
		return slices.Contains(c.Before, a) && slices.Contains(excused, a)
	})
}

// sorted is the list in order, each once, and nil when it is empty.
func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
