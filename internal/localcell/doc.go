// Package localcell runs one cell of the fleet on this machine, as separate processes on loopback:
//
//	cellwall local up ──starts──▶ supervisor (own session; token issuer, control address)
//	                                 ├─▶ guard     leads the process group of all the others
//	                                 ├─▶ store     the directory and the cell's items, on disk
//	                                 ├─▶ worker    one process a shard; a poisoned request kills it
//	                                 └─▶ router    the routing engine; its own admin address
//
// The supervisor restarts what dies. When the supervisor itself dies, in whatever way, the pipe to the
// guard closes and the guard kills the group, so that no process outlives its cell. Addresses of the
// store, the router and the issuer stay open while their process restarts, because the supervisor holds
// the sockets; a worker's address refuses connections while the worker is down, which is what tells the
// router that a request was not sent.
//
// Everything lives in one state directory, readable by its owner only. Secrets (the placement key, the
// issuer's key, the secrets that the processes show each other) are passed in its files and to workers in
// their environment, never as arguments.
//
// What it is not: a wall against other users of the same machine. They cannot use the cell's addresses,
// but whoever listens on a worker's port while that worker is down gets what the router sends there.
package localcell
