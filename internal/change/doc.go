// Package change compares two cloud assemblies and says what deploying the second over the first does: what
// comes, goes, changes where it is, is made anew or stays behind, what of it is billed, in which order
// reserved concurrency can change, and what had better not be deployed at all.
//
// # Guarantees
//
//  1. Nothing for nothing: an assembly beside itself has no change, whatever the order of its stacks.
//  2. Never silent: each resource that is only in one of the two, or has another type, property or
//     attribute there, is in the report, a function's version that goes with the one that comes for it; a
//     change of which the table of properties knows nothing may replace.
//     DependsOn alone is no change: it says when a resource is made, and CloudFormation does not touch one for it.
//  3. Mirror: what is added in one direction is removed in the other, and what changes in one does in the other.
//  4. Within the room: no step of an order lets an account's functions reserve more than it allows, and
//     an order is found whenever there is one.
//  5. Kept: no refusal is missing where a resource that keeps data would be replaced, or removed for good, or its data
//     would leave the key by which it is encrypted.
//  6. Told: the text for people names each resource that keeps data and is removed or replaced, or may be.
package change
