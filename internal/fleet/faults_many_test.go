package fleet

import "strings"

// manyFaults are independent faults of one file, which must all come at once: none may hide another, and
// none may bring up a consequence of itself.
var manyFaults = []faultCase{
	{"a cell's name hides nothing else", "", strings.NewReplacer("name: eu-1", "name: EU-1", "auth:", "placement: {perTenant: 5}\nrollout: {waves: [{cells: [eu-1]}, {cells: [us-9]}, {percent: 90}]}\nauth:").Replace(base), []string{
		`4:45: rollout.waves[1].cells[0] is "us-9": the fleet has no such cell; did you mean us-1?`,
		`4:63: rollout.waves[2].percent is 90, the last one: the waves must reach every cell; write 100`,
		`9:12: cells[0].name is "EU-1": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as eu-1`,
		`9:85: cell cells[0] has 4 shards: placement.perTenant = 5 gives every tenant more than that; write at least 5 shards here, or at most 4 there`,
	}},
	{"a missing name may be any", "", strings.NewReplacer("name: eu-1, ", "", "auth:", "rollout: {waves: [{cells: [eu-1]}, {percent: 40}, {percent: 30}]}\nauth:").Replace(base), []string{
		`3:61: rollout.waves[2].percent is 30: percents are cumulative, and rollout.waves[1] reached 40; write 100`,
		`8:5: name is missing: it is required in cells[0]; add name: …`,
	}},
	{"a cell's count hides no wave", "", strings.NewReplacer("shards: 4", "shards: 0", "auth:", "rollout: {waves: [{cells: [us-9]}, {percent: 90}]}\nauth:").Replace(base), []string{
		`3:28: rollout.waves[0].cells[0] is "us-9": the fleet has no such cell; did you mean us-1?`,
		`3:46: rollout.waves[1].percent is 90, the last one: the waves must reach every cell; write 100`,
		`8:85: cells[0].shards is "0": it must be 1 to 1000; write 1 or more`,
	}},
	{"a shard's id hides no number", "", strings.NewReplacer("shards: 4", "shards: [{id: A}, {id: b}]", "auth:", "placement: {perTenant: 3}\nrollout: {waves: [{percent: 90}]}\nauth:").Replace(base), []string{
		`4:29: rollout.waves[0].percent is 90, the last one: the waves must reach every cell; write 100`,
		`9:85: cell eu-1 has 2 shards: placement.perTenant = 3 gives every tenant more than that; write at least 3 shards here, or at most 2 there`,
		`9:91: cells[0].shards[0].id is "A": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as a`,
	}},
	{"a shard hides no cell that is left out", "", strings.NewReplacer("shards: 4", "shards: [{id: A}, {id: b}]", "auth:", "rollout: {waves: [{cells: [eu-1]}]}\nauth:").Replace(base), []string{
		`3:18: no wave reaches us-1: the waves must reach every cell; add them to a wave, or end with {percent: 100}`,
		`8:91: cells[0].shards[0].id is "A": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as a`,
	}},
	{"a shard's id hides no sum", "", strings.NewReplacer("shards: 8", "shards: [{id: A}, {id: b}]", "reservedConcurrency: 20", "reservedConcurrency: 401").Replace(base), []string{
		`7:85: account 111111111111 reserves 1705 of its Lambda concurrency in eu-west-1 (eu-1 4 × 401 + 100 + 1): of 1000, AWS keeps 100 unreserved, which leaves 900; reserve 805 less, or have AWS raise the quota to 1805 or more and write that as accounts."111111111111".lambdaConcurrency`,
		`8:85: account 111111111111 reserves 903 of its Lambda concurrency in us-east-1 (us-1 2 × 401 + 100 + 1): of 1000, AWS keeps 100 unreserved, which leaves 900; reserve 3 less, or have AWS raise the quota to 1003 or more and write that as accounts."111111111111".lambdaConcurrency`,
		`8:91: cells[1].shards[0].id is "A": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as a`,
	}},
	{"an unknown cell hides no percent", "", strings.NewReplacer("auth:", "rollout: {waves: [{cells: [eu-l]}, {percent: 90}]}\nauth:").Replace(base), []string{
		`3:28: rollout.waves[0].cells[0] is "eu-l": the fleet has no such cell; did you mean eu-1?`,
		`3:46: rollout.waves[1].percent is 90, the last one: the waves must reach every cell; write 100`,
	}},
	{"a wave's cells hide no percent", "", strings.NewReplacer("auth:", "rollout: {waves: [{cells: [eu-1, 5]}, {percent: 50}, {percent: 50}]}\nauth:").Replace(base), []string{
		`3:34: rollout.waves[0].cells[1] is "5": it must be text, and YAML reads this as another type; put it in quotes: "5"`,
		`3:64: rollout.waves[2].percent is 50: percents are cumulative, and rollout.waves[1] reached 50; write 100`,
	}},
	{"an image hides no other", "", strings.NewReplacer("cells:\n", "  http: {asset: dist/web, amis: {eu-west-1/arm64: xyz}}\ncells:\n").Replace(base), []string{
		`6:33: shard.http.amis has no us-east-1/arm64: cell us-1 starts t4g.small there, and images are pinned; add us-east-1/arm64: ami-…, or have cellwall fleet pin-ami write the current ones`,
		`6:51: shard.http.amis.eu-west-1/arm64 is "xyz": it must be the id of a machine image; write ami- and its 8 or 17 hexadecimal digits`,
	}},
}
