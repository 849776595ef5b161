package fleet

// decodingFaults are what the YAML reader and the decoder find.
var decodingFaults = []faultCase{
	{"empty", "", "", []string{
		`1:1: empty file: a fleet needs a service, a directory, auth, a shard and cells; start from the sample in docs/fleet.md`,
	}},
	{"comment only", "", "# nothing\n", []string{
		`1:1: empty file: a fleet needs a service, a directory, auth, a shard and cells; start from the sample in docs/fleet.md`,
	}},
	{"list", "", "- a\n", []string{
		`1:1: the file is a list: it must be a mapping; write key: value pairs`,
	}},
	{"text", "", "hello\n", []string{
		`1:1: the file is "hello": it must be a mapping; write key: value pairs`,
	}},
	{"tab", `  lambda:`, "\tlambda:", []string{
		`5:1: a tab: YAML indents with spaces only; replace the tab by spaces`,
	}},
	{"unclosed", `audience: orders}`, `audience: orders`, []string{
		`4:1: ',' or '}' must be specified: the text is not YAML; check the indentation, brackets and quotes here and in the line before`,
	}},
	{"two documents", "cells:\n", "---\ncells:\n", []string{
		`6:1: a second document: one file describes one fleet; keep one document, without a further ---`,
	}},
	{"not UTF-8", "orders\ndir", "ord\xffers\ndir", []string{
		`1:13: character 0xff, which is not UTF-8: a fleet file is printable UTF-8 text; save the file as UTF-8 and remove the character`,
	}},
	{"control character", "orders\ndir", "ord\x00ers\ndir", []string{
		`1:13: character U+0000: a fleet file is printable UTF-8 text; save the file as UTF-8 and remove the character`,
	}},
	{"directive", "service: orders\n", "%YAML 1.2\n---\nservice: orders\n", []string{
		`1:1: directive "%YAML 1.2": directives are not read; remove the line`,
	}},
	{"anchor and alias", `account: "111111111111", region: eu-west-1}`, `account: &a "111111111111", region: *a}`, []string{
		`2:22: anchor "&a": a fleet file has no anchors and aliases; write the value itself`,
		`2:49: alias "*a": a fleet file has no anchors and aliases; repeat the value itself`,
	}},
	{"merge key", `directory: {`, `directory: {<<: {}, `, []string{
		`2:13: merge key "<<": a fleet file has no anchors and aliases; repeat the keys themselves`,
	}},
	{"colon without a space", `audience: orders}`, `audience: orders, claim:sub: x, source:"iam"}`, []string{
		`3:62: no space behind the colon of "claim": YAML reads the colon as part of the key then; write a space there, or put a key that has a colon in quotes`,
		`3:76: no space behind the colon of "source": YAML reads the colon as part of the key then; write a space there, or put a key that has a colon in quotes`,
	}},
	{"colon in plain text", `audience: orders}`, `audience: a: b, claim: c:}`, []string{
		`3:54: text "a: b": a colon that ends, or has a space behind it, is no part of plain text; put the text in quotes`,
		`3:67: text "c:": a colon that ends, or has a space behind it, is no part of plain text; put the text in quotes`,
	}},
	{"tag", `service: orders`, `service: !!str orders`, []string{
		`1:10: tag "!!str": a fleet file has no YAML tags; remove the tag`,
	}},
	{"too deep", `service: orders`, `service: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]`, []string{
		`1:73: nesting deeper than 64: no fleet file is written like that; close the brackets before, or remove the indentation`,
	}},
	{"byte order mark", `service: orders`, "\ufeffservce: orders", []string{
		`1:1: unknown key "servce": nothing reads it at the top of a fleet file; did you mean service?`,
	}},
	{"unknown key at the top", `service: orders`, `servce: orders`, []string{
		`1:1: unknown key "servce": nothing reads it at the top of a fleet file; did you mean service?`,
	}},
	{"unknown key far from any", `audience: orders}`, `audience: orders, zebra: 1}`, []string{
		`3:62: unknown key "zebra": nothing reads it in auth; write one of issuer, audience, claim, source, algorithms, authorizerArn, principals, pathTenant, bodyTenant`,
	}},
	{"unknown key in a list", `zones: [a, b], shards: 4`, `zone: [a, b], shards: 4`, []string{
		`7:62: unknown key "zone": nothing reads it in cells[0]; did you mean zones?`,
	}},
	{"duplicate key", `audience: orders}`, `audience: orders, audience: orders}`, []string{
		`3:62: key "audience" stands twice: it was given in line 3 already, and one of the two would be lost; keep one of them`,
	}},
	{"two faults of one key", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  lambda: {}\n", []string{
		`6:3: key "lambda" stands twice: it was given in line 5 already, and one of the two would be lost; keep one of them`,
	}},
	{"empty value", `service: orders`, `service:`, []string{
		`1:1: service is empty: a key needs a value; write one, or remove the key`,
	}},
	{"empty text", `service: orders`, `service: ""`, []string{
		`1:10: service is empty: a key needs a value; write one, or remove the key`,
	}},
	{"block without a value", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  table:\n", []string{
		`6:3: shard.table is empty: it must be a mapping; write table: {} to switch it on with its defaults, or remove the key`,
	}},
	{"block with keys", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  table: {a: 1}\n", []string{
		`6:11: unknown key "a": nothing reads it in shard.table; write one of maxReads, maxWrites`,
	}},
	{"number for text", `audience: orders`, `audience: 12`, []string{
		`3:54: auth.audience is "12": it must be text, and YAML reads this as another type; put it in quotes: "12"`,
	}},
	{"truth for text", `audience: orders`, `audience: true`, []string{
		`3:54: auth.audience is "true": it must be text, and YAML reads this as another type; put it in quotes: "true"`,
	}},
	{"number for a block", "shard:\n  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "shard: 5\n", []string{
		`4:8: shard is "5": it must be a mapping; write key: value pairs`,
	}},
	{"number for a part", `lambda: {asset: dist/worker, reservedConcurrency: 20}`, `http: 5`, []string{
		`5:9: shard.http is "5": it must be a mapping; write key: value pairs`,
	}},
	{"list for text", `audience: orders`, `audience: [orders]`, []string{
		`3:54: auth.audience is a list: it must be text; write one text value`,
	}},
	{"account as a number", `account: "111111111111", region: eu-west-1}`, `account: 111111111111, region: eu-west-1}`, []string{
		`2:22: directory.account is "111111111111": it must be text, since a number loses its leading zeros; put the account id in quotes: "111111111111"`,
	}},
	{"account with a leading zero", `account: "111111111111", region: eu-west-1}`, `account: 012345678901, region: eu-west-1}`, []string{
		`2:22: directory.account is "012345678901": it must be text, since a number loses its leading zeros; put the account id in quotes: "012345678901"`,
	}},
	{"account too short", `account: "111111111111", region: eu-west-1}`, `account: "1111", region: eu-west-1}`, []string{
		`2:22: directory.account is "1111": it must be an AWS account id, which has 12 digits; write all 12 digits in quotes, such as "111111111111"`,
	}},
	{"account key as a number", `auth:`, "accounts: {111111111111: {lambdaConcurrency: 1000}}\nauth:", []string{
		`3:12: key 111111111111 in accounts has no quotes: an account id is text, since a number loses its leading zeros; put it in quotes: "111111111111"`,
	}},
	{"account key too short", `auth:`, "accounts: {\"1111\": {}}\nauth:", []string{
		`3:12: key "1111" in accounts: it must be an AWS account id, which has 12 digits; write all 12 digits in quotes, such as "111111111111"`,
	}},
	{"octal number", `reservedConcurrency: 20`, `reservedConcurrency: 020`, []string{
		`5:53: shard.lambda.reservedConcurrency is "020": it must be a decimal number, and YAML reads a leading zero as octal; write 20`,
	}},
	{"hexadecimal number", `reservedConcurrency: 20`, `reservedConcurrency: 0x14`, []string{
		`5:53: shard.lambda.reservedConcurrency is "0x14": it must be a whole number; write decimal digits only`,
	}},
	{"exponent", `reservedConcurrency: 20`, `reservedConcurrency: 2e1`, []string{
		`5:53: shard.lambda.reservedConcurrency is "2e1": it must be a whole number; write decimal digits only`,
	}},
	{"fraction", `reservedConcurrency: 20`, `reservedConcurrency: 20.0`, []string{
		`5:53: shard.lambda.reservedConcurrency is "20.0": it must be a whole number; write decimal digits only`,
	}},
	{"separator", `reservedConcurrency: 20`, `reservedConcurrency: 1_000`, []string{
		`5:53: shard.lambda.reservedConcurrency is "1_000": it must be a whole number; write decimal digits only`,
	}},
	{"quoted number", `reservedConcurrency: 20`, `reservedConcurrency: "20"`, []string{
		`5:53: shard.lambda.reservedConcurrency is "20": it must be a number, and quotes make it text; remove the quotes`,
	}},
	{"huge number", `reservedConcurrency: 20`, `reservedConcurrency: 99999999999999999999`, []string{
		`5:53: shard.lambda.reservedConcurrency is "99999999999999999999": it must be within ±2,147,483,647; write a smaller number`,
	}},
	{"mapping for a number", `reservedConcurrency: 20`, `reservedConcurrency: {}`, []string{
		`5:53: shard.lambda.reservedConcurrency is a mapping: it must be a whole number; write one number`,
	}},
	{"below range", `reservedConcurrency: 20`, `reservedConcurrency: 0`, []string{
		`5:53: shard.lambda.reservedConcurrency is "0": it must be at least 1; write 1 or more`,
	}},
	{"beyond range", `reservedConcurrency: 20`, `reservedConcurrency: 20, memory: 10241`, []string{
		`5:65: shard.lambda.memory is "10241": it must be 128 to 10240; write 10240 or less`,
	}},
	{"bad truth", `auth:`, "routes: [{path: /*, via: lambda, fanout: yes}]\nauth:", []string{
		`3:42: routes[0].fanout is "yes": it must be true or false; write true or false, without quotes`,
	}},
	{"bad choice", `auth:`, "placement: {scheme: hmac}\nauth:", []string{
		`3:21: placement.scheme is "hmac": it must be hmac/v1, rendezvous/v1 or bounded/v1; write hmac/v1, rendezvous/v1 or bounded/v1`,
	}},
	{"percent without sign", `auth:`, "budget: {fullyDown: 0}\nauth:", []string{
		`3:21: budget.fullyDown is "0": it must be a percentage from 0% to 100%, with at most two decimals; write it with its sign, such as 15% or 0.5%`,
	}},
	{"percent beyond 100", `auth:`, "budget: {fullyDown: 100.5%}\nauth:", []string{
		`3:21: budget.fullyDown is "100.5%": it must be a percentage from 0% to 100%, with at most two decimals; write it with its sign, such as 15% or 0.5%`,
	}},
	{"days", `auth:`, "rollout: {waves: [{percent: 100, bake: 1d}]}\nauth:", []string{
		`3:40: rollout.waves[0].bake is "1d": it must be a duration in hours, minutes and seconds; write days as hours: 1d is 24h`,
	}},
	{"duration without unit", `auth:`, "rollout: {waves: [{percent: 100, bake: 10}]}\nauth:", []string{
		`3:40: rollout.waves[0].bake is "10": it must be a duration with its unit; write hours and minutes, such as 90m, 1h or 2h30m`,
	}},
	{"negative duration", `auth:`, "rollout: {waves: [{percent: 100, bake: -1h}]}\nauth:", []string{
		`3:40: rollout.waves[0].bake is "-1h": it must be a duration of at least 0s; write hours and minutes, such as 90m, 1h or 2h30m`,
	}},
}
