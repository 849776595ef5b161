// Package blast measures how much of a population fails together: how many tenants a set of failed
// shards takes down or degrades, by number and by load, what those tenants experience, whether the shards
// that are left can carry them, and how many pairs of tenants share a shard. The numbers are counts over
// the subsets that tenants really have, not estimates, unless they are asked to be a sample.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Recipe: the counts are those of Recipe 12.2, for its published vectors.
//  2. Naive: they are the counts that looking at every tenant, and at every pair, gives.
//  3. ClosedForm: a population that has each possible subset equally often gives the binomial
//     expressions exactly.
//  4. OrderFree: the order of tenants, of a subset's members and of failures never matters, to the last
//     bit.
//  5. Monotone: a failure of more shards never degrades or takes down fewer tenants, less load, or loses
//     less capacity; who is fully down is degraded too.
//  6. Bounded: Overlap takes no more steps than it says, and refuses before the first one when those
//     were too many.
//  7. FixedPoint: sums of loads are exact for integers, and within a stated step otherwise.
//  8. Loads: impact by load and capacity lost are those of looking at every tenant.
//  9. Failures: worst, mean and percentiles over all sets of shards are those of failing each set by
//     itself. Inclusion and exclusion gives for each what the index gives, to the last bit.
//  10. Mean: where each subset is equally frequent, any set has the mean impact, which is the binomial
//     expression.
//  11. Sample: equal samplings give equal results; means are exact; intervals hold the true percentile
//     at least as often as they say; nothing exceeds the bound on the worst.
//  12. Sets: a declared set is measured as the failure of its shards.
//  13. Experience: success and attempts are those of following a request through every choice of the
//     router, for one failure and as a mean over all.
//  14. Respread: the load of each shard after a failure is that of re-spreading each tenant's.
//  15. Conservation: what shards are offered and what vanished is all load, without retries; with them
//     it is never more than every attempt that there can be.
//  16. Retries: loads with retries are where they come to rest: each shard refuses what is above its
//     capacity, and that is what is repeated.
//  17. Headroom: what is needed is the most that any failure asks for, and with it no shard is overloaded.
//  18. Cascade: it ends within as many steps as there are shards, fails exactly the overloaded ones in
//     each, and never ends with fewer failed for more failures, more load or less capacity.
//  19. Fairness: mean, variance and the rest are those of adding up every tenant's part.
//  20. Top: the largest tenants are those that sorting all puts first.
//  21. TooBig: who is listed takes more than the share after some failure of its other shards; with what
//     it needs, after none, whichever shards it has, and one shard less would be too few.
package blast

import "errors"

// Errors of this package. They come wrapped with what was found; test with errors.Is. With an error, no
// result is returned, not even in part.
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
