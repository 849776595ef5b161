// Package poison finds the tenant whose requests take down one member of its subset after another, so that
// they are not sent to the next one.
//
// # The rule
//
// A shard goes down when a request fails or times out there, and the shard has answered another tenant since
// its last failure. That begins an episode: what else fails within 10 ms is part of it, as requests are that
// break together when a process dies. A shard that is down already, or answers nobody but this tenant, begins
// none. So "answered before and after" is in what is counted: a second episode of a shard needs an answer to
// another tenant after the first.
//
// If a tenant has nothing to do with the episodes of its members, each failure in them is the tenant's with the
// probability of its share of the shard's attempts. How often shards fail does not matter, and why: only whose
// requests they fail under. A tenant becomes a suspect when it had part in episodes of two members at least,
// within 10 minutes, and the chance of as many is at most 1e-6 (Hoeffding's bound, over all episodes of these
// members since then and in the 10 to 20 minutes before; the one that first drew attention to the tenant is not
// counted, since any other tenant would have been looked at in its place).
//
// A suspect is held for 5 minutes. Then it is on probation for 10: it is failed over again, but a chance of
// 0.03 is enough, which for a tenant with less than 3 % of a shard's requests is one episode, and the verdict is
// twice as long, up to an hour. After 10 quiet minutes it is forgotten.
//
// # On Lambda
//
// An environment sees one request in so many, and cannot wait for a chance of 1e-6 by itself. It suspects at
// 1e-2, for a minute: one request that takes down two members in a row is enough from a tenant with less than
// 1 % of the attempts that this environment saw. That costs an innocent tenant the second attempt for a
// minute in one environment. It is no reason to pin anybody: Verdict.Firm is false. Environments see different
// requests, so that chances of first verdicts on one tenant (Repeats 0) multiply, and somebody who reads what
// all of them log may take three within ten minutes together for a firm one; Watch.Hold brings it back to all.
// internal/quarantine does both.
//
// # What it does not find
//
// A tenant that is nearly alone on its members, or makes it so because the others' requests avoid them: then
// there is nobody to compare with. On Lambda, a tenant that takes a target down for all environments: most of
// them see the shard go down under somebody else. TestPoisonIsFound has both.
//
// # Measured
//
//	go test ./test/routersim -run 'FalseAlarms|PoisonIsFound' -v -timeout 20m -args -runs 5
//
// 2 of 16 shards, 2,000 tenants, five times 20 minutes, at 400 requests a second (local) and 200 (50
// environments); 0.1 %, 1 % and 5 % of requests failing at random, one shard dead, one hung, two dead, two
// failing every other request, and a zone of five dead for two minutes of every five; with equal tenants, and
// with one that has a tenth of the load. Local: no false alarm in 38 million requests. 50 environments: 20 in
// 19 million, most while a zone is down (7.5 in a million), none of them firm.
//
// Found, median and longest of five: a tenant with a request every 5 s that kills what it asks, after 42 and
// 46 s (6 and 8 requests that nobody answered) if the whole shard goes down for 2 s, and 22 and 29 s (3 and 4)
// if only the environment of a slice does. By the first of 50 environments, from a request every 10 s, after
// 103 and 200 s; firmly, by their chances taken together, after 181 and 349 s. docs/performance.md has the table.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. TwoMembers: nobody becomes a suspect for what happened on one member alone, unless it is on probation.
//  2. Once: a shard that is down, and answers no other tenant, counts once, and so does one that fails several
//     requests of the tenant at once.
//  3. Alone: a tenant that has nearly all requests of its members is no suspect.
//  4. Crowd: who only broke together with the guilty one is no suspect.
//  5. Chance: the bound is never less than the exact chance.
//  6. Rare: episodes that meet tenants by their share make hardly a suspect, and none by a firm verdict.
//  7. Found: four downs of two members that answer 400 tenants alike are a verdict, two on Lambda. It is told
//     once.
//  8. Lately: episodes of others in the last minutes make the tenant's own count for less, and those before do
//     not.
//  9. Expires: a verdict ends, and comes back as said above.
//  10. Held: a tenant that is held from outside is a suspect until then, and not longer.
//  11. Bounded: 4,096 tenants are remembered, those with a verdict before those without, and roster.Shards
//     shards with 4 KB each.
//  12. NoAllocations: neither an answer nor a question allocates, nor does a failure of a tenant with a record.
package poison
