package blast

import "slices"

// Step is one step of a cascade.
type Step struct {
	Failed []int   // shards that fail in this step, ascending
	Impact Impact  // of all that have failed by then
	Worst  int     // the shard that is used most then; -1 when all have failed
	Most   float64 // its utilisation; 0 when all have failed
}

// Cascade is what a failure leads to when overloaded shards fail too.
type Cascade struct {
	Steps  []Step // the first is the failure itself, if there was one
	Failed []int  // all shards that failed in the end, ascending
	All    bool   // no shard is left
}

// Spreads tells whether more failed than was told to.
func (c *Cascade) Spreads(failed []int) bool { return len(c.Failed) > len(failed) }

// Cascade follows the failure of these shards, which may be none: load is re-spread, with the retries of
// clients, then every shard above its capacity fails, and so on until none is or none is left. Errors
// are those of After.
//
// It ends after at most as many steps as there are shards. Who begins with more failures, more load or
// less capacity never ends with fewer shards failed: load only moves to shards that are left.
func (c *Capacity) Cascade(failed []int) (*Cascade, error) {
	if err := c.p.checkNamed(failed); err != nil {
		return nil, err
	}
	of := new(Cascade)
	down := make([]bool, c.p.shards)
	t := newTally(c.p)
	next := slices.Sorted(slices.Values(failed))
	for first := true; first || len(next) > 0; first = false {
		for _, s := range next {
			down[s] = true
		}
		of.Failed = append(of.Failed, next...)
		loads := c.after(down)
		if len(next) > 0 {
			step := Step{Failed: next, Impact: t.fail(of.Failed), Worst: loads.Worst}
			if loads.Worst >= 0 {
				step.Most = loads.Shards[loads.Worst].Utilisation()
			}
			of.Steps = append(of.Steps, step)
		}
		next = nil
		for _, s := range loads.Shards {
			if !s.Failed && s.Overloaded() {
				next = append(next, s.Shard)
			}
		}
	}
	slices.Sort(of.Failed)
	of.All = len(of.Failed) == c.p.shards
	return of, nil
}
