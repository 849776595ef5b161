package fleet

// Ingress says how many shards stand behind one Application Load Balancer.
type Ingress struct {
	Kind IngressKind
	// Group is the number of shards behind one load balancer when Kind is IngressGrouped, else 0.
	Group int
}

// IngressKind is the shape of a cell's HTTP ingress.
type IngressKind string

const (
	IngressPerShard IngressKind = "per-shard" // an internal ALB for each shard
	IngressGrouped  IngressKind = "grouped"   // {grouped: m}: one ALB for m shards
	IngressShared   IngressKind = "shared"    // one ALB for the cell
)
