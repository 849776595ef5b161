// Package shardkit is the shard's side of a cell, for services in Go. It answers the one question that a
// shard must ask before it does anything for a request: does this shard hold this tenant, at this epoch?
//
//	guard, err := shardkit.NewGuard(shardkit.Config{Shard: "s01", Items: items})
//	http.Handle("/", guard.Wrap(service))
//
//	func service(w http.ResponseWriter, r *http.Request) {
//		tenant := shardkit.From(r.Context())
//		if err := tenant.Write(r.Context(), shardkit.Write{Key: "ORDER#1", Value: body}); err != nil {
//			shardkit.Fail(w, err)
//			return
//		}
//		w.WriteHeader(http.StatusNoContent)
//	}
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
// gone: it is out of date, and gets 421. An equal one is the rule. A higher one means that the entry has
// changed since in a way that left this shard in the tenant's subset, as suspending and resuming does;
// had it left the subset, the item would be gone, or about to go when no router sends here any more.
// Because the item's epoch only rises during a stay, and the next stay begins above it, what was refused
// as out of date stays refused.
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
//  4. NothingDone: Fail answers 421, which lets a router repeat the request elsewhere, only when nothing
//     was written for it.
//
// A service without a store in which its shards' items could be kept cannot ask: give it a Memory that
// holds everybody, and know that nothing is checked.
package shardkit
