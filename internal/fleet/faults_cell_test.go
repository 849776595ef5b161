package fleet

// cellFaults are about what a cell and its shards are made of beside what serves requests.
var cellFaults = []faultCase{
	{"more kept started than reserved", slice, slice + "router: {reservedConcurrency: 10, provisionedConcurrency: 11}\n", []string{
		`6:59: router.provisionedConcurrency is 11: router.reservedConcurrency is 10, and bounds it; write no more than that`,
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
