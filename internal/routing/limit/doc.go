// Package limit bounds what a router takes on: repeats (Budget), each tenant (Tenants), each shard (Shards),
// requests that fan out (Fanout), and all of them together (Shed). All are safe for concurrent use.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Budgeted (Budget): a repeat is granted only if then no more repeats are out than
//     max(floor, ratio × active requests). So the repeats that are out are never more than that was at some
//     time since the last of them was granted: a request that ends takes back nothing that was granted.
//  2. Rated (Tenants): in any t seconds no more than Burst + Rate × t requests of a tenant are admitted, and a
//     tenant that asks for less is never refused.
//  3. Concurrent (Tenants): no more than Config.Concurrent requests of a tenant are admitted and not released.
//  4. RetryAfter (Tenants): a tenant that is refused for its rate and alone asks again after the time that it
//     was told is admitted then, and was told no longer than needed.
//  5. Unforgiving (Tenants): a tenant is forgotten only when that changes nothing for it: its bucket is full
//     and nothing of it is in flight. Whoever comes while no room can be made shares one bucket with the
//     others who do, and is limited together with them.
//  6. Bounded (Tenants): no more than Config.Tenants are remembered, rounded up to a multiple of 64; without a
//     rate, those that have something in flight (TestUnrated).
//  7. PerShard (Shards): no more than the limit are in flight to one shard, however many others are.
//  8. Shared (Shed): no more than the limit are in flight, and a tenant that holds as many of them as there
//     are left is admitted no more. So one tenant can have half of the router at most, and h tenants that take
//     what they can come to leave 1/(h+1) of it, as their requests end. Who has nothing in flight is admitted
//     to the last place.
//  9. NoAllocations: no admission, of a tenant that is remembered and a shard that was asked before, allocates.
//
// # On Lambda
//
// An environment has one request at a time, so that nothing can be in flight beside it. Budget grants every
// first repeat there; the engine allows one a request. Shards, Fanout, Shed and Config.Concurrent do nothing:
// what bounds a shard is the reserved concurrency of its slice, and the router the one of its own function.
//
// The rate is approximated. Each of the n environments in use (Config.Environments) holds a tenant to Rate/n,
// with a burst of Burst/n and never less than 8, since requests do not come to environments in turn. In t
// seconds all together admit at most
//
//	Rate × t × a/n + a × max(8, Burst/n)
//
// requests of a tenant of which a environments see something. So n too high (the reservation, when fewer are
// warm) refuses a tenant that stays within its rate, by the factor a/n; n too low admits too much, by the same
// factor; and a tenant that comes for the first time has a burst of up to 8 in each. With n = a = 50 and a rate
// of 20 a second, a tenant that asks for half of it at random times is refused nothing, for 0.9 of it 1.9 %, and
// for ten times its rate gets 103 % of it in ten minutes (go test -run TestEnvironments -v). A limit that has to be exact belongs to the API in front: usage plans, or rules of AWS WAF.
package limit
