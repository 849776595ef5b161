package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// observation is what was seen; a look that failed or says nothing is missing data.
func (n *next) observation() Observation {
	if n.e.Observation == nil || n.e.Error != "" {
		return Observation{Missing: []string{"the whole gate" + n.error()}}
	}
	return *n.e.Observation
}

// baseline notes what fires before the wave changes anything. It begins only with what is excused.
func (n *next) baseline(c *Cell) error {
	o := n.observation()
	if len(o.Missing) > 0 {
		n.pause(fmt.Sprintf("cell %s has no data of %s: inconclusive; resume when it has", c.Name, strings.Join(o.Missing, ", ")))
		return nil
	}
	if before := sorted(o.Firing); !slices.Equal(before, c.Before) {
		c.Before, n.changed = before, true
	}
	if loud := n.loud(c, o.Firing); len(loud) > 0 {
		n.pause(fmt.Sprintf("cell %s: %s fires before the wave; repair it, or resume with --despite ALARM --because \"…\"", c.Name, strings.Join(loud, ", ")))
		return nil
	}
	n.step(c, Seen)
	return nil
}

// watch judges a look at a cell that was changed. Red goes before missing data: what fires is known, whatever else is not.
func (n *next) watch(c *Cell) error {
	o := n.observation()
	loud := n.loud(c, slices.Concat(o.Firing, o.Fired))
	own := slices.DeleteFunc(slices.Clone(loud), func(a string) bool { return slices.Contains(o.Elsewhere, a) })
	switch {
	case len(own) > 0:
		why := fmt.Sprintf("cell %s: %s fired", c.Name, strings.Join(own, ", "))
		c.Why, n.changed = why, true
		n.halt(why)
	case len(loud) > 0:
		// It fires where this version is not, too. Whoever resumes answers for it by name.
		if before := sorted(slices.Concat(c.Before, loud)); !slices.Equal(before, c.Before) {
			c.Before, n.changed = before, true
		}
		n.pause(fmt.Sprintf("cell %s: %s fires, as it does in cells that are not deployed yet; wait, or resume with --despite ALARM --because \"…\"", c.Name, strings.Join(loud, ", ")))
	case len(o.Missing) > 0:
		// A bake with a hole in it is none: it begins again.
		if (c.Step == Proving || c.Step == Baking) && !c.Since.Equal(n.e.At) {
			c.Since, n.changed = n.e.At, true
		}
		n.pause(fmt.Sprintf("cell %s has no data of %s: inconclusive; resume when it has", c.Name, strings.Join(o.Missing, ", ")))
	case c.Step == Proving || c.Step == Baking:
		wait, requests := n.bake(c)
		if !n.e.At.Before(c.Since.Add(wait)) && o.Requests >= requests {
			n.baked(c)
		}
	}
	return nil
}

// loud is the alarms that count: all but those that were noted as not this rollout's and are excused by name.
func (n *next) loud(c *Cell, alarms []string) []string {
	return slices.DeleteFunc(sorted(alarms), func(a string) bool {
		return slices.Contains(c.Before, a) && slices.ContainsFunc(n.Despite, func(d Despite) bool { return d.Alarm == a })
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
