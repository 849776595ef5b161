// Package telemetry tells operators what became of each request: one line of JSON each, which is a log
// record and, for CloudWatch, metrics at once (CloudWatch embedded metric format, specification version 0).
//
// # The line
//
//	time        when the answer began, RFC 3339 with milliseconds
//	level       ERROR from status 500 on, WARN where a part of the router did not answer or a shard was left, else INFO,
//	            as also when the client left before its answer was there
//	msg         "request"
//	requestId   as the shard and the client were told
//	traceId     of the client's traceparent (W3C Trace Context), where there is one
//	service, cell
//	tenant      the id, or with HashTenants the first 26 characters of base32(SHA-256(id)), in lower case
//	method, route, status
//	ms          until the answer began
//	shard       the first that was asked; absent when none was
//	attempts    each with shard, status, ms and err, when there was more than one or one failed
//	ageMs       of what was known of the tenant
//	left        true when the client left before its answer was there; nobody was told status then
//	err, stale, poisoned, fanout, replicaErr, homeErr where there is something to say
//
// CloudWatch Contributor Insights and Logs Insights group by these names: `stats count(*) by tenant` tells the
// noisiest, `stats avg(ms) by shard` the slowest.
//
// # The metrics
//
// Namespace cellwall, dimensions [service, cell] and [service, cell, shard]:
//
//	Requests      count: what was sent to the shard
//	Errors        count: of these, what failed: no answer though the client waited for it, 5xx, 429 of a throttled
//	              slice, or 421
//	Latency       milliseconds, until the shard's answer began
//	Fallbacks     count: requests that another shard had to serve, on the shard that was left
//	KnowledgeAge  milliseconds: of what was known of the tenant
//
// What the router refused itself, before any shard, counts on the cell alone, as Refused. Poisoned counts the
// requests of tenants that are suspected of taking shards down.
//
// A verdict on a tenant that takes shards down is a line of its own, with the msg "poison verdict", and counts as
// PoisonVerdicts on the cell. What the keeper does about it are lines with the msg "quarantine", and each of its runs
// tells how many tenants are held and in quarantine, as Suspects and Quarantined on the cell.
//
// A line names shards and tenants: it is for operators, and nothing of it reaches a client. It has no header,
// no body, no path beyond the route's pattern, and no token.
//
// # Guarantees
//
// Each has a test of the same name.
//
//  1. OneLine: each outcome gives one line, of valid JSON, whatever its strings hold; a further one for each
//     attempt after the first, which is metrics alone.
//  2. Counted: the sums of Requests and Errors over all lines are those of the attempts.
//  3. Hidden: with HashTenants no line has a tenant's id.
package telemetry
