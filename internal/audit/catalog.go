package audit

// Types that the code speaks of by name.
const (
	typeLoadBalancer = "AWS::ElasticLoadBalancingV2::LoadBalancer"
	typeListener     = "AWS::ElasticLoadBalancingV2::Listener"
	typeListenerRule = "AWS::ElasticLoadBalancingV2::ListenerRule"
	typeTargetGroup  = "AWS::ElasticLoadBalancingV2::TargetGroup"
	typeGroup        = "AWS::AutoScaling::AutoScalingGroup"
	typeFunction     = "AWS::Lambda::Function"
	typeParameter    = "AWS::SSM::Parameter"
	typeRecord       = "AWS::Route53::RecordSet"
	typeAlias        = "AWS::KMS::Alias"
	typeNested       = "AWS::CloudFormation::Stack"
	typeExport       = "export" // of a stack that was not read
)

// rule is one thing that the audit looks for.
type rule struct {
	id    string
	level Level
	noun  string // what the shared thing is called
	fix   string
}

// The rules about what shards share. SD: a data path, so that a fault in it is a fault of every shard
// behind it. SI: identity or configuration, so that one wrong edit is.
var (
	ruleLoadBalancer = rule{"SD001", Error, "load balancer", "give each shard a load balancer of its own (shard.http.ingress: per-shard), or accept that these shards fail together"}
	ruleTable        = rule{"SD002", Error, "table", "give each shard a table of its own: one table with many key prefixes is still one table, and so is an index of it"}
	ruleQueue        = rule{"SD003", Error, "queue", "give each shard a queue of its own: one shard's backlog delays all others in a shared one"}
	ruleBucket       = rule{"SD004", Error, "bucket", "give each shard a bucket of its own: policy, keys and request rate are shared inside one"}
	ruleStream       = rule{"SD005", Error, "stream", "give each shard a stream of its own: a poison record blocks whoever reads behind it"}
	ruleCache        = rule{"SD006", Error, "cache", "give each shard a cache of its own: eviction, CPU and connections are shared inside one"}
	ruleDatabase     = rule{"SD007", Error, "database", "give each shard a database of its own: connections, locks and storage are shared inside one"}
	ruleFunction     = rule{"SD008", Error, "function", "give each shard a function of its own with reserved concurrency: one shard's load takes the concurrency of all others"}
	ruleFileSystem   = rule{"SD009", Error, "file system", "give each shard a file system of its own: throughput and locks are shared inside one"}
	ruleAPI          = rule{"SD010", Error, "API", "put the API in front of the router and not of the shards, or give each shard its own: throttling is per API and stage"}
	ruleTopic        = rule{"SD011", Error, "topic or event bus", "give each shard a topic or bus of its own: what one shard publishes, all subscribers of it must digest"}
	ruleCompute      = rule{"SD012", Error, "compute", "give each shard targets and instances of its own: a poisoned instance serves every shard behind it"}
	ruleWorkflow     = rule{"SD013", Error, "workflow or pipe", "give each shard one of its own"}

	ruleRole     = rule{"SI001", Warning, "role or policy", "give each shard a role of its own: one wrong statement locks out every shard, one stolen credential opens them all"}
	ruleKey      = rule{"SI002", Warning, "key, secret or certificate", "give each shard its own: disabling or rotating it wrongly stops every shard"}
	ruleValue    = rule{"SI003", Warning, "parameter", "give each shard a parameter of its own, so that a bad value reaches one shard at a time"}
	ruleSecurity = rule{"SI004", Warning, "security group or firewall", "give each shard its own, so that a wrong rule cuts off one shard"}
	ruleLogs     = rule{"SI005", Warning, "log group", "give each shard its own: throttling and a flood of one shard hide the others"}
	ruleBuild    = rule{"SI006", Warning, "launch template, layer or image", "give each shard its own version, so that a bad one reaches one shard at a time"}
	ruleOther    = rule{"SI000", Warning, "resource", "give each shard its own, or say why it may be shared"}
	ruleOrder    = rule{"SI007", Warning, "resource, in deployment order,", "give each shard a stack of its own, or remove the DependsOn"}
	ruleNetwork  = rule{"SI008", Info, "network", "nothing to do unless the cell's own network is not isolation enough: a shard is no network boundary"}

	ruleTargetGroups = rule{"QT001", Fatal, "target groups per load balancer", "split the shards over more load balancers (shard.http.ingress: per-shard, or grouped with fewer shards each)"}
	ruleConcurrency  = rule{"QT002", Error, "reserved concurrency per account and region", "lower the reservations, ask for more concurrency (Service Quotas L-B99A9384) and set it in fleet.yaml, accounts.ID.lambdaConcurrency, or place a cell in another account"}

	ruleNoShards   = rule{"UN001", Error, "shards", "tag the stacks with cellwall:cell and cellwall:shard, put the constructs at CELL/shard-SID, or name the stacks SERVICE-CELL-shard-SID"}
	ruleUnresolved = rule{"UN002", Review, "reference", "audit the stack that it leads to as well, or write down what it is"}
	ruleMaybe      = rule{"UN003", Review, "name", "check whether the string means that resource"}
	rulePattern    = rule{"UN004", Review, "grant by pattern", "name the shard's own resources in the statement"}
	ruleUnread     = rule{"UN005", Review, "template", "audit the template as CloudFormation will see it"}
	ruleMapped     = rule{"UN006", Review, "owner", "correct the mapping, or the tag or path that it disagrees with"}
	ruleUnseen     = rule{"UN007", Review, "stack", "synthesise the whole fleet (cdk synth '**') and audit that"}
	ruleUnplaced   = rule{"UN009", Review, "stacks", "say who they are with --shard or --map, or leave them out of the directory"}
)

// traits is what the audit knows of one resource type.
type traits struct {
	rule *rule
	// name is the property with the physical name, and global where that name is unique beyond its
	// region.
	name   string
	global scope
	// expected says why sharing one is no hole in the wall.
	expected string
	// partOf is the property that names the whole that this is a part of. A part is reported with it.
	partOf string
	// observer marks what looks on: nothing that it names is on any request's path because of it.
	observer bool
}

type scope uint8

const (
	regional scope = iota
	perAccount
	perPartition
)

const (
	network  = "the shards of a cell share its network by design: a cell bounds that failure"
	policies = "it is static configuration, AWS allows 20 of each kind per account, and one for all is the way within that"
	resolver = "the cell's name zone changes only with a deployment, and answers come from resolver caches"
)

// known are the traits of resource types. A type that is not here is reported as ruleOther.
var known = map[string]traits{
	typeLoadBalancer: {rule: &ruleLoadBalancer, name: "Name"},
	"AWS::ElasticLoadBalancing::LoadBalancer": {rule: &ruleLoadBalancer, name: "LoadBalancerName"},
	typeListener:     {rule: &ruleLoadBalancer, partOf: "LoadBalancerArn"},
	typeListenerRule: {rule: &ruleLoadBalancer, partOf: "ListenerArn"},
	"AWS::ElasticLoadBalancingV2::ListenerCertificate": {rule: &ruleKey, partOf: "ListenerArn"},
	"AWS::ElasticLoadBalancingV2::TrustStore":          {rule: &ruleKey, name: "Name"},
	"AWS::DynamoDB::Table":                             {rule: &ruleTable, name: "TableName"},
	"AWS::DynamoDB::GlobalTable":                       {rule: &ruleTable, name: "TableName"},
	"AWS::Cassandra::Table":                            {rule: &ruleTable, name: "TableName"},
	"AWS::SQS::Queue":                                  {rule: &ruleQueue, name: "QueueName"},
	"AWS::AmazonMQ::Broker":                            {rule: &ruleQueue, name: "BrokerName"},
	"AWS::S3::Bucket":                                  {rule: &ruleBucket, name: "BucketName", global: perPartition},
	"AWS::S3Express::DirectoryBucket":                  {rule: &ruleBucket, name: "BucketName"},
	"AWS::S3::AccessPoint":                             {rule: &ruleBucket, name: "Name", partOf: "Bucket"},
	"AWS::Kinesis::Stream":                             {rule: &ruleStream, name: "Name"},
	"AWS::KinesisFirehose::DeliveryStream":             {rule: &ruleStream, name: "DeliveryStreamName"},
	"AWS::MSK::Cluster":                                {rule: &ruleStream, name: "ClusterName"},
	"AWS::MSK::ServerlessCluster":                      {rule: &ruleStream, name: "ClusterName"},
	"AWS::ElastiCache::ReplicationGroup":               {rule: &ruleCache, name: "ReplicationGroupId"},
	"AWS::ElastiCache::CacheCluster":                   {rule: &ruleCache, name: "ClusterName"},
	"AWS::ElastiCache::ServerlessCache":                {rule: &ruleCache, name: "ServerlessCacheName"},
	"AWS::MemoryDB::Cluster":                           {rule: &ruleCache, name: "ClusterName"},
	"AWS::DAX::Cluster":                                {rule: &ruleCache, name: "ClusterName"},
	"AWS::RDS::DBCluster":                              {rule: &ruleDatabase, name: "DBClusterIdentifier"},
	"AWS::RDS::DBInstance":                             {rule: &ruleDatabase, name: "DBInstanceIdentifier"},
	"AWS::RDS::DBProxy":                                {rule: &ruleDatabase, name: "DBProxyName"},
	"AWS::RDS::DBProxyTargetGroup":                     {rule: &ruleDatabase, partOf: "DBProxyName"},
	"AWS::DSQL::Cluster":                               {rule: &ruleDatabase},
	"AWS::DocDB::DBCluster":                            {rule: &ruleDatabase, name: "DBClusterIdentifier"},
	"AWS::Neptune::DBCluster":                          {rule: &ruleDatabase, name: "DBClusterIdentifier"},
	"AWS::Redshift::Cluster":                           {rule: &ruleDatabase, name: "ClusterIdentifier"},
	"AWS::OpenSearchService::Domain":                   {rule: &ruleDatabase, name: "DomainName"},
	"AWS::OpenSearchServerless::Collection":            {rule: &ruleDatabase, name: "Name"},
	"AWS::Timestream::Database":                        {rule: &ruleDatabase, name: "DatabaseName"},
	typeFunction:                                       {rule: &ruleFunction, name: "FunctionName"},
	"AWS::Lambda::Alias":                               {rule: &ruleFunction, partOf: "FunctionName"},
	"AWS::Lambda::Version":                             {rule: &ruleFunction, partOf: "FunctionName"},
	"AWS::Lambda::Url":                                 {rule: &ruleFunction, partOf: "TargetFunctionArn"},
	"AWS::Lambda::EventSourceMapping":                  {rule: &ruleQueue, partOf: "EventSourceArn"},
	"AWS::Lambda::EventInvokeConfig":                   {rule: &ruleFunction, partOf: "FunctionName"},
	"AWS::Lambda::LayerVersion":                        {rule: &ruleBuild, name: "LayerName"},
	"AWS::EFS::FileSystem":                             {rule: &ruleFileSystem},
	"AWS::EFS::AccessPoint":                            {rule: &ruleFileSystem, partOf: "FileSystemId"},
	"AWS::EFS::MountTarget":                            {rule: &ruleFileSystem, partOf: "FileSystemId"},
	"AWS::FSx::FileSystem":                             {rule: &ruleFileSystem},
	"AWS::ApiGateway::RestApi":                         {rule: &ruleAPI, name: "Name"},
	"AWS::ApiGateway::Method":                          {rule: &ruleAPI, partOf: "RestApiId"},
	"AWS::ApiGateway::Resource":                        {rule: &ruleAPI, partOf: "RestApiId"},
	"AWS::ApiGatewayV2::Api":                           {rule: &ruleAPI},
	"AWS::ApiGatewayV2::Integration":                   {rule: &ruleAPI, partOf: "ApiId"},
	"AWS::ApiGatewayV2::Route":                         {rule: &ruleAPI, partOf: "ApiId"},
	"AWS::AppSync::DataSource":                         {rule: &ruleAPI, partOf: "ApiId"},
	"AWS::ApiGatewayV2::VpcLink":                       {rule: &ruleAPI},
	"AWS::AppSync::GraphQLApi":                         {rule: &ruleAPI, name: "Name"},
	"AWS::CloudFront::Distribution":                    {rule: &ruleAPI},
	"AWS::GlobalAccelerator::Accelerator":              {rule: &ruleLoadBalancer, name: "Name"},
	"AWS::SNS::Topic":                                  {rule: &ruleTopic, name: "TopicName"},
	"AWS::SNS::Subscription":                           {rule: &ruleTopic, partOf: "TopicArn"},
	"AWS::Events::EventBus":                            {rule: &ruleTopic, name: "Name"},
	"AWS::Events::Rule":                                {rule: &ruleTopic, name: "Name"},
	"AWS::Scheduler::Schedule":                         {rule: &ruleWorkflow, name: "Name"},
	"AWS::StepFunctions::StateMachine":                 {rule: &ruleWorkflow, name: "StateMachineName"},
	"AWS::Pipes::Pipe":                                 {rule: &ruleWorkflow, name: "Name"},
	typeTargetGroup:                                    {rule: &ruleCompute, name: "Name"},
	typeGroup:                                          {rule: &ruleCompute, name: "AutoScalingGroupName"},
	"AWS::AutoScaling::ScalingPolicy":                  {rule: &ruleCompute, partOf: "AutoScalingGroupName"},
	"AWS::EC2::Instance":                               {rule: &ruleCompute},
	"AWS::ECS::Service":                                {rule: &ruleCompute, name: "ServiceName"},
	"AWS::ECS::Cluster":                                {rule: &ruleCompute, name: "ClusterName"},
	"AWS::ECS::CapacityProvider":                       {rule: &ruleCompute, name: "Name"},
	"AWS::EKS::Cluster":                                {rule: &ruleCompute, name: "Name"},
	"AWS::Batch::ComputeEnvironment":                   {rule: &ruleCompute, name: "ComputeEnvironmentName"},
	"AWS::IAM::Role":                                   {rule: &ruleRole, name: "RoleName", global: perAccount},
	"AWS::IAM::InstanceProfile":                        {rule: &ruleRole, name: "InstanceProfileName", global: perAccount},
	"AWS::IAM::ManagedPolicy":                          {rule: &ruleRole, name: "ManagedPolicyName", global: perAccount},
	"AWS::IAM::Policy":                                 {rule: &ruleRole, partOf: "Roles"},
	"AWS::IAM::RolePolicy":                             {rule: &ruleRole, partOf: "RoleName"},
	"AWS::Lambda::Permission":                          {rule: &ruleRole, partOf: "FunctionName"},
	"AWS::SQS::QueuePolicy":                            {rule: &ruleQueue, partOf: "Queues"},
	"AWS::S3::BucketPolicy":                            {rule: &ruleBucket, partOf: "Bucket"},
	"AWS::SNS::TopicPolicy":                            {rule: &ruleTopic, partOf: "Topics"},
	"AWS::KMS::Key":                                    {rule: &ruleKey},
	typeAlias:                                          {rule: &ruleKey, name: "AliasName", partOf: "TargetKeyId"},
	"AWS::SecretsManager::Secret":                      {rule: &ruleKey, name: "Name"},
	"AWS::CertificateManager::Certificate":             {rule: &ruleKey},
	typeParameter:                                      {rule: &ruleValue, name: "Name"},
	"AWS::AppConfig::Application":                      {rule: &ruleValue, name: "Name"},
	"AWS::AppConfig::ConfigurationProfile":             {rule: &ruleValue, partOf: "ApplicationId"},
	"AWS::AppConfig::Environment":                      {rule: &ruleValue, partOf: "ApplicationId"},
	"AWS::EC2::SecurityGroup":                          {rule: &ruleSecurity, name: "GroupName"},
	"AWS::EC2::SecurityGroupIngress":                   {rule: &ruleSecurity, partOf: "GroupId"},
	"AWS::EC2::SecurityGroupEgress":                    {rule: &ruleSecurity, partOf: "GroupId"},
	"AWS::WAFv2::WebACL":                               {rule: &ruleSecurity, name: "Name"},
	"AWS::Logs::LogGroup":                              {rule: &ruleLogs, name: "LogGroupName"},
	"AWS::EC2::LaunchTemplate":                         {rule: &ruleBuild, name: "LaunchTemplateName"},
	"AWS::ECR::Repository":                             {rule: &ruleBuild, name: "RepositoryName"},
	"AWS::ECS::TaskDefinition":                         {rule: &ruleBuild, name: "Family"},
	"AWS::EC2::VPC":                                    {rule: &ruleNetwork, expected: network},
	"AWS::EC2::VPCCidrBlock":                           {rule: &ruleNetwork, expected: network},
	"AWS::EC2::Subnet":                                 {rule: &ruleNetwork, expected: network},
	"AWS::EC2::SubnetRouteTableAssociation":            {rule: &ruleNetwork, expected: network},
	"AWS::EC2::RouteTable":                             {rule: &ruleNetwork, expected: network},
	"AWS::EC2::Route":                                  {rule: &ruleNetwork, expected: network},
	"AWS::EC2::InternetGateway":                        {rule: &ruleNetwork, expected: network},
	"AWS::EC2::EgressOnlyInternetGateway":              {rule: &ruleNetwork, expected: network},
	"AWS::EC2::VPCGatewayAttachment":                   {rule: &ruleNetwork, expected: network},
	"AWS::EC2::NatGateway":                             {rule: &ruleNetwork, expected: network},
	"AWS::EC2::EIP":                                    {rule: &ruleNetwork, expected: network},
	"AWS::EC2::VPCEndpoint":                            {rule: &ruleNetwork, expected: network},
	"AWS::EC2::NetworkAcl":                             {rule: &ruleNetwork, expected: network},
	"AWS::EC2::TransitGateway":                         {rule: &ruleNetwork},
	"AWS::CloudFront::CachePolicy":                     {rule: &ruleValue, expected: policies},
	"AWS::CloudFront::OriginRequestPolicy":             {rule: &ruleValue, expected: policies},
	"AWS::CloudFront::ResponseHeadersPolicy":           {rule: &ruleValue, expected: policies},
	"AWS::EC2::VPCPeeringConnection":                   {rule: &ruleNetwork},
	"AWS::Route53::HostedZone":                         {rule: &ruleNetwork, expected: resolver},
	"AWS::Route53::RecordSet":                          {rule: &ruleNetwork, partOf: "HostedZoneId"},
	"AWS::CloudWatch::Alarm":                           {rule: &ruleOther, observer: true, name: "AlarmName"},
	"AWS::CloudWatch::CompositeAlarm":                  {rule: &ruleOther, observer: true, name: "AlarmName"},
	"AWS::CloudWatch::Dashboard":                       {rule: &ruleOther, observer: true, name: "DashboardName"},
	"AWS::CloudWatch::InsightRule":                     {rule: &ruleOther, observer: true, name: "RuleName"},
	"AWS::CloudWatch::AnomalyDetector":                 {rule: &ruleOther, observer: true},
	"AWS::Logs::MetricFilter":                          {rule: &ruleOther, observer: true},
	"AWS::Logs::SubscriptionFilter":                    {rule: &ruleOther, observer: true},
	"AWS::Backup::BackupSelection":                     {rule: &ruleOther, observer: true},
	"AWS::CDK::Metadata":                               {rule: &ruleOther, observer: true},
	"AWS::ApplicationInsights::Application":            {rule: &ruleOther, observer: true},
}

// transformed are types of macros, by the type that CloudFormation makes of them.
var transformed = map[string]string{
	"AWS::Serverless::Function":     typeFunction,
	"AWS::Serverless::SimpleTable":  "AWS::DynamoDB::Table",
	"AWS::Serverless::Api":          "AWS::ApiGateway::RestApi",
	"AWS::Serverless::HttpApi":      "AWS::ApiGatewayV2::Api",
	"AWS::Serverless::StateMachine": "AWS::StepFunctions::StateMachine",
	"AWS::Serverless::LayerVersion": "AWS::Lambda::LayerVersion",
	"AWS::Serverless::GraphQLApi":   "AWS::AppSync::GraphQLApi",
}

// traitsOf are the traits of a type, known or not.
func traitsOf(typ string) traits {
	if t, ok := known[typ]; ok {
		return t
	}
	if t, ok := known[transformed[typ]]; ok {
		if typ == "AWS::Serverless::StateMachine" || typ == "AWS::Serverless::GraphQLApi" || typ == "AWS::Serverless::Api" {
			t.name = "Name"
		}
		return t
	}
	if t, ok := stateful[typ]; ok {
		return t
	}
	return traits{rule: &ruleOther}
}
