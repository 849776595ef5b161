// Package audit finds what shards share. It reads the templates of any number of CloudFormation
// stacks, builds one graph of who refers to whom across all of them, and reports each resource on
// which more than one shard depends, with the path that shows it. It does no input or output: the
// templates come in as data (package assembly reads them), a Report comes out.
//
// # Fate
//
// The question is: whose failure does a shard feel? An edge a → b says "when b fails, a fails", and a
// shard depends on everything reachable from the resources that belong to it. Edges come from five
// sources.
//
//  1. A reference runs with its direction. What a names (Ref, Fn::GetAtt, Fn::Sub, an import, a typed
//     or dynamic SSM parameter, an ARN, a physical name), a needs.
//  2. An attachment (a listener rule's target group, a policy's role, a subscription's endpoint, a
//     security group rule) joins two things, and who names whom is an accident of the API: a shared
//     listener names the target group of each shard, yet it is the shard that lives or dies with the
//     listener and not the other way round. An attachment is cut at the wall: between a shard's
//     resource and one that is no shard's it runs from the shard outwards, never inwards; between two
//     shards it runs both ways; between two resources of nobody it runs from the one that is served
//     to the one that serves, and from a DNS record to what it names as well.
//  3. A grant (an IAM statement's resources) lets its holder use something. A shard's grant is a
//     reference. A grant held by nobody's resource to a shard's resource is no fate of anyone: a
//     router that may call every shard does not fail with one of them.
//  4. Some ties no request travels: deployment order (DependsOn), and what only alarms, dashboards,
//     backups and trust policies name. What is shared over these alone is listed below the level of a
//     shared data path.
//  5. A value passes through parameters, outputs, exports, conditions and SSM parameters; they are
//     steps of a path. Of these only the SSM parameter is a resource and is judged as one.
//
// A part that belongs to nobody by itself (a listener, an alias) belongs where its whole does. A joint
// (a rule, a policy, an event source mapping) that attaches to exactly one shard's resources belongs to
// that shard.
//
// # Cells
//
// Coupling is another question than fate: may this cell be changed, broken or deployed without that one? So every
// reference between resources of two cells counts, whichever way fate runs along it, grants included; and so do
// network paths and what the manifest deploys first. What is expected to be shared is so within one cell.
//
// # Levels
//
// A level is the rule's, and then follows the share of the fleet's shards and cells that a finding reaches, see weigh.
// Variants of one app's context are judged apart and reported once, see RunVariants; what deploying over what is there
// would break is found by Withdrawals.
//
// # Cost
//
// Sharing is computed over the condensation of the graph with one bit set of shards per component:
// O((resources + references) × shards/64). The paths take one breadth-first search per shard over what
// that shard reaches.
//
// # Guarantees
//
//  1. Complete: a resource is reported exactly when at least two shards reach it along edges, with
//     exactly those shards.
//  2. Witnessed: each path of a finding begins at a resource of its shard, ends at the finding's
//     resource, and follows edges of the graph; no shorter one exists.
//  3. Deterministic: the same stacks in any order give the same report, byte for byte.
//  4. Unjudged: what cannot be resolved is a review item; it never stops the audit and is never
//     silently dropped.
//  5. Kept: a waiver, an acknowledgement or a baseline takes no finding out of the report and changes none
//     but for its suppression, and none of them holds after its last day.
package audit
