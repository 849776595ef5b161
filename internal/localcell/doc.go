// Package localcell runs cells of the fleet on this machine, as separate processes on loopback:
//
//	cellwall local up ──starts──▶ supervisor (own session; signs tokens, gives jobs to workers, control address)
//	                                 ├─▶ guard      leads the process group of all the others
//	                                 ├─▶ directory  the tenant directory, on disk
//	                                 ├─▶ store      the tenants' state, whom shards hold, and the queues, on disk
//	                                 ├─▶ issuer     publishes the key by which tokens are verified
//	                                 ├─▶ worker     one process a shard; a poisoned request kills it
//	                                 ├─▶ keeper     writes the cell's snapshot; pins to quarantine
//	                                 ├─▶ router     the routing engine; its own admin address
//	                                 └─▶ gate       before a worker that is broken on purpose
//
// Several cells have each its own workers, keeper, router and placement key, one directory, store and issuer,
// and a front door, which sends each tenant to its cell and has a keeper of its own (global/keeper).
//
// The supervisor restarts what dies. When the supervisor itself dies, in whatever way, the pipe to the
// guard closes and the guard kills the group, so that no process outlives its cell. Addresses of the
// directory, the store, the router and the issuer stay open while their process restarts, because the
// supervisor holds the sockets; a worker's address refuses connections while the worker is down, which is what
// tells the router that a request was not sent.
//
// A worker's file is copied into the state directory by its digest, and run from there. A deployment brings shards to
// another digest one after the other: written down first, then the worker ends what it has begun, and the new one has to
// get healthy. So what runs after a restart, of a worker or of all, is what is written down. The supervisor watches all
// along how its cells fare, and tells a rollout's gate: see signs, and package rolling.
//
// Faults on purpose are real: signals to processes, or a gate, a process that stands where the router expects
// the worker and is slow, answers errors or throttles, and that is down when its worker is.
//
// Everything lives in one state directory, readable by its owner only. Secrets (the placement key, the
// issuer's key, the secrets that the processes show each other) are passed in its files and to workers in
// their environment, never as arguments.
//
// What it is not: a wall against other users of the same machine. They cannot use the cell's addresses,
// but whoever listens on a worker's port while that worker is down gets what the router sends there.
package localcell
