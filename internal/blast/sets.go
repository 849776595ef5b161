package blast

import (
	"fmt"
	"slices"
)

// Set is shards that fail for one reason: those of a zone, of a wave, of a version, or any others.
type Set struct {
	Name   string
	Shards []int
}

// SetImpact is what the failure of a whole set does.
type SetImpact struct {
	Set
	Impact Impact
	Losses []Loss
}

// Alike groups shards by what they have in common: label i is that of shard i, its zone for instance. A
// set is named prefix + label, and sets come in the order of their names. Shards with an empty label are
// in none.
func Alike(prefix string, labels []string) []Set {
	by := make(map[string][]int)
	for shard, label := range labels {
		if label != "" {
			by[label] = append(by[label], shard)
		}
	}
	sets := make([]Set, 0, len(by))
	for label, shards := range by {
		sets = append(sets, Set{prefix + label, shards})
	}
	slices.SortFunc(sets, func(a, b Set) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return sets
}

// FailSets measures declared sets, each by itself, in the order given. ErrFailed for a set without a
// name, two of one name, or shards that Fail refuses: then nothing is measured.
func (p *Population) FailSets(sets []Set) ([]SetImpact, error) {
	names := make(map[string]bool, len(sets))
	for i, s := range sets {
		if s.Name == "" {
			return nil, fmt.Errorf("%w: the set with index %d has no name", ErrFailed, i)
		}
		if names[s.Name] {
			return nil, fmt.Errorf("%w: two sets are named %q", ErrFailed, s.Name)
		}
		names[s.Name] = true
		if err := p.check(s.Shards); err != nil {
			return nil, fmt.Errorf("set %q: %w", s.Name, err)
		}
	}
	impacts := make([]SetImpact, len(sets))
	for i, s := range sets {
		impacts[i].Set = Set{s.Name, slices.Clone(s.Shards)}
		impacts[i].Impact, _ = p.Fail(s.Shards) // checked above
		impacts[i].Losses, _ = p.Losses(s.Shards)
	}
	return impacts, nil
}
