package audit

// aPool is what the rules about pools have in common.
const aPool = " AWS bounds it for the account and region together. A resource of its own for each cell isolates faults, but no share of this number: one cell that takes all of it stops the others. " +
	"Nothing is found for one cell alone in an account, for there a cell bounds the failure. What others in the account take is known to --live only."

// twoCores are the stacks of the examples' two cells, in one account as far as the templates say.
const twoCores = "-- orders-eu-1-core.yaml orders-eu-2-core.yaml --\nResources:\n"

// poolManual is the documentation of the PL rules.
var poolManual = map[string]manual{
	"PL001": {"one Lambda concurrency for several cells", "Functions without a reservation share what the reservations of the whole account leave. Found when functions of several cells do, or when reservations of one stack leave the functions of another a fifth or less. The fix says what further reservations would leave for the rest, so that they do not make it worse." + aPool,
		twoCores + "  Api: {Type: AWS::Lambda::Function}\n"},
	"PL002": {"one rate of KMS requests for several cells", "Roles of several cells may use keys. Requests count against the caller's account, whatever the key." + aPool,
		twoCores + allowing("kms:Decrypt")},
	"PL003": {"one rate of Parameter Store requests for several cells", "Roles of several cells may read parameters, 40 times a second together unless higher throughput is turned on; or settings such as SSM_MAX_TPS say rates whose sum is near the account's: pacing each pool by itself does not help then." + aPool,
		twoCores + allowing("ssm:GetParametersByPath")},
	"PL004": {"one rate of STS requests for several cells", "Roles of several cells may assume other roles at run time. What AWS's own services assume on their behalf does not count." + aPool,
		twoCores + allowing("sts:AssumeRole")},
	"PL005": {"one rate of API Gateway requests for several cells", "Several cells have APIs. All HTTP, REST and WebSocket APIs of an account and region have one rate and one burst; a stage's throttle is the only bound below it." + aPool,
		twoCores + "  Api: {Type: AWS::ApiGatewayV2::Api, Properties: {Name: orders, ProtocolType: HTTP}}\n"},
	"PL006": {"one provisioned DynamoDB throughput for several cells", "Tables of several cells have provisioned capacity. The account's sum bounds what scaling may add to any. Tables on demand do not draw on it." + aPool,
		twoCores + "  Orders: {Type: AWS::DynamoDB::Table, Properties: {ProvisionedThroughput: {ReadCapacityUnits: 500, WriteCapacityUnits: 500}}}\n"},
	"PL007": {"few log resource policies for several cells", "Stacks of several cells make resource policies of CloudWatch Logs, of which an account has ten in each region and never more. CDK makes one silently for a service that logs." + aPool,
		twoCores + "  Policy: {Type: AWS::Logs::ResourcePolicy, Properties: {PolicyName: search, PolicyDocument: '{}'}}\n"},
	"PL008": {"few Elastic IP addresses for several cells", "Stacks of several cells take addresses, one for each zone's NAT gateway, of which a new account has five in each region." + aPool,
		twoCores + "  Ip: {Type: AWS::EC2::EIP}\n"},
	"PL009": {"one number of vCPUs for several cells", "Auto Scaling groups and instances of several cells run in one account. In an emergency all scale out at once, and the last cell finds nothing left. The message has the sum of all maxima; the account's number is compared only where --live reads it, because the published default is that of a new account." + aPool,
		twoCores + `  Template: {Type: AWS::EC2::LaunchTemplate, Properties: {LaunchTemplateData: {InstanceType: m7g.xlarge}}}
  Group: {Type: AWS::AutoScaling::AutoScalingGroup, Properties: {MinSize: '2', MaxSize: '6', LaunchTemplate: {LaunchTemplateId: !Ref Template, Version: '1'}}}
`},
}

// allowing is a role with a policy that allows one action.
func allowing(action string) string {
	return `  Role: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {Statement: []}, Policies: [{PolicyName: use, PolicyDocument: {Statement: [{Effect: Allow, Action: '` + action + `', Resource: '*'}]}}]}}
`
}

// aLimit is what the rules about limits have in common.
const aLimit = " At 80 % it is a warning; past a limit that AWS raises on request an error, past one that it does not, or past how far it raises it, fatal. A number that only a deployment decides is a range: a review item when only its upper end is past the limit. " +
	"A limit that is not known with high certainty is a review item at most, unless the account itself says it (--live)."

// countManual is the documentation of the QT rules that count, and of a limit that is not known.
var countManual = map[string]manual{
	"QT003": {"limit of a load balancer", "Listeners, rules without the default ones, targets, certificates, values of a rule's conditions and groups of an action, over every stack that hangs something on the load balancer. Targets are counted as they register: the maximum size of each Auto Scaling group times the groups that it registers in." + aLimit,
		"33 rules, each with a target group of its own in which all of at most 31 nodes register, make 1,023 targets of 1,000."},
	"QT004": {"rules of a security group", "Rules are counted for each direction and address family by itself, inline and standalone ones, over every stack that adds some to the group. A rule that names a group counts in both families; a prefix list counts as its maximum of entries." + aLimit,
		"Four cells that each add 15 addresses to one group with a rule of its own: the fourth deployment fails at 61 of 60."},
	"QT005": {"size of a policy", "The size of a policy as JSON without white space, after CloudFormation put everything in: inline policies of a role over all stacks (10,240), a managed policy (6,144), a trust policy (2,048), a function's permissions as Lambda writes them (20,480), policies of queues, keys, secrets and logs, and a function's environment (4,096)." + aLimit,
		"50 rules that each get a permission of its own on one function: about 420 bytes each, 21,103 of 20,480."},
	"QT006": {"size of a template", "Resources, parameters, outputs, mappings, dynamic references and bytes of one template. A resource counts whether or not a condition lets it be made. Every template that was read is counted, so audit all variants of the context that are deployed." + aLimit,
		"A variant of a stack with 504 resources of 500, where the others have 380."},
	"QT007": {"resources of an account", "Resources of one type in one account and region, or in all regions where the limit is the account's, over all stacks that were read. With --live what the account has is added: the sum lies between the larger of both and their sum, for what is there may be what is deployed again. Where no template says the account, it is a warning at most." + aLimit,
		"A NAT gateway for each of three zones in each of two cells: 6 Elastic IP addresses of 5."},
	"QT008": {"parts of a resource", "What belongs to one resource: routes, subnets and endpoints of a network, rules of a bus, targets of a rule, indexes of a table, policies and groups of a role or Auto Scaling group, records of one name, and settings that have a maximum." + aLimit,
		"A function with six layers of five, or 101 weighted records of one name of 100."},
	"UN008": {"limit that an account does not say", "With --live an account was asked for its limits and did not say one that the stacks use: access denied, too many requests, or a quota that it does not list. What is compared with AWS's default instead is a review item and never passes for the account's own number.",
		"An account in which the caller may not list the service quotas of Elastic Load Balancing."},
}
