package fleet

import (
	"fmt"
	"strings"
	"testing"
)

// TestAtTheLimit: what reaches a limit and does not pass it is no fault.
func TestAtTheLimit(t *testing.T) {
	for name, more := range map[string]string{
		"nearly all that is reserved kept started": "router: {reservedConcurrency: 10, provisionedConcurrency: 9}\n",
		"as many rules as an event bus takes":      "  schedules: [{name: a, every: 1h}, {name: b, every: 1h}, {name: c, every: 1h}]\naccounts: {\"111111111111\": {eventRules: 25}}\n",
	} {
		if _, err := Parse("fleet.yaml", []byte(strings.Replace(base, slice, slice+more, 1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaultRules: a region takes as many rules as AWS's own quota there says, where the account says nothing else.
func TestDefaultRules(t *testing.T) {
	file := func(region string, shards int) string {
		cells := fmt.Sprintf("  - {name: one, account: \"222222222222\", region: %s, zones: [a, b], shards: %d}\n", region, shards)
		return base[:strings.Index(base, "cells:\n")] + "  schedules: [{name: a, every: 1h}]\naccounts: {\"222222222222\": {lambdaConcurrency: 100000}}\ncells:\n" + cells
	}
	for region, most := range map[string]int{"eu-west-1": 300, "af-south-1": 100, "eu-south-1": 100} {
		if _, err := Parse("fleet.yaml", []byte(file(region, most-1))); err != nil {
			t.Errorf("%s, at the limit: %v", region, err)
		}
		if _, err := Parse("fleet.yaml", []byte(file(region, most))); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("takes %d;", most)) {
			t.Errorf("%s, over the limit: %v", region, err)
		}
	}
}

// cellFaults are about what a cell and its shards are made of beside what serves requests.
var cellFaults = []faultCase{
	{"more kept started than reserved", slice, slice + "router: {reservedConcurrency: 10, provisionedConcurrency: 11}\n", []string{
		`6:59: router.provisionedConcurrency is 11: router.reservedConcurrency is 10, which bounds it, and must leave room for requests while a new version's environments start; write less than that, or a larger router.reservedConcurrency`,
	}},
	{"all that is reserved kept started", slice, slice + "router: {reservedConcurrency: 10, provisionedConcurrency: 10}\n", []string{
		`6:59: router.provisionedConcurrency is 10: router.reservedConcurrency is 10, which bounds it, and must leave room for requests while a new version's environments start; write less than that, or a larger router.reservedConcurrency`,
	}},
	{"a Function URL with an API's authorizer", slice, slice + "router: {ingress: url}\n", []string{
		`6:19: router.ingress is url: a Function URL has no authorizer for auth.source: jwt; write source: verify or iam, or ingress: api`,
	}},
	{"a stream through an API", slice, slice + "router: {stream: true}\n", []string{
		`6:18: router.stream is true: an HTTP API waits for the whole answer; remove it, or write ingress: url`,
	}},
	{"schedules at odd minutes", slice, slice + "  schedules: [{name: a, every: 7m}, {name: b, every: 90m}, {name: c, every: 5h}, {name: d, every: 1m30s}]\n", []string{
		`6:32: shard.schedules[0].every is 7m0s: it must fire at the same minutes every day; write minutes that divide an hour, such as 15m, or hours that divide a day, such as 6h`,
		`6:54: shard.schedules[1].every is 1h30m0s: it must fire at the same minutes every day; write minutes that divide an hour, such as 15m, or hours that divide a day, such as 6h`,
		`6:77: shard.schedules[2].every is 5h0m0s: it must fire at the same minutes every day; write minutes that divide an hour, such as 15m, or hours that divide a day, such as 6h`,
		`6:99: shard.schedules[3].every is 1m30s: it must fire at the same minutes every day; write minutes that divide an hour, such as 15m, or hours that divide a day, such as 6h`,
	}},
	{"a schedule beyond a day, twice", slice, slice + "  schedules: [{name: a, every: 48h}, {name: a, every: 1h}]\n", []string{
		`6:32: shard.schedules[0].every is 48h0m0s: it must be 1m to 24h; write one between them`,
		`6:45: shard.schedules[1].name is "a" again: no two schedules may have one name, and line 6 has it already; write another, or remove this one`,
	}},
	{"more rules than a region's event bus takes", slice, slice + "  schedules: [{name: a, every: 1h}, {name: b, every: 1h}, {name: c, every: 1h}]\nrouter: {reservedConcurrency: 1}\naccounts: {\"111111111111\": {lambdaConcurrency: 9000, eventRules: 12}}\n", []string{
		`6:14: account 111111111111 has 13 rules of EventBridge in eu-west-1 (eu-1 4 × 3 + 1): its default event bus takes 12; have fewer schedules, or have AWS raise the quota to 13 or more and write that as accounts."111111111111".eventRules`,
		`6:14: account 111111111111 has 25 rules of EventBridge in us-east-1 (us-1 8 × 3 + 1): its default event bus takes 12; have fewer schedules, or have AWS raise the quota to 25 or more and write that as accounts."111111111111".eventRules`,
	}},
	{"more keepers than it takes, and the front door's", slice, slice + "accounts: {\"111111111111\": {eventRules: 1}}\nfrontDoor: {}\n", []string{
		`9:3: account 111111111111 has 2 rules of EventBridge in eu-west-1 (eu-1 4 × 0 + 1, front door 1): its default event bus takes 1; put cells into other accounts or regions, or have AWS raise the quota to 2 or more and write that as accounts."111111111111".eventRules`,
	}},
	{"a gateway into somebody's network", `shards: 4`, `shards: 4, egress: nat, vpc: {id: vpc-01234567, subnets: {a: subnet-01234567, b: subnet-01234568}}`, []string{
		`7:96: cells[0].egress is set: the ways out of an imported vpc are its owner's; remove it`,
	}},
	{"nobody told", slice, slice + "alerts: {topics: {}}\n", []string{
		`6:9: alerts has neither topicArn nor topics: nobody would be told; add topicArn, or remove alerts`,
	}},
	{"topics of other regions", slice, slice + `alerts: {topicArn: "arn:aws:sns:eu-west-1:111111111111:a", topics: {eu-west-1: "arn:aws:sns:eu-west-1:111111111111:b", us-east-1: "arn:aws:sns:us-east-2:111111111111:c"}}` + "\n", []string{
		`6:80: alerts.topics.eu-west-1 is set: topicArn is of that region already; remove one of the two`,
		`6:131: alerts.topics.us-east-1 is a topic of us-east-2: alarms tell topics of their own region alone; write one of us-east-1`,
	}},
	{"topics of other partitions", slice, slice + `alerts: {topicArn: "arn:aws-cn:sns:eu-west-1:111111111111:a", topics: {us-gov-west-1: "arn:aws:sns:us-gov-west-1:111111111111:b"}}` + "\n", []string{
		`6:20: alerts.topicArn is of the partition aws-cn: region eu-west-1 is in aws, so that there is no such topic; write arn:aws: at its beginning`,
		`6:87: alerts.topics.us-gov-west-1 is of the partition aws: region us-gov-west-1 is in aws-us-gov, so that there is no such topic; write arn:aws-us-gov: at its beginning`,
	}},
	{"a tag without a key", slice, slice + "deploy: {tags: {\"\": x}}\n", []string{
		`6:17: key "" in deploy.tags: it must be the key of a tag: letters, digits, spaces and + - = . _ : / @, 128 characters at most; write it as team or cost-center`,
	}},
	{"topics of no region", slice, slice + `alerts: {topics: {"": x}}` + "\n", []string{
		`6:19: key "" in alerts.topics: it must be an AWS region; write its code, such as eu-west-1, us-gov-west-1 or ap-southeast-2`,
		`6:23: alerts.topics."" is "x": it must be the ARN of an SNS standard topic; write it as arn:aws:sns:eu-west-1:111111111111:oncall`,
	}},
	{"tags of others", slice, slice + "deploy: {tags: {\"cellwall:cell\": x, \"aws:a\": y}}\n", []string{
		`6:34: deploy.tags has cellwall:cell: the prefix is reserved; write another`,
		`6:46: deploy.tags has aws:a: the prefix is reserved; write another`,
	}},
	{"one tag to IAM", slice, slice + "deploy: {tags: {Team: a, team: b, TEAM: c}}\n", []string{
		`6:23: deploy.tags has Team beside TEAM: to IAM, whose roles have them too, they are one key; remove one of the two`,
		`6:32: deploy.tags has team beside Team: to IAM, whose roles have them too, they are one key; remove one of the two`,
	}},
}

// TestRulesThatMeet: hyphens join a rule's name, so that those of two shards' schedules can become one; that is refused.
func TestRulesThatMeet(t *testing.T) {
	file := strings.Replace(base, slice, slice+"  schedules: [{name: a, every: 1h}, {name: b-tick-a, every: 1h}]\n", 1)
	file = strings.Replace(file, "shards: 4", "shards: [{id: s01}, {id: s02}, {id: s01-tick-b}]", 1)
	const want = `fleet.yaml:8:113: shard s01-tick-b of cell eu-1 would have the rule "orders-eu-1-s01-tick-b-tick-a": shard s01 of cell eu-1 has it already, since names are joined with hyphens; rename one of the two`
	if _, err := Parse("fleet.yaml", []byte(file)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
