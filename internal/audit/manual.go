package audit

// Examples are directories of templates: below a line "-- NAME … --" stands the text of one file, or of
// several that are the same. TestExamples audits each one.

// shardFiles are the stacks of the examples' two shards.
const shardFiles = "-- orders-eu-1-shard-s01.yaml orders-eu-1-shard-s02.yaml --\n"

// exported is a core stack with one resource, whose Ref the shards import by the name "shared".
func exported(typ, properties string) string {
	return "-- orders-eu-1-core.yaml --\nResources:\n  Shared:\n    Type: " + typ + "\n" + properties +
		"Outputs:\n  Shared: {Value: !Ref Shared, Export: {Name: shared}}\n"
}

// used is what both shards have: one resource with one property that names what is shared.
func used(typ, property string) string {
	return shardFiles + "Resources:\n  Mine:\n    Type: " + typ + "\n    Properties:\n      " + property + "\n"
}

// setting is a function that has what is shared in its environment.
func setting(key string) string {
	return used("AWS::Lambda::Function", "Environment: {Variables: {"+key+": !ImportValue shared}}")
}

const dataPath = " A fault, an overload or a wrong change there is every shard's at once, so the wall between the shards does not hold for it."

// dataManual is the documentation of the SD rules.
var dataManual = map[string]manual{
	"SD001": {"shared load balancer", "Several shards get their requests through one load balancer. Its listeners and rules are parts of it." + dataPath +
		" One load balancer for a few shards (grouped ingress) bounds what a failure hits and is still reported, so that the choice is written down in a waiver.",
		exported("AWS::ElasticLoadBalancingV2::Listener", "    Properties: {LoadBalancerArn: !Ref Alb}\n  Alb:\n    Type: AWS::ElasticLoadBalancingV2::LoadBalancer\n") +
			shardFiles + `Resources:
  Targets: {Type: AWS::ElasticLoadBalancingV2::TargetGroup}
  Rule:
    Type: AWS::ElasticLoadBalancingV2::ListenerRule
    Properties:
      ListenerArn: !ImportValue shared
      Actions: [{Type: forward, TargetGroupArn: !Ref Targets}]
`},
	"SD002": {"shared table", "Several shards keep data in one table. One table with many key prefixes is still one table: throughput, a throttled partition, a wrong update of its schema and its deletion are shared, and so is every index of it." + dataPath,
		exported("AWS::DynamoDB::Table", "") + setting("TABLE_NAME")},
	"SD003": {"shared queue or broker", "Several shards send to or read from one queue. The backlog of one shard delays the jobs of all others, and a poison message is received by each in turn." + dataPath,
		exported("AWS::SQS::Queue", "") + setting("QUEUE_URL")},
	"SD004": {"shared bucket", "Several shards keep objects in one bucket. Prefixes divide its request rate, but its policy, its keys, its lifecycle rules and its deletion are one." + dataPath +
		" CDK's own bootstrap bucket is read at deployment only and is listed as info.",
		exported("AWS::S3::Bucket", "") + setting("BUCKET_NAME")},
	"SD005": {"shared stream", "Several shards write to or read from one stream or cluster of a stream. A record that cannot be processed blocks whoever reads behind it." + dataPath,
		exported("AWS::Kinesis::Stream", "") + setting("STREAM_NAME")},
	"SD006": {"shared cache", "Several shards use one cache. One shard's keys evict the others', and connections and CPU are one pool; when it goes cold, every shard does." + dataPath,
		exported("AWS::ElastiCache::ReplicationGroup", "") + setting("CACHE_HOST")},
	"SD007": {"shared database or proxy", "Several shards use one database, cluster, search domain or connection proxy. Connections, locks, storage and failover are shared inside one; a schema of its own for each shard divides none of these." + dataPath,
		exported("AWS::RDS::DBCluster", "") + setting("DB_HOST")},
	"SD008": {"shared function", "Several shards call one function. It has one pool of concurrency and one version: one shard's load takes the concurrency of all others." + dataPath,
		exported("AWS::Lambda::Function", "") + setting("FUNCTION_NAME")},
	"SD009": {"shared file system", "Several shards mount one file system. Throughput credits, locks and space are one." + dataPath,
		exported("AWS::EFS::FileSystem", "") + used("AWS::Lambda::Function", "FileSystemConfigs: [{Arn: !ImportValue shared, LocalMountPath: /mnt/data}]")},
	"SD010": {"shared API or distribution", "One API or distribution stands in front of several shards without a router of the cell between. Its throttling, its authorizer and its deployment are one." + dataPath +
		" The cell's API in front of its router is expected, and listed as info.",
		exported("AWS::ApiGatewayV2::Api", "") + used("AWS::ApiGatewayV2::Integration", "ApiId: !ImportValue shared")},
	"SD011": {"shared topic or event bus", "Several shards publish to, or are fed by, one topic, bus or rule. What one shard publishes, all subscribers have to digest, and a wrong filter reaches all." + dataPath,
		exported("AWS::SNS::Topic", "") + setting("TOPIC_ARN")},
	"SD012": {"shared compute", "Several shards run on the same targets, instances, services or clusters. A poisoned instance serves every shard that it is registered for." + dataPath,
		exported("AWS::AutoScaling::AutoScalingGroup", "") + used("AWS::AutoScaling::ScalingPolicy", "AutoScalingGroupName: !ImportValue shared")},
	"SD013": {"shared workflow, pipe or schedule", "Several shards depend on one state machine, pipe or schedule. Its rate and its open executions are one." + dataPath,
		exported("AWS::StepFunctions::StateMachine", "") + setting("STATE_MACHINE_ARN")},
}

const oneEdit = " No request need fail with it, but one wrong edit of it is every shard's at once, and no roll-out shard by shard protects from that."

// identityManual is the documentation of the SI rules.
var identityManual = map[string]manual{
	"SI000": {"shared resource of an unknown type", "Several shards depend on a resource of a type that the audit has no judgement of. It may be harmless; look, and waive it with the reason if it is.",
		exported("AWS::RoboMaker::Fleet", "") + setting("FLEET")},
	"SI001": {"shared role or policy", "Several shards act with one role or policy. One wrong statement locks out all of them, one stolen credential opens all of them." + oneEdit,
		exported("AWS::IAM::Role", "") + used("AWS::Lambda::Function", "Role: !ImportValue shared")},
	"SI002": {"shared key, secret or certificate", "Several shards use one key, secret or certificate. Disabling it, letting it run out or rotating it wrongly stops all of them, and a key's request rate is one." + oneEdit,
		exported("AWS::KMS::Key", "") + used("AWS::SQS::Queue", "KmsMasterKeyId: !ImportValue shared")},
	"SI003": {"shared parameter", "Running code of several shards reads one parameter or one configuration, such as a feature flag. A bad value reaches all of them within one refresh." + oneEdit + " A parameter that CloudFormation alone reads is info.",
		exported("AWS::SSM::Parameter", "    Properties: {Name: /orders/flags, Type: String, Value: \"on\"}\n") + setting("FLAGS_PARAMETER")},
	"SI004": {"shared security group or firewall", "Several shards are behind one security group or web ACL. One wrong rule cuts off all of them, and the group's rules count against one limit." + oneEdit,
		exported("AWS::EC2::SecurityGroup", "") + used("AWS::Lambda::Function", "VpcConfig: {SecurityGroupIds: [!ImportValue shared]}")},
	"SI005": {"shared log group", "Several shards write to one log group. A flood of one shard throttles and hides the lines of the others, when they are needed most." + oneEdit,
		exported("AWS::Logs::LogGroup", "") + setting("LOG_GROUP")},
	"SI006": {"shared launch template, layer or image", "Several shards are built from one launch template, layer, repository or task definition. A bad version is in every shard as soon as each next instance starts." + oneEdit,
		exported("AWS::EC2::LaunchTemplate", "") + used("AWS::AutoScaling::AutoScalingGroup", "LaunchTemplate: {LaunchTemplateId: !ImportValue shared, Version: \"1\"}")},
	"SI007": {"shared by deployment order alone", "Only DependsOn leads from several shards to a resource. No request travels that, but while an update of it fails, CloudFormation holds back the shards behind it.",
		`-- orders-eu-1.yaml --
Resources:
  Settings: {Type: AWS::DynamoDB::Table}
  WorkerOne:
    Type: AWS::SQS::Queue
    DependsOn: Settings
    Properties: {Tags: [{Key: cellwall:cell, Value: eu-1}, {Key: cellwall:shard, Value: s01}]}
  WorkerTwo:
    Type: AWS::SQS::Queue
    DependsOn: Settings
    Properties: {Tags: [{Key: cellwall:cell, Value: eu-1}, {Key: cellwall:shard, Value: s02}]}
`},
	"SI008": {"shared network", "The shards stand in one network: VPC, subnets, routes, NAT, endpoints, name zone. That is so by design: a cell bounds the failure of a network, a shard does not. It is listed so that nobody takes it for isolation.",
		exported("AWS::EC2::Subnet", "") + used("AWS::Lambda::Function", "VpcConfig: {SubnetIds: [!ImportValue shared]}")},
}

// limitManual is the documentation of the QT rules.
var limitManual = map[string]manual{
	"QT001": {"target groups of a load balancer", "One Application Load Balancer names at most 100 target groups, counted once each over the default actions and rules of all its listeners, weighted forwards included. AWS does not raise that. A warning from 80 on.",
		"A shared load balancer has one listener with a default action and 100 rules, each of which forwards to a target group of its own: 101 target groups. The deployment of the last one fails with TooManyUniqueTargetGroupsPerLoadBalancer, after all others went well."},
	"QT002": {"reserved concurrency of an account", "Reservations of all functions of one account and region come out of one pool, of which Lambda keeps 100 free. What does not fit fails at deployment; what fits to the last leaves functions without a reservation starving. A warning from 80 % on, and an error past the limit. The fleet file says what an account really has.",
		"-- orders-eu-1-shard-s01.yaml orders-eu-1-shard-s02.yaml --\n" + `Resources:
  Worker:
    Type: AWS::Lambda::Function
    Properties: {ReservedConcurrentExecutions: 460}
`},
}

// unreadManual is the documentation of the UN rules.
var unreadManual = map[string]manual{
	"UN001": {"no shard can be told", "Nothing says which resource belongs to which shard, so nothing that is shared was judged. An audit that judged nothing must not pass. With one shard alone it is a review item.",
		"-- web.yaml --\nResources:\n  Table: {Type: AWS::DynamoDB::Table}\n"},
	"UN002": {"reference that leads nowhere", "A shard refers to an export, a parameter or a resource that was not read, so what it depends on is unknown. Audit the stack that it leads to together with these.",
		shardFiles + "Resources:\n  Worker:\n    Type: AWS::Lambda::Function\n    Properties: {Role: !ImportValue role-of-a-stack-that-was-not-read}\n"},
	"UN003": {"text that may be a name", "A text equals a resource's name, where no key says that it means it, and would lead a shard to what is not its own if it did. Write it at a key that says so (TABLE_NAME), or name it otherwise.",
		"-- orders-eu-1-core.yaml --\nResources:\n  Table: {Type: AWS::DynamoDB::Table, Properties: {TableName: orders-ledger}}\n" +
			shardFiles + "Resources:\n  Worker:\n    Type: AWS::Lambda::Function\n    Properties: {Environment: {Variables: {TARGET: orders-ledger}}}\n"},
	"UN004": {"grant by pattern", "A shard's statement allows a pattern that covers resources of other shards or of nobody. It may use them; whether it does, no template says. Name the shard's own resources.",
		`-- orders-eu-1-core.yaml --
Resources:
  Ledger: {Type: AWS::DynamoDB::Table, Properties: {TableName: orders-ledger}}
` + shardFiles + `Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      Policies:
        - PolicyName: tables
          PolicyDocument: {Statement: [{Effect: Allow, Action: "dynamodb:*", Resource: !Sub "arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/orders-*"}]}
`},
	"UN005": {"template that was not seen whole", "A macro, loop, nested template or unknown function makes something that the audit does not see, or the assembly has a version or an artifact that it does not know. Audit the template as CloudFormation will see it.",
		"-- orders-eu-1-core.yaml --\nTransform: OurOwnMacro\nResources:\n  Table: {Type: AWS::DynamoDB::Table}\n"},
}

// waiverManual is the documentation of the WV rules.
var waiverManual = map[string]manual{
	"WV001": {"expired waiver", "A waiver or acknowledgement is past its last day, and what it was for is still there. It no longer holds, so the finding counts again; this says why. An error when the finding is one.",
		"waivers:\n  - rule: SD001\n    resource: eu-1/core/Alb*\n    reason: shared until the cells are split\n    expires: 2026-01-31   # a day in the past"},
	"WV002": {"unused waiver", "A waiver or acknowledgement suppresses nothing: what it was for is gone, is only listed, or has another name or other shards. Left where it is, it would hide the next one.",
		"waivers:\n  - rule: SD001\n    resource: eu-1/core/NoSuchAlb\n    reason: shared until the cells are split\n    expires: 2030-01-31"},
	"WV003": {"acknowledgement without reason or end", "An acknowledgement in a template's metadata does not say why or until when. It does not hold until it does: the reason has to say both.",
		"awscdk.Validations_Of(alb).Acknowledge(&awscdk.Acknowledgment{\n\tId:     jsii.String(\"cellwall::SD001\"),\n\tReason: jsii.String(\"shared until the cells are split\"), // and until when? \", expires 2027-03-31\"\n})"},
}
