package show

import (
	"fmt"

	"cellwall.dev/cellwall/internal/rollout"
)

// Tenants is how far a rollout is, in tenants as they were counted when it was planned.
type Tenants struct {
	Whole int `json:"allNew"` // have all of their shards on the new version
	Of    int `json:"of"`     // there are
}

// NewTenants counts over all cells; nil when nobody counted the tenants of a cell.
func NewTenants(s rollout.State) *Tenants {
	var all Tenants
	known := false
	for _, c := range s.Cells {
		whole, of := cellTenants(s, c)
		known = known || of > 0
		all.Whole, all.Of = all.Whole+whole, all.Of+of
	}
	if !known {
		return nil
	}
	return &all
}

// cellTenants counts a cell's tenants, of which those whose shards are all in stages that run the new version. A stage of
// which that is not known does not count.
func cellTenants(s rollout.State, c rollout.Cell) (whole, of int) {
	plan := planned(s.Spec, c)
	old := false // from here on
	for j, stage := range plan.Stages {
		if old = old || !isNew(c, j); stage.Tenants == nil {
			continue
		}
		if of = stage.Tenants.Of; !old {
			whole = stage.Tenants.Whole
		}
	}
	return whole, of
}

// isNew says that a stage of the cell runs the new version.
func isNew(c rollout.Cell, stage int) bool {
	s := c.Stages[stage]
	switch {
	case s.Back:
		return s.Stays
	case stage == c.Stage:
		return c.Step == rollout.Proving || c.Step == rollout.Baking || c.Step == rollout.Done
	}
	return stage < c.Stage
}

// stageTenants is what the stage that a cell has just reached means for its tenants; nil of one without shards, or when
// nobody counted them.
func stageTenants(s rollout.State, c rollout.Cell) *rollout.Tenants {
	if c.Step != rollout.Proving {
		return nil
	}
	return planned(s.Spec, c).Stages[c.Stage].Tenants
}

// tenantsText says it for people.
func tenantsText(t *rollout.Tenants) string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("; %s of %s tenants of the cell have all of their shards on the new version", grouped(int64(t.Whole)), grouped(int64(t.Of)))
	if t.Twice > 0 {
		text += fmt.Sprintf(", and %s two or more shards that are new at once", grouped(int64(t.Twice)))
	}
	return text
}
