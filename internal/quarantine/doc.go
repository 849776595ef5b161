// Package quarantine decides what becomes of a tenant that takes down one shard after another, by the verdicts
// (internal/routing/poison) of all routers of its cell: they all hold it, and it is pinned to the cell's quarantine
// shards, where it breaks nobody else.
//
//	q, err := quarantine.New(quarantine.Config{Cell: "eu-1", Shards: []string{"s15", "s16"}, Residence: r})
//	o, err := q.Take(ctx, verdicts)   // as they come
//	o, err = q.Run(ctx)               // each minute: what was left undone, and what is over
//	held, err := q.Suspects(ctx)      // for the snapshot, from which routers feed poison.Watch.Hold
//
// # The rule
//
// A verdict of one router is firm when its chance is 1e-6 at most. An environment on Lambda tells chances from 1e-2
// on. Environments see different requests, so that the chances of first verdicts within 10 minutes are multiplied,
// one of each environment. The product of n chances of which none is above t = 1e-2 is below x for an innocent
// tenant with the probability
//
//	x · Σ (ln(tⁿ/x))ⁱ / i!     for i from 0 to n-1
//
// (Fisher's method, for chances that are told only below t), and that is 1e-6 at most when they are firm together:
// three environments always are, two with a product of 1.3e-7 at most.
//
// Who is suspected firmly is held by all routers for 5 minutes: what it breaks is not sent to another member. A
// verdict in the 10 minutes after that, for which the routers ask less then, holds it for twice as long, up to an
// hour. A verdict that is not firm holds it in its own router alone.
//
// A suspect is pinned to as many of the quarantine's shards as its subset has, those with the least reserved, by the
// steps of tenant pin: the shards hold it, its entry changes, the others let go. By is "quarantine", and the
// operation's id is derived from cell, tenant and epoch, so that who repeats it changes nothing twice. It is left
// alone, and the reason told, while it is pinned by an operator, placing, moving or suspended; when it is larger
// than what the quarantine has left; when its state lies on its shards (state.mode home), where it needs a move.
// Nothing releases it but tenant unpin; what was known of it by then does not pin it again.
//
// # False alarms
//
// At most PerHour tenants of a cell come to quarantine in an hour, and maxPinned are there at once. One poisonous
// tenant at a time is what quarantine is for; many at once are a bad release or an outage that the rule does not
// understand, and would be poisoned by each other there. With three an hour somebody has been called long before
// it matters, and of 2,000 tenants less than 4 % can have been moved in a day.
//
// # State
//
// All of it is one note of the cell in the directory, of at most 400 kB, replaced by compare-and-set. An intent is
// noted before a tenant is pinned. Any number of keepers may work at once.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Together: the chance of verdicts together is never less than that of the innocent's worst luck.
//  2. OnlyFirm: nobody is held by all or pinned without verdicts that are firm together; verdicts that are told
//     again, old, or of tenants that the cell does not have change nothing.
//  3. PinnedOnce: however often verdicts come, and however many keepers take them, a tenant's entry changes once.
//  4. Crash: after a stop at any step between verdict, intent, hold, flip and release, the next run ends with the
//     tenant held exactly where its entry says.
//  5. LeftAlone: pins of operators, and tenants that are placing, moving, suspended or too large, stay as they are.
//  6. Budget: no stream of verdicts pins more than PerHour tenants in an hour.
//  7. Released: an operator's unpin stands, until there are new verdicts.
//  8. Bounded: the note fits into a record of the directory whatever was said.
//  9. SuspectsAlone: without shards of a quarantine nothing but the note is written.
package quarantine
