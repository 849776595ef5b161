package fleet

// ruleFaults are what the shapes and the rules between values find.
var ruleFaults = []faultCase{
	{"capital letters", `service: orders`, `service: Orders_EU`, []string{
		`1:10: service is "Orders_EU": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as orders-eu`,
	}},
	{"hyphen at the end", `name: eu-1`, `name: eu-`, []string{
		`7:12: cells[0].name is "eu-": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as eu`,
	}},
	{"too long a name", `name: eu-1`, `name: abcdefghijklmnopq`, []string{
		`7:12: cells[0].name is "abcdefghijklmnopq": it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as abcdefghijklmnop`,
	}},
	{"service internal", `service: orders`, `service: internal`, []string{
		`1:10: service is "internal": the name is reserved; write another, such as my-internal`,
	}},
	{"cell global", `name: eu-1`, `name: global`, []string{
		`7:12: cells[0].name is "global": the name is reserved; write another, such as my-global`,
	}},
	{"cell frontdoor", `name: eu-1`, `name: frontdoor`, []string{
		`7:12: cells[0].name is "frontdoor": the name is reserved; write another, such as my-frontdoor`,
	}},
	{"punycode", `name: eu-1`, `name: xn--a`, []string{
		`7:12: cells[0].name is "xn--a": DNS keeps names in xn-- for other alphabets; write another`,
	}},
	{"cells of one name", `name: us-1`, `name: eu-1`, []string{
		`8:12: cells[1].name is "eu-1" again: no two cells may have one name, and line 7 has it already; write another, or remove this one`,
	}},
	{"shards of one id", `shards: 4`, `shards: [{id: a}, {id: b}, {id: a}]`, []string{
		`7:109: cells[0].shards[2].id is "a" again: no two shards of a cell may have one id, and line 7 has it already; write another, or remove this one`,
	}},
	{"derived names equal", "name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 4}\n  - {name: us-1", "name: eu, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: [{id: core}, {id: s1}]}\n  - {name: eu-shard", []string{
		`8:12: cell eu-shard would have the stack "orders-eu-shard-core": shard core of cell eu has it already, since names are joined with hyphens; rename one of the two`,
	}},
	{"names too long together", `name: eu-1, account: "111111111111", region: eu-west-1, zones: [a, b], shards: 4`, `name: abcdefghijklmnop, account: "111111111111", region: eu-west-1, zones: [a, b], shards: [{id: a}, {id: abcdefghijkl}]`, []string{
		`7:112: service orders, cell abcdefghijklmnop and shard abcdefghijkl have 34 characters together: at most 33 leave room for account and region in a bucket's name; shorten them by 1`,
	}},
	{"not a region", `region: us-east-1`, `region: useast1`, []string{
		`8:51: cells[1].region is "useast1": it must be an AWS region; write its code, such as eu-west-1, us-gov-west-1 or ap-southeast-2`,
	}},
	{"zone with its region", `region: us-east-1, zones: [a, b]`, `region: us-east-1, zones: [us-east-1a, b]`, []string{
		`8:70: cells[1].zones[0] is "us-east-1a": it must be the letter of an availability zone; write a, without the region`,
	}},
	{"zone twice", `region: us-east-1, zones: [a, b]`, `region: us-east-1, zones: [a, b, a]`, []string{
		`8:76: cells[1].zones[2] is "a" again: a cell names each zone once, and line 8 has it already; write another, or remove this one`,
	}},
	{"no zones", `region: us-east-1, zones: [a, b]`, `region: us-east-1, zones: []`, []string{
		`8:69: cells[1].zones is a list: it must be of 1 to 6 items, and has 0; add or remove items`,
	}},
	{"shard in a foreign zone", `shards: 4`, `shards: [{id: s1, zone: a}, {id: s2, zone: c}]`, []string{
		`7:120: cells[0].shards[1].zone is "c": it is no zone of the cell; write a or b, or add it to the end of the cell's zones`,
	}},
	{"replica at home", "region: eu-west-1}\n", "region: eu-west-1, replicas: [us-east-1, eu-west-1]}\n", []string{
		`2:79: directory.replicas[1] is "eu-west-1" again: the directory names each region once, and line 2 has it already; write another, or remove this one`,
	}},
	{"no network", `shards: 4`, `shards: 4, cidr: 10.20.0.0`, []string{
		`7:94: cells[0].cidr is "10.20.0.0": it must be an IPv4 network; write one such as 10.20.0.0/16`,
	}},
	{"bits beyond the length", `shards: 4`, `shards: 4, cidr: 10.20.1.0/16`, []string{
		`7:94: cells[0].cidr is "10.20.1.0/16": it has bits beyond its length; write 10.20.0.0/16`,
	}},
	{"network too small", `shards: 4`, `shards: 4, cidr: 10.20.0.0/24`, []string{
		`7:94: cells[0].cidr is "10.20.0.0/24": AWS wants a length of /16 or more, and the subnets of six zones one of /20 or less; write one such as 10.20.0.0/16`,
	}},
	{"public network", `shards: 4`, `shards: 4, cidr: 8.8.0.0/16`, []string{
		`7:94: cells[0].cidr is "8.8.0.0/16": it is no private network (RFC 1918); write one within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16`,
	}},
	{"cidr and vpc", `shards: 4`, `shards: 4, cidr: 10.20.0.0/16, vpc: {id: vpc-01234567, subnets: {a: subnet-01234567, b: subnet-11234567}}`, []string{
		`7:94: cells[0] has both cidr and vpc: an imported VPC has its addresses already; keep one of the two`,
	}},
	{"subnets do not fit the zones", `shards: 4`, `shards: 4, vpc: {id: vpc-01234567, subnets: {a: subnet-01234567, c: subnet-11234567}}`, []string{
		`7:121: cells[0].vpc.subnets has no zone b: every zone of the cell needs its subnet; add b: subnet-…`,
		`7:142: cells[0].vpc.subnets has a zone c: the cell has none such; remove it, or add it to the end of the cell's zones`,
	}},
	{"subnet twice", `shards: 4`, `shards: 4, vpc: {id: vpc-01234567, subnets: {a: subnet-01234567, b: subnet-01234567}}`, []string{
		`7:145: cells[0].vpc.subnets.b is "subnet-01234567" again: each zone has a subnet of its own, and line 7 has it already; write another, or remove this one`,
	}},
	{"no subnet id", `shards: 4`, `shards: 4, vpc: {id: vpc-1, subnets: {a: subnet-xyz, b: subnet-01234567}}`, []string{
		`7:98: cells[0].vpc.id is "vpc-1": it must be the id of a VPC; write vpc- and its 8 or 17 hexadecimal digits`,
		`7:118: cells[0].vpc.subnets.a is "subnet-xyz": it must be the id of a subnet; write subnet- and its 8 or 17 hexadecimal digits`,
	}},
	{"no shards", `shards: 4`, `shards: 0`, []string{
		`7:85: cells[0].shards is "0": it must be 1 to 1000; write 1 or more`,
	}},
	{"no shards listed", `shards: 4`, `shards: []`, []string{
		`7:85: cells[0].shards is a list: it must be of 1 to 1000 items, and has 0; add or remove items`,
	}},
	{"shards in words", `shards: 4`, `shards: four`, []string{
		`7:85: cells[0].shards is "four": it must be a whole number; write decimal digits only`,
	}},
	{"fewer shards than perTenant", `auth:`, "placement: {perTenant: 5, sizes: {whale: {perTenant: 9}}}\nauth:", []string{
		`8:85: cell eu-1 has 4 shards: placement.perTenant = 5 gives every tenant more than that; write at least 5 shards here, or at most 4 there`,
		`8:85: cell eu-1 has 4 shards: placement.sizes.whale.perTenant = 9 gives size whale more than that; write at least 9 shards here, or at most 4 there`,
		`9:85: cell us-1 has 8 shards: placement.sizes.whale.perTenant = 9 gives size whale more than that; write at least 9 shards here, or at most 8 there`,
	}},
	{"a bound that nothing keeps", `auth:`, "placement: {maxShared: 1}\nauth:", []string{
		`3:24: placement.maxShared is 1: rendezvous/v1 bounds nothing, and two tenants may share all of their shards; remove it, or write scheme: bounded/v1`,
	}},
	{"a weight that nothing weighs", "shards: 8}\n", "shards: [{id: s1, weight: 3}, {id: s2, weight: 1}]}\nplacement: {scheme: hmac/v1}\n", []string{
		`8:103: cells[1].shards[0].weight is 3: hmac/v1 does not weigh shards; remove it, or write scheme: rendezvous/v1`,
	}},
	{"stripes that do not fit", `auth:`, "placement: {scheme: bounded/v1, perTenant: 3}\nauth:", []string{
		`8:85: cell eu-1 cannot place by bounded/v1: shards do not make equal stripes: zones have 2 shards; 3 shards per tenant in 2 of them make 4 stripes, each wants a prime power of shards, 4 or more: give each zone 8; change its shards, or write scheme: rendezvous/v1`,
		`9:85: cell us-1 cannot place by bounded/v1: shards do not make equal stripes: zones have 4 shards; 3 shards per tenant in 2 of them make 4 stripes, each wants a prime power of shards, 4 or more: give each zone 8; change its shards, or write scheme: rendezvous/v1`,
	}},
	{"a bound as large as the subset", `auth:`, "placement: {scheme: bounded/v1, maxShared: 2}\nauth:", []string{
		`3:44: placement.maxShared is 2: no tenant has more than 2 shards to share; write at most 1`,
	}},
	{"size of a bad name", `auth:`, "placement: {sizes: {Whale: {perTenant: 2}}}\nauth:", []string{
		`3:21: key "Whale" in placement.sizes: it must be a lower-case letter, then at most 15 lower-case letters, digits and hyphens, with no hyphen at the end; write a name such as whale`,
	}},
	{"size called default", `auth:`, "placement: {sizes: {default: {perTenant: 2}}}\nauth:", []string{
		`3:21: size default: tenants without a size have placement.perTenant; set placement.perTenant, or call the size otherwise`,
	}},
	{"nothing serves", `lambda: {asset: dist/worker, reservedConcurrency: 20}`, `bucket: {}`, []string{
		`5:3: shard has neither lambda nor http: something must serve the requests; add a lambda or an http block`,
	}},
	{"queue without consumer", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n  queue: {}\n", []string{
		`6:10: shard.queue has no consumer: the Lambda slice consumes the queue; add a lambda block, or remove the queue`,
	}},
	{"consumers as many as the reservation", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  queue: {consumers: 20}\n", []string{
		`6:22: shard.queue.consumers is 20: with shard.lambda.reservedConcurrency = 20 the queue would leave no concurrency to requests; write at most 19, or reserve more`,
	}},
	{"default consumers beyond the reservation", "reservedConcurrency: 20}\n", "reservedConcurrency: 2}\n  queue: {}\n", []string{
		`6:10: shard.queue.consumers is 2: with shard.lambda.reservedConcurrency = 2 the queue would leave no concurrency to requests; reserve at least 3`,
	}},
	{"one consumer", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  queue: {consumers: 1}\n", []string{
		`6:22: shard.queue.consumers is "1": it must be 2 to 1000; write 2 or more`,
	}},
	{"home without a table", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  state: {mode: home}\n", []string{
		`6:17: shard.state.mode is "home": each key lives in one shard's own table, and shards have none; add table: {} to the shard, or write mode: cell or none`,
	}},
	{"min beyond max", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, min: 3, max: 2, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:40: shard.http.max is 2: it is less than shard.http.min = 3; write at least 3`,
	}},
	{"no image for a region", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0}}\n", []string{
		`6:33: shard.http.amis has no us-east-1/arm64: cell us-1 starts t4g.small there, and images are pinned; add us-east-1/arm64: ami-…, or have cellwall fleet pin-ami write the current ones`,
	}},
	{"no image for the architecture", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, instanceType: m5.large, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:57: shard.http.amis has no eu-west-1/x86_64: cell eu-1 starts m5.large there, and images are pinned; add eu-west-1/x86_64: ami-…, or have cellwall fleet pin-ami write the current ones`,
		`6:57: shard.http.amis has no us-east-1/x86_64: cell us-1 starts m5.large there, and images are pinned; add us-east-1/x86_64: ami-…, or have cellwall fleet pin-ami write the current ones`,
	}},
	{"bad image", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-123}}\n", []string{
		`6:91: shard.http.amis.us-east-1/arm64 is "ami-123": it must be the id of a machine image; write ami- and its 8 or 17 hexadecimal digits`,
	}},
	{"bad image key", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1: ami-01234567}}\n", []string{
		`6:74: key "us-east-1" in shard.http.amis: it must be a region and an architecture; write it as eu-west-1/arm64 or eu-west-1/x86_64`,
	}},
	{"asset without a name", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/.., amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:17: shard.http.asset is "dist/..": its base name ".." is no file that systemd could start; add command: with the name of the file in the asset`,
	}},
	{"command with a slash", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, command: bin/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:36: shard.http.command is "bin/web": it must be the name of a file in the asset: letters, digits, dots, hyphens and underscores; write the file's name alone, such as worker`,
	}},
	{"one zone behind load balancers", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b]", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a]", []string{
		`8:69: cells[0].zones has one zone: the load balancers of shard.http want two; add a zone, or remove shard.http`,
	}},
	{"groups that do not divide", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, ingress: {grouped: 3}, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:46: shard.http.ingress is {grouped: 3}: 3 does not divide the 4 shards of cell eu-1; write 2 or 4, or per-shard or shared`,
		`6:46: shard.http.ingress is {grouped: 3}: 3 does not divide the 8 shards of cell us-1; write 2 or 4, or per-shard or shared`,
	}},
	{"groups of one", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, ingress: {grouped: 1}, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:46: shard.http.ingress.grouped is "1": it must be 2 to 100; write 2 or more`,
	}},
	{"groups without number", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  http: {asset: dist/web, ingress: grouped, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\n", []string{
		`6:36: shard.http.ingress is "grouped": it must be per-shard, shared or {grouped: m}; write per-shard, shared or {grouped: 4}`,
	}},
	{"too many shards behind one load balancer", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 4}", "  http: {asset: dist/web, ingress: shared, amis: {eu-west-1/arm64: ami-0123456789abcdef0, us-east-1/arm64: ami-01234567}}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: eu-west-1, zones: [a, b], shards: 101}", []string{
		`5:36: shard.http.ingress is "shared": cell eu-1 has 101 shards, and one load balancer takes 100 target groups; write per-shard, or split the cell`,
	}},
	{"too much concurrency", "reservedConcurrency: 20}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: eu-west-1", "reservedConcurrency: 60}\ncells:\n  - {name: eu-1, account: \"111111111111\", region: us-east-1", []string{
		`8:85: account 111111111111 reserves 922 of its Lambda concurrency in us-east-1 (eu-1 4 × 60 + 100 + 1, us-1 8 × 60 + 100 + 1): of 1000, AWS keeps 100 unreserved, which leaves 900; reserve 22 less, or have AWS raise the quota to 1022 or more and write that as accounts."111111111111".lambdaConcurrency`,
	}},
	{"no routes", `auth:`, "routes: []\nauth:", []string{
		`3:9: routes is a list: it must be of 1 to 100 items, and has 0; add or remove items`,
	}},
	{"route by an absent part", `auth:`, "routes: [{path: /*, via: queue}]\nauth:", []string{
		`3:26: routes[0].via is "queue": shards have no queue block; write lambda, or add the block`,
	}},
	{"relative path", `auth:`, "routes: [{path: jobs/a b, via: lambda}]\nauth:", []string{
		`3:17: routes[0].path is "jobs/a b": it must be a path, which begins with / and has no space; write "/jobs/a%20b"`,
	}},
	{"star in the middle", `auth:`, "routes: [{path: /a*b, via: lambda}]\nauth:", []string{
		`3:17: routes[0].path is "/a*b": a star stands at the end only, after a slash, and queries are not matched; write "/a/*"`,
	}},
	{"shadowed route", `auth:`, "routes: [{path: /*, via: lambda}, {path: /jobs/*, via: lambda}]\nauth:", []string{
		`3:42: routes[1].path is "/jobs/*": routes[0] (/*) takes all of it, since the first match wins; move it before routes[0], or remove it`,
	}},
	{"route twice", `auth:`, "routes: [{path: /jobs, via: lambda}, {path: /jobs, via: lambda}]\nauth:", []string{
		`3:45: routes[1].path is "/jobs": routes[0] (/jobs) takes all of it, since the first match wins; remove one of the two`,
	}},
	{"a queue's routes shadow only a queue's", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  queue: {}\nroutes: [{path: /jobs/*, via: queue}, {path: /jobs/*, via: lambda}, {path: /jobs/x, via: queue}]\n", []string{
		`7:76: routes[2].path is "/jobs/x": routes[0] (/jobs/*) takes all of it, since the first match wins; move it before routes[0], or remove it`,
	}},
	{"routes that gather shadow only such", `auth:`, "routes: [{path: /r/*, via: lambda, fanout: true}, {path: /r/*, via: lambda}, {path: /r/x, via: lambda, fanout: true}]\nauth:", []string{
		`3:85: routes[2].path is "/r/x": routes[0] (/r/*) takes all of it, since the first match wins; move it before routes[0], or remove it`,
	}},
	{"gathering from a queue", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n", "  lambda: {asset: dist/worker, reservedConcurrency: 20}\n  queue: {}\nroutes: [{path: /*, via: queue, fanout: true}]\n", []string{
		`7:41: routes[0].fanout is true: a queue gives no answers to gather; remove fanout, or use another transport`,
	}},
	{"issuer without TLS", `https://`, `http://`, []string{
		`3:16: auth.issuer is "http://login.example.com/": it must be an https URL without a query, exactly as in the token's iss; write https://login.example.com/`,
	}},
	{"issuer with a query", `example.com/`, `example.com/?a=b`, []string{
		`3:16: auth.issuer is "https://login.example.com/?a=b": it must be an https URL without a query, exactly as in the token's iss; write it as https://login.example.com/`,
	}},
	{"claim with a space", `audience: orders`, `audience: orders, claim: "tenant id"`, []string{
		`3:69: auth.claim is "tenant id": it must be the name of a claim: 1 to 128 visible ASCII characters; write it as tenant_id`,
	}},
	{"not a topic", `auth:`, "alerts: {topicArn: oncall}\nauth:", []string{
		`3:20: alerts.topicArn is "oncall": it must be the ARN of an SNS standard topic; write it as arn:aws:sns:eu-west-1:111111111111:oncall`,
	}},
	{"wave without cells", `auth:`, "rollout: {waves: [{bake: 1h}, {percent: 100}]}\nauth:", []string{
		`3:19: rollout.waves[0] has no cells: a wave deploys something; add cells: [...] or percent: …`,
	}},
	{"wave with both", `auth:`, "rollout: {waves: [{cells: [eu-1], percent: 10}, {percent: 100}]}\nauth:", []string{
		`3:19: rollout.waves[0] has both cells and percent: they may contradict each other; keep one of the two`,
	}},
	{"unknown cell", `auth:`, "rollout: {waves: [{cells: [eu-l]}, {percent: 100}]}\nauth:", []string{
		`3:28: rollout.waves[0].cells[0] is "eu-l": the fleet has no such cell; did you mean eu-1?`,
	}},
	{"cell in two waves", `auth:`, "rollout: {waves: [{cells: [eu-1]}, {cells: [us-1, eu-1]}]}\nauth:", []string{
		`3:51: rollout.waves[1].cells[1] is "eu-1" again: each cell is in one wave, and line 3 has it already; write another, or remove this one`,
	}},
	{"cell in no wave", `auth:`, "rollout: {waves: [{cells: [eu-1]}]}\nauth:", []string{
		`3:18: no wave reaches us-1: the waves must reach every cell; add them to a wave, or end with {percent: 100}`,
	}},
	{"percent falls", `auth:`, "rollout: {waves: [{percent: 50}, {percent: 40}, {percent: 100}]}\nauth:", []string{
		`3:44: rollout.waves[1].percent is 40: percents are cumulative, and rollout.waves[0] reached 50; write more than 50`,
	}},
	{"percent ends early", `auth:`, "rollout: {waves: [{percent: 50}, {percent: 90}]}\nauth:", []string{
		`3:44: rollout.waves[1].percent is 90, the last one: the waves must reach every cell; write 100`,
	}},
	{"wave after the last", `auth:`, "rollout: {waves: [{percent: 100}, {cells: [us-1]}]}\nauth:", []string{
		`3:35: rollout.waves[1] follows the wave of percent 100: nothing is left for it; move it before that wave, or remove it`,
	}},
	{"wave that stays empty", `auth:`, "rollout: {waves: [{percent: 10}, {percent: 20}, {percent: 100}]}\nauth:", []string{
		`3:59: rollout.waves[2].percent leaves the wave empty: waves take whole cells, one at least, and none is left; remove the wave, or an earlier one`,
	}},
	{"decoding and rules together", "auth: {issuer: https://login.example.com/, audience: orders}\n", "auth: {issuer: 5, audience: orders, clam: x}\nplacement: {perTenant: 5}\nrollout: {waves: [{cells: [nope]}, {percent: 100, bake: 1d}]}\n", []string{
		`3:16: auth.issuer is "5": it must be an https URL without a query, exactly as in the token's iss; write it as https://login.example.com/`,
		`3:37: unknown key "clam": nothing reads it in auth; did you mean claim?`,
		`5:28: rollout.waves[0].cells[0] is "nope": the fleet has no such cell; write one of eu-1, us-1`,
		`5:57: rollout.waves[1].bake is "1d": it must be a duration in hours, minutes and seconds; write days as hours: 1d is 24h`,
		`9:85: cell eu-1 has 4 shards: placement.perTenant = 5 gives every tenant more than that; write at least 5 shards here, or at most 4 there`,
	}},
	{"one slip, one fault", `shards: 4}`, `shards: "4"}`, []string{
		`7:85: cells[0].shards is "4": it must be a number, and quotes make it text; remove the quotes`,
	}},
}
