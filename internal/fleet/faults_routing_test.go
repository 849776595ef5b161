package fleet

const (
	slice = "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n"
	owner = "audience: orders}\n"
)

// routingFaults are what the rules of the router, its keeper and its callers find.
var routingFaults = []faultCase{
	{"source of another name", owner, "audience: orders, source: saml}\n", []string{
		`3:70: auth.source is "saml": it must be jwt, lambda, iam or verify; write jwt, lambda, iam or verify`,
	}},
	{"symmetric signature", owner, "audience: orders, source: verify, algorithms: [RS256, HS256]}\n", []string{
		`3:98: auth.algorithms[1] is "HS256": it must be an asymmetric signature algorithm (RFC 7518, RFC 8037); write one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA`,
	}},
	{"algorithms that nobody reads", owner, "audience: orders, algorithms: [RS256]}\n", []string{
		`3:74: auth.algorithms is set: auth.source is jwt, which does not read it; remove it, or write source: verify`,
	}},
	{"authorizer missing", owner, "audience: orders, source: lambda}\n", []string{
		`3:70: auth.source is lambda: it needs auth.authorizerArn; add authorizerArn: arn:aws:lambda:…`,
	}},
	{"principals missing", owner, "audience: orders, source: iam}\n", []string{
		`3:70: auth.source is iam: it needs auth.principals; add principals: {"arn:aws:iam::111111111111:role/acme": acme}`,
	}},
	{"principals without any", owner, "audience: orders, source: iam, principals: {}}\n", []string{
		`3:87: auth.principals is empty: nobody could ask; write "arn:aws:iam::111111111111:role/acme": acme`,
	}},
	{"principals of another source", owner, "audience: orders, principals: {\"arn:aws:iam::111111111111:role/acme\": acme}}\n", []string{
		`3:74: auth.principals is set: auth.source is jwt, which does not read it; remove it, or write source: iam`,
	}},
	{"tenant of a bad principal", owner, "audience: orders, source: iam, principals: {acme: acme}}\n", []string{
		`3:88: key "acme" in auth.principals: it must be the ARN of an IAM role or user; write it as arn:aws:iam::111111111111:role/acme`,
	}},
	{"tenant in the middle of a segment", owner, "audience: orders, pathTenant: \"/t-{tenant}/*\"}\n", []string{
		`3:74: auth.pathTenant is "/t-{tenant}/*": it must be a plain path with {tenant} as its last segment, or followed by /*; write it as /tenants/{tenant}/*`,
	}},
	{"attempt of no time", slice, slice + "router: {attemptTimeout: 50ms}\n", []string{
		`6:26: router.attemptTimeout is 50ms: it must be 100ms to 28s; write one between them`,
	}},
	{"attempt beyond the API's time", slice, slice + "router: {attemptTimeout: 30s}\n", []string{
		`6:26: router.attemptTimeout is 30s: it must be 100ms to 28s; write one between them`,
	}},
	{"route beyond the API's time", slice, slice + "routes: [{path: /*, via: lambda, timeout: 1m}]\n", []string{
		`6:43: routes[0].timeout is 1m0s: it must be 100ms to 28s; write one between them`,
	}},
	{"burst without a rate", slice, slice + "router: {tenantBurst: 5}\n", []string{
		`6:23: router.tenantBurst is 5: without router.tenantRate there is no limit that it could pass over; add tenantRate, or remove it`,
	}},
	{"burst below nothing", slice, slice + "router: {tenantRate: 5, tenantBurst: -5}\n", []string{
		`6:38: router.tenantBurst is "-5": it must be 0 to 1000000; write 0 or more`,
	}},
	{"keeper too often", slice, slice + "keeper: {every: 10s}\n", []string{
		`6:17: keeper.every is 10s: it must be 1m to 15m; write one between them`,
	}},
	{"probe too often", slice, slice + "rollout: {probe: {path: /up, every: 100ms}}\n", []string{
		`6:37: rollout.probe.every is 100ms: it must be 1s to 1m; write one between them`,
	}},
	{"probe of no path", slice, slice + "rollout: {probe: {every: 5s}}\n", []string{
		`6:18: path is missing: it is required in rollout.probe; add path: …`,
	}},
	{"keeper at half a minute", slice, slice + "keeper: {every: 1m30s}\n", []string{
		`6:17: keeper.every is 1m30s: schedules have whole minutes; write it as 1m or 5m`,
	}},
	{"keys at home", slice, slice + "  table: {}\n  state: {mode: home, idempotencyKeys: true}\n", []string{
		`7:40: shard.state.idempotencyKeys is true: with mode: home no other shard reaches a key's record, so that nothing may be repeated elsewhere; remove it, or write mode: cell`,
	}},
	{"quarantine of a stranger", "shards: 4", "shards: 4, quarantine: [s04, s05]", []string{
		`7:106: cells[0].quarantine[1] is "s05": cell eu-1 has no such shard; write the id of one of its shards`,
	}},
	{"quarantine twice", "shards: 4", "shards: 4, quarantine: [s04, s04]", []string{
		`7:106: cells[0].quarantine[1] is "s04" again: each shard stands there once, and line 7 has it already; write another, or remove this one`,
	}},
	{"quarantine of all", "shards: 4", "shards: [{id: a}, {id: b}], quarantine: [b, a]", []string{
		`7:117: cells[0].quarantine has every shard of the cell: a tenant would not be kept from anybody; leave some out`,
	}},
	{"quarantine of too many", "shards: 4", "shards: 4, quarantine: [s02, s03, s04]", []string{
		`7:100: cells[0].quarantine leaves 1 shard of the cell: nobody is placed in quarantine, and a tenant may have 2 shards; leave more out`,
	}},
	{"front door without tokens", owner, "audience: orders, source: iam, principals: {\"arn:aws:iam::111111111111:role/acme\": acme}}\nfrontDoor: {}\n", []string{
		`4:12: frontDoor is set: auth.source is iam, and a front door forwards tokens for the cells to verify again; remove it, or write source: jwt or verify`,
	}},
	{"front door beyond the quota", slice, slice + "frontDoor: {reservedConcurrency: 800}\n", []string{
		`8:85: account 111111111111 reserves 982 of its Lambda concurrency in eu-west-1 (eu-1 4 × 20 + 100 + 1, front door 800 + 1): of 1000, AWS keeps 100 unreserved, which leaves 900; reserve 82 less, or have AWS raise the quota to 1082 or more and write that as accounts."111111111111".lambdaConcurrency`,
	}},
}
