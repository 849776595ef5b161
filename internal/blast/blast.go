// Package blast measures how much of a population fails together: how many tenants a set of failed
// shards takes down or degrades, and how many pairs of tenants share a shard. The numbers are counts
// over the subsets that tenants really have, not estimates.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Recipe: the counts are those of Recipe 12.2, for its published vectors.
//  2. Naive: they are the counts that looking at every tenant, and at every pair, gives.
//  3. ClosedForm: a population that has each possible subset equally often gives the binomial
//     expressions exactly.
//  4. OrderFree: neither the order of tenants nor that of a subset's members matters.
//  5. Monotone: a failure of more shards never degrades or takes down fewer tenants; who is fully
//     down is degraded too.
//  6. Bounded: Overlap takes no more steps than it says, and refuses before the first one when those
//     were too many.
package blast

import "errors"

// Errors of this package. They come wrapped with what was found; test with errors.Is.
var (
	ErrShardCount = errors.New("number of shards out of range")
	ErrSubset     = errors.New("not a subset of the shards")
	ErrTenants    = errors.New("too many tenants")
	ErrLoad       = errors.New("not a load")
	ErrFailed     = errors.New("not a set of shards that can fail")
	ErrSampling   = errors.New("not a way to draw sets of shards")
	ErrTraffic    = errors.New("not a way that requests find a shard")
	ErrCapacity   = errors.New("not what shards can carry")
	ErrTooLarge   = errors.New("pairwise overlap is too much work")
	ErrTooMany    = errors.New("too many sets of shards")
)
