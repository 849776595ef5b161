package show

import (
	"time"

	"cellwall.dev/cellwall/internal/rollout"
)

// planned is the cell as the plan has it.
func planned(p rollout.Spec, c rollout.Cell) rollout.PlannedCell {
	for _, cell := range p.Waves[c.Wave].Batches[c.Batch] {
		if cell.Name == c.Name {
			return cell
		}
	}
	return rollout.PlannedCell{}
}

// Bake is how long the present bake of a cell lasts, since when, and how many requests it needs: nothing unless the
// cell bakes. It is since never while it waits for the look with which it begins.
func Bake(s rollout.State, c rollout.Cell) (total time.Duration, since time.Time, requests int64) {
	switch c.Step {
	case rollout.Baking:
		return time.Duration(s.Spec.Waves[c.Wave].Bake), c.Since, s.Spec.MinRequests
	case rollout.Proving:
		if p := planned(s.Spec, c); c.Stage < len(p.Stages) && p.Stages[c.Stage].Bake > 0 {
			return time.Duration(p.Stages[c.Stage].Bake), c.Since, s.Spec.MinRequests
		}
	}
	return 0, c.Since, 0
}

// baked is how long a bake has lasted: not at all while it waits for the first whole look after one with a hole.
func baked(since, now time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since))
}

// Left is how long the bakes take that are still to come, if all goes well. Deployments, and requests that are waited
// for, come on top.
func Left(s rollout.State, now time.Time) time.Duration {
	var left time.Duration
	for w, wave := range s.Spec.Waves {
		longest := make([]time.Duration, len(wave.Batches)) // one batch after the other
		for _, c := range s.Cells {
			if c.Wave == w {
				longest[c.Batch] = max(longest[c.Batch], leftOf(s, c, now))
			}
		}
		for _, l := range longest {
			left += l
		}
	}
	return left
}

// leftOf is what is left of the bakes of a cell: of its stages, and of the wave's own.
func leftOf(s rollout.State, c rollout.Cell, now time.Time) time.Duration {
	if c.Step == rollout.Done {
		return 0
	}
	total, since, _ := Bake(s, c)
	rest := max(0, total-baked(since, now))
	if c.Step == rollout.Baking {
		return rest
	}
	left := time.Duration(s.Spec.Waves[c.Wave].Bake)
	for i, p := range planned(s.Spec, c).Stages {
		switch {
		case i == c.Stage && c.Step == rollout.Proving:
			left += rest
		case i >= c.Stage:
			left += time.Duration(p.Bake)
		}
	}
	return left
}
