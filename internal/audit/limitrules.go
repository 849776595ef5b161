package audit

// The rules about limits. QT: a number that AWS bounds; PL: a number that AWS bounds for the whole account, so that
// cells and shards draw on it together whatever else is their own.
var (
	ruleBalancer   = rule{"QT003", Error, "load balancer's limit", "give each shard a load balancer of its own (shard.http.ingress: per-shard), or fewer shards to each (grouped)"}
	ruleGroupRules = rule{"QT004", Error, "rules of a security group", "let a rule name a security group or a prefix list instead of each address, or give each cell a group of its own"}
	rulePolicySize = rule{"QT005", Fatal, "size of a policy", "name what is granted by a common prefix or tag, split the policy over roles of its users, and leave out what nothing uses"}
	ruleTemplate   = rule{"QT006", Fatal, "size of a template", "split the stack: one for each shard, and nested or separate stacks for the rest"}
	rulePlace      = rule{"QT007", Error, "resources of an account", "ask for a higher quota before the deployment, place a cell in another account, or use fewer"}
	rulePart       = rule{"QT008", Error, "parts of a resource", "split the resource, or use fewer"}

	rulePoolLambda   = rule{"PL001", Warning, "Lambda concurrency of an account", "reserve concurrency for what must go on when others take all, or place a cell in another account"}
	rulePoolKMS      = rule{"PL002", Warning, "KMS requests of an account", "cache data keys (SDK caching, S3 bucket keys), ask for a higher quota, or place a cell in another account: a key of its own isolates no rate"}
	rulePoolSSM      = rule{"PL003", Warning, "Parameter Store requests of an account", "read parameters once at start and cache them, pace all readers together below the rate, turn on higher throughput, or place a cell in another account"}
	rulePoolSTS      = rule{"PL004", Warning, "STS requests of an account", "keep sessions for their whole life, or place a cell in another account"}
	rulePoolAPI      = rule{"PL005", Warning, "API Gateway requests of an account", "give each stage a throttle so that the sum is below the account's rate, or place a cell in another account: an API of its own isolates no rate"}
	rulePoolDynamo   = rule{"PL006", Warning, "provisioned DynamoDB throughput of an account", "use on-demand tables, which the account's sum does not bound, ask for a higher quota, or place a cell in another account"}
	rulePoolPolicies = rule{"PL007", Warning, "log resource policies of an account", shareInstead["logs.resource-policies"]}
	rulePoolEIP      = rule{"PL008", Warning, "Elastic IP addresses of an account", shareInstead["ec2.eips"]}
	rulePoolVCPU     = rule{"PL009", Warning, "vCPUs of an account", "ask for a quota above the sum of all groups' maxima, or place a cell in another account"}

	ruleLimitUnknown = rule{"UN008", Review, "limit of an account", "let the caller read it (docs/audit.md, --live), or look it up"}
)

// poolRules are the rules about an account's pools, in the order of the documentation.
var poolRules = []rule{rulePoolLambda, rulePoolKMS, rulePoolSSM, rulePoolSTS, rulePoolAPI, rulePoolDynamo, rulePoolPolicies, rulePoolEIP, rulePoolVCPU}
