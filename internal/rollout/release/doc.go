// Package release says what a cloud assembly of the AWS CDK is to a rollout: its digest, the stacks of each cell's
// stages, what makes it unfit, the folder that keeps assemblies by digest, and the stacks of a fleet behind what two
// adapters do: one prepares change sets, the other reads stacks and executes what was prepared.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. OneDigest: the digest follows from names, contents and the owner's right to execute, of every file that a
//     deployment can read, and from nothing else: not from the order of the directory, times, or what the CDK's command
//     line leaves behind. A change of any of these files changes it.
//  2. NothingOutside: no file outside of the assembly's folder is read, nor one through a link.
//  3. Refused: an assembly that is none, of another service or another fleet, that is not complete, or whose images
//     and assets are not pinned is refused with every reason, before anything is asked of AWS.
//  4. KeptWhole: a digest is in the folder wholly or not at all, wherever the process that keeps it ends; and what is
//     handed out has the digest for which it was asked.
//  5. ReadByTemplate: a stage runs a digest only if every stack of it has the template and the tags that the assembly
//     of that digest gives it.
//  6. PrepareChangesNothing: nothing is prepared for a stack that the CDK's command line would change or delete while
//     it prepares.
package release
