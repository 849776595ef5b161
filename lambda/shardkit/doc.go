// Package shardkit is the shard's side of a cell, for services in Go. It answers the two questions that a
// shard must ask before it does anything for a request: does this shard hold this tenant, at this epoch? And
// did this request take effect before?
//
//	guard, err := shardkit.NewGuard(shardkit.Config{Shard: "s01", Items: items})
//	http.Handle("/", guard.Wrap(service))
//
//	func service(w http.ResponseWriter, r *http.Request) {
//		tenant := shardkit.From(r.Context())
//		answer := shardkit.Answer{Status: http.StatusCreated, Body: text}
//		err := tenant.Commit(r.Context(), w, answer, shardkit.Write{Key: "ORDER#1", Value: body})
//		if err != nil {
//			shardkit.Fail(w, err)
//		}
//	}
//
// Commit is the only way to write, and it also answers: no service can acknowledge what is not durable,
// write without the condition on the holding, or forget a request's idempotency record. A request takes effect
// in one transaction or not at all.
//
// # Holding
//
// A shard holds a tenant while an item tenant → epoch in its own store says so. Whoever places tenants
// writes the item before the directory sends anybody here, and removes it after the directory sends
// nobody here any more; a service never writes it. Its epoch is that of the directory's entry since which
// the shard holds the tenant without a break, or a later one at which it was confirmed. A shard that let go
// remembers up to which epoch, so that a late word does not begin a stay again that is over.
//
// A request carries the epoch of the entry by which the router chose this shard. It is taken when the
// shard holds the tenant and
//
//	the request's epoch ≥ the item's epoch.
//
// A lower one was sent by an entry from before the tenant came, perhaps of an earlier stay whose state is
// gone: it is out of date, and gets 421 with the item's epoch. An equal one is the rule. A higher one means
// that the entry has changed since in a way that left this shard in the tenant's subset, as suspending and
// resuming does; had it left the subset, the item would be gone, or about to go when no router sends here
// any more. Because the item's epoch only rises during a stay, and the next stay begins above it, what was
// refused as out of date stays refused.
//
// # Taking effect once
//
// A request with the header Idempotency-Key leaves a record in the transaction of its effect, and that
// transaction depends on there being none: of all the executions of a request, on whatever members of the
// subset that reach the same store, one takes effect. A key is the tenant's own, and bound to the method, the path with its
// query, and SHA-256 of the body. Only an effect is recorded: a request that was refused, or whose
// result nobody knows, is executed again when it comes again.
//
// A repeat is answered by the record, with the status, the headers and the body that were given to Commit
// and the header Idempotency-Replayed. While the first is under way in the same process it gets 409 with
// Retry-After. In another process, as always on Lambda, it is executed beside the first; whichever commits
// later does nothing and is answered by the record of the other. A claim that kept the second from
// starting would keep it from finishing, too, when the first has died, which is what the key is for.
//
// A record is kept for 24 hours, that of a job for 15 days. Within that time an execution that comes late
// fails in its transaction, however late. A client must not repeat a request after that time.
//
// # Jobs
//
// A Job is a request that waits in a queue, and a Consumer does it. Its idempotency key is its own id unless
// it has another, so that it takes effect once however often the queue delivers it. A job of a tenant that
// this shard does not hold goes back to the cell's dispatch queue, from which the router places it again;
// after MaxDispatches it goes to the dead letters, with the reason. Tenant.Send puts a job there for any
// tenant, with the number of those that led to it: beyond MaxHops it is taken for a loop. Shards never call each other.
//
// # Ticks
//
// A Tick is a time at which one of the fleet's schedules is due, in this shard. It has no tenant: Guard.Ticks lets it
// through to the service without a question to the store, and what concerns a tenant the service has made of that
// tenant as a job (Tick.Send), which takes effect once however often the tick comes.
//
// # Names
//
// Name and CacheName name what a tenant has in a bucket, a table or a cache that tenants share.
//
// # Guarantees
//
// Each has a test of the same name, here or, for every store, in package shardkittest.
//
//  1. RouterOnly: a request without one valid tenant, epoch and shard, for another shard, or without the
//     secret where there is one, does not reach the service.
//  2. HeldBefore: the service is asked only when the shard holds the tenant at an epoch that is not above
//     the request's. Otherwise the answer is 421, before any effect.
//  3. NeverUnheld: no write is acknowledged that a shard made while it did not hold the tenant, however
//     the item changes between the question and the write: each write is one transaction of the store
//     with the condition on the item.
//  4. NothingDone: 421, which lets a router repeat the request elsewhere, is answered only when nothing was
//     written for it.
//  5. OneTransaction: an idempotency record is there if the effect is, and only then.
//  6. Once: of any number of requests with one key, at the same time, at any processes over one store,
//     exactly one takes effect, and all that are answered with success get its answer.
//  7. OnceAfterALostAnswer: a request that is repeated because its result is unknown takes effect once.
//  8. OnceThoughLate: an execution that goes on after a repeat has finished takes no effect.
//  9. BoundToTheRequest: a key that took effect with another method, path, query or body is refused with
//     422, and nothing is done.
//  10. Replayed: a repeat gets the answer that was given to Commit: status, headers and body.
//  11. Apart: what Name or CacheName gives for one tenant they give for no other, and ParseName reads each
//     Name back.
//  12. Parsed: what Encode writes ParseJob reads as the same job, and what ParseJob takes Encode writes.
//  13. Bounded: no job is dispatched more than MaxDispatches times, and no jobs of which each sends the next are more
//     than MaxHops.
//  14. InTime: a request that comes after its deadline reaches neither the store nor the service, and the
//     context of one that is under way ends then.
//  15. Ticked: a tick has the same name and time however often and late it comes, and sends the same jobs; no
//     request of a tenant is one.
//
// A service without a store in which its shards' items could be kept cannot ask: give it a Memory that
// holds everybody, and know that nothing is checked.
//
// docs/shard-contract.md says the same for services in other languages.
package shardkit
