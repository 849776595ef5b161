package audit

// Proposal is a mapping that partitions the stacks into groups of like ones, where nothing says who is who.
type Proposal struct {
	Rule   string   `json:"rule"`   // to be given as --shard
	Shards []Shard  `json:"shards"` // that it would find
	Stacks []string `json:"stacks"` // that it would place, in the order of the shards
}
