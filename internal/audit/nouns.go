package audit

import "cmp"

// nouns are what people call a resource of a type, where its rule speaks of several kinds of things.
var nouns = map[string]string{
	typeListener:                             "listener",
	typeListenerRule:                         "listener rule",
	typeTargetGroup:                          "target group",
	typeGroup:                                "Auto Scaling group",
	typeAlias:                                "key alias",
	"AWS::GlobalAccelerator::Accelerator":    "accelerator",
	"AWS::Cassandra::Keyspace":               "keyspace",
	"AWS::AmazonMQ::Broker":                  "broker",
	"AWS::Lambda::EventSourceMapping":        "event source mapping",
	"AWS::MSK::Cluster":                      "Kafka cluster",
	"AWS::MSK::ServerlessCluster":            "Kafka cluster",
	"AWS::KinesisFirehose::DeliveryStream":   "delivery stream",
	"AWS::RDS::DBProxy":                      "database proxy",
	"AWS::OpenSearchService::Domain":         "search domain",
	"AWS::OpenSearchServerless::Collection":  "search collection",
	"AWS::Elasticsearch::Domain":             "search domain",
	"AWS::CloudSearch::Domain":               "search domain",
	"AWS::Cognito::UserPool":                 "user pool",
	"AWS::Cognito::IdentityPool":             "identity pool",
	"AWS::EC2::Volume":                       "volume",
	"AWS::CloudFront::Distribution":          "distribution",
	"AWS::SNS::Topic":                        "topic",
	"AWS::Events::EventBus":                  "event bus",
	"AWS::Events::Rule":                      "rule of an event bus",
	"AWS::Scheduler::Schedule":               "schedule",
	"AWS::StepFunctions::StateMachine":       "workflow",
	"AWS::Pipes::Pipe":                       "pipe",
	"AWS::EC2::Instance":                     "instance",
	"AWS::ECS::Service":                      "service",
	"AWS::ECS::Cluster":                      "cluster",
	"AWS::EKS::Cluster":                      "cluster",
	"AWS::IAM::Role":                         "role",
	"AWS::IAM::InstanceProfile":              "instance profile",
	"AWS::IAM::ManagedPolicy":                "policy",
	"AWS::IAM::Policy":                       "policy",
	"AWS::IAM::RolePolicy":                   "policy",
	"AWS::Lambda::Permission":                "permission",
	"AWS::KMS::Key":                          "key",
	"AWS::SecretsManager::Secret":            "secret",
	"AWS::CertificateManager::Certificate":   "certificate",
	"AWS::AppConfig::Application":            "feature-flag application",
	"AWS::EC2::SecurityGroup":                "security group",
	"AWS::WAFv2::WebACL":                     "firewall",
	"AWS::EC2::LaunchTemplate":               "launch template",
	"AWS::Lambda::LayerVersion":              "layer",
	"AWS::ECR::Repository":                   "image repository",
	"AWS::ECS::TaskDefinition":               "task definition",
	"AWS::EC2::VPC":                          "VPC",
	"AWS::EC2::Subnet":                       "subnet",
	"AWS::EC2::RouteTable":                   "route table",
	"AWS::EC2::NatGateway":                   "NAT gateway",
	"AWS::EC2::VPCEndpoint":                  "endpoint",
	"AWS::EC2::TransitGateway":               "transit gateway",
	"AWS::EC2::VPCPeeringConnection":         "VPC peering",
	"AWS::Route53::HostedZone":               "name zone",
	"AWS::Route53::RecordSet":                "DNS record",
	"AWS::CloudFront::CachePolicy":           "cache policy",
	"AWS::CloudFront::OriginRequestPolicy":   "origin request policy",
	"AWS::CloudFront::ResponseHeadersPolicy": "response headers policy",
	typeExport:                               "export",
}

// nounOf is what a resource of that type is called, and or when nothing better is known than its rule's word.
func nounOf(typ, or string) string {
	return cmp.Or(nouns[typ], nouns[transformed[typ]], or)
}

// fixes are what to do about a type for which its rule's own advice does not fit.
var fixes = map[string]string{
	"AWS::Cognito::UserPool":                fixSignIn,
	"AWS::Cognito::IdentityPool":            fixSignIn,
	"AWS::AppConfig::Application":           "deploy its configuration to one shard at a time, by an environment for each, so that a bad flag reaches one",
	"AWS::OpenSearchService::Domain":        fixSearch,
	"AWS::OpenSearchServerless::Collection": fixSearch,
	"AWS::Elasticsearch::Domain":            fixSearch,
	"AWS::CloudFront::Distribution":         "put it in front of the router and not of the shards, or give each shard its own: a wrong behaviour or origin reaches all behind it",
}

const (
	fixSignIn = "keep it off the path of requests: let shards verify tokens by public keys that they keep; and give each cell its own, so that a fault of it stops signing in to one cell"
	fixSearch = "give each shard its own: a heavy query, a full heap and a red index reach all that search in one"
)
