package audit

import (
	"regexp"
	"strings"
)

// arn is an Amazon Resource Name, taken apart.
type arn struct{ partition, service, region, account, resource string }

func parseARN(s string) (arn, bool) {
	p := strings.SplitN(s, ":", 6)
	if len(p) != 6 || p[0] != "arn" || p[2] == "" || p[5] == "" {
		return arn{}, false
	}
	return arn{p[1], p[2], p[3], p[4], p[5]}, true
}

// partitionOf is the partition and the domain suffix of a region.
func partitionOf(region string) (partition, suffix string) {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn", "amazonaws.com.cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov", "amazonaws.com"
	}
	return "aws", "amazonaws.com"
}

// arnForm is how one type of resource stands in an ARN: prefix, then the name up to one of the bytes of
// end.
type arnForm struct{ service, prefix, end, typ string }

// arnForms are sorted so that a longer prefix of a service stands before a shorter one. Source: the
// Service Authorization Reference, "Resource types" of each service.
var arnForms = []arnForm{
	{"dynamodb", "table/", "/", "AWS::DynamoDB::Table"},
	{"lambda", "function:", ":", "AWS::Lambda::Function"},
	{"lambda", "layer:", ":", "AWS::Lambda::LayerVersion"},
	{"sqs", "", "", "AWS::SQS::Queue"},
	{"sns", "", ":", "AWS::SNS::Topic"},
	{"s3", "", "/", "AWS::S3::Bucket"},
	{"kinesis", "stream/", "/", "AWS::Kinesis::Stream"},
	{"firehose", "deliverystream/", "", "AWS::KinesisFirehose::DeliveryStream"},
	{"ssm", "parameter", "", "AWS::SSM::Parameter"},
	{"secretsmanager", "secret:", ":", "AWS::SecretsManager::Secret"},
	{"iam", "role/", "", "AWS::IAM::Role"},
	{"iam", "policy/", "", "AWS::IAM::ManagedPolicy"},
	{"iam", "instance-profile/", "", "AWS::IAM::InstanceProfile"},
	{"kms", "key/", "", "AWS::KMS::Key"},
	{"kms", "alias/", "", typeAlias},
	{"logs", "log-group:", ":", "AWS::Logs::LogGroup"},
	{"elasticloadbalancing", "loadbalancer/app/", "/", typeLoadBalancer},
	{"elasticloadbalancing", "loadbalancer/net/", "/", typeLoadBalancer},
	{"elasticloadbalancing", "loadbalancer/", "", "AWS::ElasticLoadBalancing::LoadBalancer"},
	{"elasticloadbalancing", "targetgroup/", "/", typeTargetGroup},
	{"elasticloadbalancing", "listener-rule/app/", "", typeListenerRule},
	{"elasticloadbalancing", "listener/app/", "", typeListener},
	{"elasticloadbalancing", "listener/net/", "", typeListener},
	{"events", "event-bus/", "", "AWS::Events::EventBus"},
	{"events", "rule/", "", "AWS::Events::Rule"},
	{"cloudwatch", "alarm:", "", "AWS::CloudWatch::Alarm"},
	{"ec2", "launch-template/", "", "AWS::EC2::LaunchTemplate"},
	{"states", "stateMachine:", ":", "AWS::StepFunctions::StateMachine"},
	{"rds", "cluster:", "", "AWS::RDS::DBCluster"},
	{"rds", "db:", "", "AWS::RDS::DBInstance"},
	{"rds", "db-proxy:", "", "AWS::RDS::DBProxy"},
	{"elasticache", "replicationgroup:", "", "AWS::ElastiCache::ReplicationGroup"},
	{"elasticache", "serverlesscache:", "", "AWS::ElastiCache::ServerlessCache"},
	{"elasticache", "cluster:", "", "AWS::ElastiCache::CacheCluster"},
	{"memorydb", "cluster/", "", "AWS::MemoryDB::Cluster"},
	{"es", "domain/", "/", "AWS::OpenSearchService::Domain"},
	{"elasticfilesystem", "file-system/", "", "AWS::EFS::FileSystem"},
	{"kafka", "cluster/", "/", "AWS::MSK::Cluster"},
	{"ecr", "repository/", "", "AWS::ECR::Repository"},
	{"ecs", "cluster/", "", "AWS::ECS::Cluster"},
	{"acm", "certificate/", "", "AWS::CertificateManager::Certificate"},
	{"execute-api", "", "/", "AWS::ApiGatewayV2::Api"},
	{"autoscaling", "autoScalingGroup:", "", typeGroup},
}

// target is the type and the physical name of what the ARN names, and the ARN without what follows the
// name (an object's key, an index, an alias). name may hold wildcards. ok is false for a service or
// resource type that the audit does not know.
func (a arn) target() (typ, name, whole string, ok bool) {
	for _, f := range arnForms {
		rest, found := strings.CutPrefix(a.resource, f.prefix)
		if f.service != a.service || !found {
			continue
		}
		if f.end != "" {
			if i := strings.IndexAny(rest, f.end); i >= 0 {
				rest = rest[:i]
			}
		}
		if rest == "" {
			return "", "", "", false
		}
		end := len(f.prefix) + len(rest)
		if f.typ == typeLoadBalancer || f.typ == typeTargetGroup {
			end = len(a.resource) // an id follows the name and belongs to it
		}
		whole = "arn:" + strings.Join([]string{a.partition, a.service, a.region, a.account, a.resource[:end]}, ":")
		switch f.typ {
		case "AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::IAM::InstanceProfile":
			rest = rest[strings.LastIndexByte(rest, '/')+1:] // a path may lead the name
		case "AWS::SecretsManager::Secret":
			rest = secretSuffix.ReplaceAllString(rest, "")
		case typeAlias:
			rest = f.prefix + rest // which begins the alias's name
		case "AWS::Events::Rule":
			rest = rest[strings.LastIndexByte(rest, '/')+1:] // the bus leads the name of a rule on another than the default one
		case typeGroup:
			_, rest, _ = strings.Cut(rest, "autoScalingGroupName/")
		}
		return f.typ, rest, whole, rest != ""
	}
	return "", "", "", false
}

// secretSuffix is what Secrets Manager appends to a secret's name in its ARN.
var secretSuffix = regexp.MustCompile(`-([A-Za-z0-9]{6}|\?{6})$`)

// loadBalancer is the ARN of the load balancer that a listener's or rule's ARN names within itself.
func (a arn) loadBalancer() (string, bool) {
	for _, prefix := range []string{"listener-rule/", "listener/"} {
		rest, ok := strings.CutPrefix(a.resource, prefix)
		if p := strings.Split(rest, "/"); ok && len(p) >= 4 {
			return "arn:" + strings.Join([]string{a.partition, a.service, a.region, a.account,
				"loadbalancer/" + strings.Join(p[:3], "/")}, ":"), true
		}
	}
	return "", false
}

// idPrefixes are the ids that AWS gives, by what they begin with. An id in a template names something
// that lives outside of it.
var idPrefixes = map[string]string{
	"vpc":      "AWS::EC2::VPC",
	"subnet":   "AWS::EC2::Subnet",
	"sg":       "AWS::EC2::SecurityGroup",
	"nat":      "AWS::EC2::NatGateway",
	"vpce":     "AWS::EC2::VPCEndpoint",
	"rtb":      "AWS::EC2::RouteTable",
	"tgw":      "AWS::EC2::TransitGateway",
	"pcx":      "AWS::EC2::VPCPeeringConnection",
	"eipalloc": "AWS::EC2::EIP",
	"fs":       "AWS::EFS::FileSystem",
	"i":        "AWS::EC2::Instance",
}

var resourceID = regexp.MustCompile(`^([a-z]{1,8})-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// typeOfID is the type of the resource that has this id, as far as the id tells.
func typeOfID(s string) (string, bool) {
	if len(s) > 26 {
		return "", false
	}
	m := resourceID.FindStringSubmatch(s)
	if m == nil {
		return "", false
	}
	typ, ok := idPrefixes[m[1]]
	return typ, ok
}

var queueURL = regexp.MustCompile(`^https://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?/(\d{12}|` + unknownAccount + `)/([A-Za-z0-9_.-]+)$`)

// parseQueueURL takes the URL of an SQS queue apart.
func parseQueueURL(s string) (e env, name string, ok bool) {
	if !strings.HasPrefix(s, "https://") {
		return env{}, "", false
	}
	m := queueURL.FindStringSubmatch(s)
	if m == nil {
		return env{}, "", false
	}
	return env{m[3], m[1] + m[2]}, m[4], true
}
