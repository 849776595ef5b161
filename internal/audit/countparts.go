package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/template"
)

func compareEnv(a, b env) int {
	return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.region, b.region))
}

// partCount is a limit of one resource on resources that name it.
type partCount struct {
	limit  string
	typ    string // of the parts
	parent string // property that names the whole
	// counts says which of them count, for whole or within it; nil is all. what names the part of the limit.
	counts func(c *counter, part, whole int32) (what string, ok bool)
}

func ofType(typ string, network bool) func(*counter, int32, int32) (string, bool) {
	return func(c *counter, _, whole int32) (string, bool) {
		return "", c.nodes[whole].typ == typ && (typ != typeLoadBalancer || c.isNetwork(whole) == network)
	}
}

func where(key, value string, or bool) func(*counter, int32, int32) (string, bool) {
	return func(c *counter, part, _ int32) (string, bool) { return "", c.prop(part, key).is(value, or) }
}

var partCounts = []partCount{
	{"alb.listeners", typeListener, "LoadBalancerArn", ofType(typeLoadBalancer, false)},
	{"nlb.listeners", typeListener, "LoadBalancerArn", ofType(typeLoadBalancer, true)},
	{"asg.policies", "AWS::AutoScaling::ScalingPolicy", "AutoScalingGroupName", nil},
	{"asg.scheduled-actions", "AWS::AutoScaling::ScheduledAction", "AutoScalingGroupName", nil},
	{"asg.lifecycle-hooks", "AWS::AutoScaling::LifecycleHook", "AutoScalingGroupName", nil},
	{"apigw.http-routes", "AWS::ApiGatewayV2::Route", "ApiId", nil},
	{"apigw.http-integrations", "AWS::ApiGatewayV2::Integration", "ApiId", nil},
	{"apigw.http-authorizers", "AWS::ApiGatewayV2::Authorizer", "ApiId", nil},
	{"apigw.rest-resources", "AWS::ApiGateway::Resource", "RestApiId", nil},
	{"apigw.stages", "AWS::ApiGateway::Stage", "RestApiId", nil},
	{"apigw.stages", "AWS::ApiGatewayV2::Stage", "ApiId", nil},
	{"apigw.mappings", "AWS::ApiGatewayV2::ApiMapping", "DomainName", nil},
	{"vpc.subnets", "AWS::EC2::Subnet", "VpcId", nil},
	{"vpc.route-tables", "AWS::EC2::RouteTable", "VpcId", nil},
	{"vpc.routes", "AWS::EC2::Route", "RouteTableId", nil},
	{"vpc.nacl-rules", "AWS::EC2::NetworkAclEntry", "NetworkAclId", func(c *counter, part, _ int32) (string, bool) {
		if c.prop(part, "Egress").is("true", false) {
			return "egress", true
		}
		return "ingress", true
	}},
	{"vpc.interface-endpoints", "AWS::EC2::VPCEndpoint", "VpcId", where("VpcEndpointType", "Interface", false)},
	{"vpc.peerings", "AWS::EC2::VPCPeeringConnection", "VpcId", nil},
	{"kms.aliases", "AWS::KMS::Alias", "TargetKeyId", nil},
	{"eb.rules", "AWS::Events::Rule", "EventBusName", nil},
	{"logs.subscription-filters", "AWS::Logs::SubscriptionFilter", "LogGroupName", nil},
	{"logs.metric-filters", "AWS::Logs::MetricFilter", "LogGroupName", nil},
	{"r53.records", "AWS::Route53::RecordSet", "HostedZoneId", nil},
	{"r53.same-name", "AWS::Route53::RecordSet", "HostedZoneId", func(c *counter, part, _ int32) (string, bool) {
		name, ok1 := c.prop(part, "Name").text()
		typ, ok2 := c.prop(part, "Type").text()
		return typ + " records of " + name, ok1 && ok2 && c.prop(part, "SetIdentifier").Kind() != template.Null
	}},
	{"waf.alb-assoc", "AWS::WAFv2::WebACLAssociation", "WebACLArn", func(c *counter, part, _ int32) (string, bool) {
		return "", slices.ContainsFunc(c.named(part, "ResourceArn"), func(to int32) bool { return c.nodes[to].typ == typeLoadBalancer })
	}},
	{"sns.filter-policies-topic", "AWS::SNS::Subscription", "TopicArn", func(c *counter, part, _ int32) (string, bool) {
		return "", c.prop(part, "FilterPolicy").Kind() != template.Null
	}},
	{"cf.same-cache-policy", "AWS::CloudFront::Distribution", "DistributionConfig", ofType("AWS::CloudFront::CachePolicy", false)},
	{"iam.managed-per-role", "AWS::IAM::ManagedPolicy", "Roles", ofType("AWS::IAM::Role", false)},
}

// countParts counts the parts of each whole, over every stack that adds some.
func (c *counter) countParts() {
	type key struct {
		limit string
		whole int32
		what  string
	}
	at := map[key]*usage{}
	count := func(limit string, whole int32, what string) *usage {
		k := key{limit, whole, what}
		if at[k] == nil {
			at[k] = &usage{limit: limit, rule: ruleOfPart(limit), node: whole, stack: -1, env: c.envOf(whole), what: what}
		}
		return at[k]
	}
	buses := map[env]*usage{}
	for _, p := range partCounts {
		for _, part := range c.types[p.typ] {
			wholes := c.named(part, p.parent)
			if p.limit == "eb.rules" && c.prop(part, p.parent).is("default", true) {
				// every account has a bus of its own in each region, which no template makes
				u := c.inPlace(buses, p.limit, c.envOf(part))
				u.what = "on the default bus"
				u.add(c, part, c.one(part))
				continue
			}
			for _, whole := range wholes {
				what, ok := "", true
				if p.counts != nil {
					what, ok = p.counts(c, part, whole)
				}
				if ok {
					count(p.limit, whole, what).add(c, part, c.one(part))
				}
			}
		}
	}
	for _, role := range c.types["AWS::IAM::Role"] {
		if n := c.prop(role, "ManagedPolicyArns").length(); n.most > 0 {
			count("iam.managed-per-role", role, "").add(c, role, n)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(at), func(a, b key) int {
		return cmp.Or(strings.Compare(a.limit, b.limit), cmp.Compare(a.whole, b.whole), strings.Compare(a.what, b.what))
	}) {
		c.usages = append(c.usages, *at[k])
	}
	c.addPlaces(buses)
}

func ruleOfPart(limit string) *rule {
	if strings.HasPrefix(limit, "alb.") || strings.HasPrefix(limit, "nlb.") || strings.HasPrefix(limit, "tg.") {
		return &ruleBalancer
	}
	return &rulePart
}

// listCount is a limit of one resource on something that stands in itself.
type listCount struct {
	limit, typ string
	path       []string
	// more is added to the length of the list: a certificate has its own name beside the alternative ones.
	more int
	// counts says whether the limit holds for that resource; nil is always.
	counts func(c *counter, i int32) bool
}

var listCounts = []listCount{
	{"asg.target-groups", typeGroup, []string{"TargetGroupARNs"}, 0, nil},
	{"eb.targets", "AWS::Events::Rule", []string{"Targets"}, 0, nil},
	{"r53.zone-vpcs", "AWS::Route53::HostedZone", []string{"VPCs"}, 0, nil},
	{"r53.calculated-children", "AWS::Route53::HealthCheck", []string{"HealthCheckConfig", "ChildHealthChecks"}, 0, nil},
	{"ddb.gsis", "AWS::DynamoDB::Table", []string{"GlobalSecondaryIndexes"}, 0, nil},
	{"ddb.gsis", "AWS::DynamoDB::GlobalTable", []string{"GlobalSecondaryIndexes"}, 0, nil},
	{"ddb.lsis", "AWS::DynamoDB::Table", []string{"LocalSecondaryIndexes"}, 0, nil},
	{"lambda.layers", typeFunction, []string{"Layers"}, 0, nil},
	{"acm.domains", "AWS::CertificateManager::Certificate", []string{"SubjectAlternativeNames"}, 1, nil},
	{"cf.behaviors", "AWS::CloudFront::Distribution", []string{"DistributionConfig", "CacheBehaviors"}, 0, nil},
	{"cf.origins", "AWS::CloudFront::Distribution", []string{"DistributionConfig", "Origins"}, 0, nil},
	{"cf.origin-groups", "AWS::CloudFront::Distribution", []string{"DistributionConfig", "OriginGroups", "Items"}, 0, nil},
	{"cf.cnames", "AWS::CloudFront::Distribution", []string{"DistributionConfig", "Aliases"}, 0, nil},
	{"cw.math-metrics", "AWS::CloudWatch::Alarm", []string{"Metrics"}, 0, nil},
	{"cw.alarm-actions", "AWS::CloudWatch::Alarm", []string{"AlarmActions"}, 0, nil},
	{"vpc.sgs-per-eni", typeFunction, []string{"VpcConfig", "SecurityGroupIds"}, 0, nil},
	{"vpc.sgs-per-eni", typeLoadBalancer, []string{"SecurityGroups"}, 0, nil},
	{"vpc.sgs-per-eni", "AWS::EC2::LaunchTemplate", []string{"LaunchTemplateData", "SecurityGroupIds"}, 0, nil},
	{"vpc.sgs-per-eni", "AWS::EC2::Instance", []string{"SecurityGroupIds"}, 0, nil},
	{"fis.actions", "AWS::FIS::ExperimentTemplate", []string{"Actions"}, 0, nil},
	{"fis.stop-conditions", "AWS::FIS::ExperimentTemplate", []string{"StopConditions"}, 0, nil},
	{"tg.lambda-targets", typeTargetGroup, []string{"Targets"}, 0, func(c *counter, i int32) bool { return c.prop(i, "TargetType").is("lambda", false) }},
}

// settings are limits on a number that a property says.
var settings = []struct{ limit, typ, property string }{
	{"lambda.timeout", typeFunction, "Timeout"},
	{"sqs.retention", "AWS::SQS::Queue", "MessageRetentionPeriod"},
	{"sqs.message-size", "AWS::SQS::Queue", "MaximumMessageSize"},
}

func (c *counter) countLists() {
	add := func(limit string, i int32, n span) {
		if c.far(limit, c.envOf(i), n) {
			return
		}
		u := usage{limit: limit, rule: ruleOfPart(limit), node: i, stack: -1, env: c.envOf(i)}
		u.add(c, i, n)
		c.usages = append(c.usages, u)
	}
	for _, l := range listCounts {
		for _, i := range c.types[l.typ] {
			if l.counts != nil && !l.counts(c, i) {
				continue
			}
			p := c.prop(i, l.path...)
			n := p.length()
			if l.typ == "AWS::FIS::ExperimentTemplate" && p.Kind() == template.Map {
				n = exactly(p.Len()) // actions stand in an object by their names
			}
			if n.most >= unbounded {
				n.most = n.least // a list that only a deployment knows is no sign of too many
			}
			if n.most > 0 {
				add(l.limit, i, n.plus(exactly(l.more)))
			}
		}
	}
	for _, s := range settings {
		for _, i := range c.types[s.typ] {
			if n, ok := c.prop(i, s.property).number(); ok && !c.far(s.limit, c.envOf(i), n) {
				u := usage{limit: s.limit, rule: ruleOfPart(s.limit), node: i, stack: -1, env: c.envOf(i), setting: true}
				u.add(c, i, n)
				c.usages = append(c.usages, u)
			}
		}
	}
}
