package wave

import "iter"

// Shard is one shard of a cell.
type Shard struct{ ID, Zone string }

// Stage is the shards of a cell that are deployed at once: those of one zone.
type Stage struct {
	Zone   string
	Shards []string // ids
	Whole  int      // tenants all of whose shards are new after this stage and those before
	Twice  int      // tenants with two shards or more in this stage, both new and unbaked at once
}

// Stages returns the stages of a cell, a zone each, in the order in which its zones first occur. The subsets are of
// its tenants, each once, as indices into shards; one without a member is of no tenant. It panics when an index is
// out of range.
func Stages(shards []Shard, subsets iter.Seq[[]int]) []Stage {
	var stages []Stage
	at := map[string]int{}
	of := make([]int, len(shards)) // stage by shard
	for i, s := range shards {
		n, known := at[s.Zone]
		if !known {
			n = len(stages)
			at[s.Zone] = n
			stages = append(stages, Stage{Zone: s.Zone})
		}
		of[i] = n
		stages[n].Shards = append(stages[n].Shards, s.ID)
	}
	members := make([]int, len(stages)) // of one tenant
	for subset := range subsets {
		clear(members)
		last := -1
		for _, shard := range subset {
			stage := of[shard]
			last = max(last, stage)
			if members[stage]++; members[stage] == 2 {
				stages[stage].Twice++
			}
		}
		if last >= 0 {
			stages[last].Whole++
		}
	}
	for i := 1; i < len(stages); i++ {
		stages[i].Whole += stages[i-1].Whole
	}
	return stages
}
