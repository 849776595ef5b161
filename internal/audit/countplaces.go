package audit

import (
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

// placeCount is a limit of an account on resources of some types.
type placeCount struct {
	limit string
	types []string
	// counts says which of them count; nil is all.
	counts func(c *counter, i int32) bool
}

func is(key, value string, or bool) func(*counter, int32) bool {
	return func(c *counter, i int32) bool { return c.prop(i, key).is(value, or) }
}

// placeCounts are the limits of an account and region, or of an account, that are counted in resources.
var placeCounts = []placeCount{
	{"elb.albs-per-region", []string{typeLoadBalancer}, is("Type", "application", true)},
	{"elb.nlbs-per-region", []string{typeLoadBalancer}, is("Type", "network", false)},
	{"elb.target-groups-per-region", []string{typeTargetGroup}, nil},
	{"elb.trust-stores", []string{"AWS::ElasticLoadBalancingV2::TrustStore"}, nil},
	{"asg.groups", []string{typeGroup}, nil},
	{"asg.launch-configs", []string{"AWS::AutoScaling::LaunchConfiguration"}, nil},
	{"ec2.launch-templates", []string{"AWS::EC2::LaunchTemplate"}, nil},
	{"ec2.eips", []string{"AWS::EC2::EIP"}, nil},
	{"ec2.tgws", []string{"AWS::EC2::TransitGateway"}, nil},
	{"ddb.tables", []string{"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"}, nil},
	{"apigw.custom-domains", []string{"AWS::ApiGateway::DomainName", "AWS::ApiGatewayV2::DomainName"}, nil},
	{"apigw.vpclinks-v2", []string{"AWS::ApiGatewayV2::VpcLink"}, nil},
	{"apigw.vpclinks", []string{"AWS::ApiGateway::VpcLink"}, nil},
	{"apigw.regional-apis", []string{"AWS::ApiGateway::RestApi", "AWS::ApiGatewayV2::Api"}, nil},
	{"apigw.usage-plans", []string{"AWS::ApiGateway::UsagePlan"}, nil},
	{"apigw.api-keys", []string{"AWS::ApiGateway::ApiKey"}, nil},
	{"vpc.vpcs", []string{"AWS::EC2::VPC"}, nil},
	{"vpc.igws", []string{"AWS::EC2::InternetGateway"}, nil},
	{"vpc.sgs", []string{"AWS::EC2::SecurityGroup"}, nil},
	{"vpc.gateway-endpoints", []string{"AWS::EC2::VPCEndpoint"}, is("VpcEndpointType", "Gateway", true)},
	{"iam.roles", []string{"AWS::IAM::Role"}, nil},
	{"iam.policies", []string{"AWS::IAM::ManagedPolicy"}, nil},
	{"iam.instance-profiles", []string{"AWS::IAM::InstanceProfile"}, nil},
	{"iam.oidc", []string{"AWS::IAM::OIDCProvider"}, nil},
	{"kms.keys", []string{"AWS::KMS::Key", "AWS::KMS::ReplicaKey"}, nil},
	{"sm.secrets", []string{"AWS::SecretsManager::Secret"}, nil},
	{"cw.alarms", []string{"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"}, nil},
	{"logs.groups", []string{"AWS::Logs::LogGroup"}, nil},
	// the second is what CDK writes for a service that logs to a group
	{"logs.resource-policies", []string{typeLogsPolicy, typeCustomLogsPolicy}, nil},
	{"sfn.machines", []string{"AWS::StepFunctions::StateMachine"}, nil},
	{"eb.buses", []string{"AWS::Events::EventBus"}, nil},
	{"scheduler.schedules", []string{"AWS::Scheduler::Schedule"}, nil},
	{"cfn.stacksets", []string{"AWS::CloudFormation::StackSet"}, nil},
	{"ecr.repos", []string{"AWS::ECR::Repository"}, nil},
	{"r53.zones", []string{"AWS::Route53::HostedZone"}, nil},
	{"r53.health-checks", []string{"AWS::Route53::HealthCheck"}, nil},
	{"r53resolver.endpoints", []string{"AWS::Route53Resolver::ResolverEndpoint"}, nil},
	{"ssm.standard", []string{typeParameter}, is("Tier", "Standard", true)},
	{"ssm.advanced", []string{typeParameter}, is("Tier", "Advanced", false)},
	{"cf.distributions", []string{"AWS::CloudFront::Distribution"}, nil},
	{"cf.cache-policies", []string{"AWS::CloudFront::CachePolicy"}, nil},
	{"cf.origin-request-policies", []string{"AWS::CloudFront::OriginRequestPolicy"}, nil},
	{"cf.response-headers-policies", []string{"AWS::CloudFront::ResponseHeadersPolicy"}, nil},
	{"cf.oac", []string{"AWS::CloudFront::OriginAccessControl"}, nil},
	{"waf.webacls", []string{"AWS::WAFv2::WebACL"}, nil},
	{"waf.rule-groups", []string{"AWS::WAFv2::RuleGroup"}, nil},
	{"waf.ip-sets", []string{"AWS::WAFv2::IPSet"}, nil},
	{"fis.templates", []string{"AWS::FIS::ExperimentTemplate"}, nil},
	{"s3.buckets", []string{"AWS::S3::Bucket"}, nil},
	{"sns.topics", []string{"AWS::SNS::Topic"}, nil},
	{"acm.certs", []string{"AWS::CertificateManager::Certificate"}, nil},
	{"appautoscaling.ddb", []string{"AWS::ApplicationAutoScaling::ScalableTarget"}, is("ServiceNamespace", "dynamodb", false)},
}

const (
	typeLogsPolicy       = "AWS::Logs::ResourcePolicy"
	typeCustomLogsPolicy = "Custom::CloudwatchLogResourcePolicy"
)

// shareInstead are limits of static configuration, of which one for all is the right number.
var shareInstead = map[string]string{
	"cf.cache-policies":            shareStatic,
	"cf.origin-request-policies":   shareStatic,
	"cf.response-headers-policies": shareStatic,
	"logs.resource-policies":       "one resource policy may name many log groups by a prefix: let one stack of the account own it, or log to groups below /aws/vendedlogs/",
	"ec2.eips":                     "raise the quota before the cell is stamped, give a cell another account, or leave NAT gateways out (cells[].egress: endpoints)",
}

const shareStatic = "let tenants and shards use the same policies: they are static configuration, which is right to share, and an account has few"

func (c *counter) countPlaces() {
	for _, p := range placeCounts {
		at := map[env]*usage{}
		for _, typ := range p.types {
			for _, i := range c.types[typ] {
				if p.counts == nil || p.counts(c, i) {
					c.inPlace(at, p.limit, c.envOf(i)).add(c, i, c.one(i))
				}
			}
		}
		c.addPlaces(at)
	}
	stacks := map[env]*usage{}
	for i := range c.stacks {
		s := &c.stacks[i]
		u := c.inPlace(stacks, "cfn.stacks", s.env())
		u.used = u.used.plus(exactly(1))
	}
	c.addPlaces(stacks)
	c.countNAT()
}

// inPlace is the usage of an account's limit.
func (c *counter) inPlace(at map[env]*usage, limit string, e env) *usage {
	wide, ok := c.wide[limit]
	if !ok {
		b, known := c.bound(limit, e)
		wide = known && b.Scope == "per-account"
		c.wide[limit] = wide
	}
	if wide {
		e.region = ""
	}
	if at[e] == nil {
		at[e] = &usage{limit: limit, rule: &rulePlace, node: -1, stack: -1, env: e, whole: true, fix: shareInstead[limit]}
	}
	return at[e]
}

func (c *counter) addPlaces(at map[env]*usage) {
	for _, e := range slices.SortedFunc(maps.Keys(at), compareEnv) {
		c.usages = append(c.usages, *at[e])
	}
}

// countNAT counts NAT gateways by zone: two of one zone are told by equal expressions.
func (c *counter) countNAT() {
	type zone struct {
		env
		name string
	}
	at := map[zone]*usage{}
	for _, i := range c.types["AWS::EC2::NatGateway"] {
		name := "a zone that no template says"
		for _, subnet := range c.named(i, "SubnetId") {
			if z := c.prop(subnet, "AvailabilityZone"); z.Kind() != template.Null {
				name = zoneName(z)
			}
		}
		z := zone{c.envOf(i), name}
		if at[z] == nil {
			at[z] = &usage{limit: "vpc.nat-per-az", rule: &rulePlace, node: -1, stack: -1, env: z.env, whole: true, what: "in " + name}
		}
		at[z].add(c, i, c.one(i))
	}
	for _, z := range slices.SortedFunc(maps.Keys(at), func(a, b zone) int {
		if k := compareEnv(a.env, b.env); k != 0 {
			return k
		}
		return strings.Compare(a.name, b.name)
	}) {
		c.usages = append(c.usages, *at[z])
	}
}

// zoneName is a zone's name, or "zone 0" for the first that Fn::GetAZs lists.
func zoneName(p propValue) string {
	if s, ok := p.text(); ok {
		return s
	}
	if sel, ok := p.Node.Get("Fn::Select"); ok && sel.Kind() == template.List && sel.Len() == 2 {
		if _, ok := sel.At(1).Get("Fn::GetAZs"); ok {
			if i, ok := sel.At(0).Scalar(); ok {
				return "zone " + i
			}
		}
	}
	return "a zone that no template says"
}
