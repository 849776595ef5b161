package audit

import "slices"

// tie is what a property's references mean for fate. See the package comment, "Fate".
type tie uint8

const (
	tieReference tie = iota
	tieServed        // attachment: what is named is served by the resource that names it
	tieServes        // attachment: what is named serves the resource that names it
	tieGrant
	tieWeak
)

// attachment is one place in a resource type where an attachment stands: below the property first, and
// through a key named through when that is not "".
type attachment struct {
	first, through string
	tie            tie
}

var attachments = map[string][]attachment{
	typeListener:     {{"DefaultActions", "TargetGroupArn", tieServed}},
	typeListenerRule: {{"Actions", "TargetGroupArn", tieServed}},
	typeTargetGroup:  {{"Targets", "", tieServes}},
	typeGroup:        {{"TargetGroupARNs", "", tieServes}, {"LoadBalancerNames", "", tieServes}},
	"AWS::ElasticLoadBalancing::LoadBalancer": {{"Instances", "", tieServed}},
	"AWS::ECS::Service":                       {{"LoadBalancers", "", tieServes}, {"ServiceRegistries", "", tieServes}},
	"AWS::Lambda::EventSourceMapping":         {{"FunctionName", "", tieServed}, {"EventSourceArn", "", tieServes}},
	"AWS::Lambda::Permission":                 {{"FunctionName", "", tieServed}},
	"AWS::Pipes::Pipe":                        {{"Source", "", tieServes}, {"Target", "", tieServed}},
	"AWS::SNS::Subscription":                  {{"Endpoint", "", tieServed}},
	"AWS::Events::Rule":                       {{"Targets", "Arn", tieServed}},
	"AWS::Scheduler::Schedule":                {{"Target", "Arn", tieServed}},
	"AWS::S3::Bucket":                         {{"NotificationConfiguration", "", tieServed}},
	"AWS::ApiGateway::Method":                 {{"Integration", "Uri", tieServed}},
	// an API written as an OpenAPI document holds its integrations itself
	"AWS::ApiGateway::RestApi":              {{"Body", "uri", tieServed}},
	"AWS::ApiGatewayV2::Api":                {{"Body", "uri", tieServed}, {"Target", "", tieServed}},
	"AWS::Serverless::Api":                  {{"DefinitionBody", "uri", tieServed}},
	"AWS::Serverless::HttpApi":              {{"DefinitionBody", "uri", tieServed}},
	"AWS::SNS::Topic":                       {{"Subscription", "Endpoint", tieServed}},
	"AWS::AppSync::DataSource":              {{"LambdaConfig", "", tieServed}, {"DynamoDBConfig", "", tieServed}, {"HttpConfig", "", tieServed}},
	"AWS::ApiGatewayV2::Integration":        {{"IntegrationUri", "", tieServed}},
	"AWS::CloudFront::Distribution":         {{"DistributionConfig", "Origins", tieServed}},
	"AWS::GlobalAccelerator::EndpointGroup": {{"EndpointConfigurations", "", tieServed}},
	"AWS::IAM::Policy":                      {{"Roles", "", tieServed}, {"Users", "", tieServed}, {"Groups", "", tieServed}},
	"AWS::IAM::RolePolicy":                  {{"RoleName", "", tieServed}},
	"AWS::IAM::ManagedPolicy":               {{"Roles", "", tieServed}, {"Users", "", tieServed}, {"Groups", "", tieServed}},
	"AWS::SQS::QueuePolicy":                 {{"Queues", "", tieServed}},
	"AWS::S3::BucketPolicy":                 {{"Bucket", "", tieServed}},
	"AWS::SNS::TopicPolicy":                 {{"Topics", "", tieServed}},
	"AWS::Route53::RecordSet":               {{"AliasTarget", "DNSName", tieServed}, {"AliasTarget", "HostedZoneId", tieServed}, {"ResourceRecords", "", tieServed}},
	"AWS::EC2::SecurityGroupIngress":        {{"GroupId", "", tieServed}, {"SourceSecurityGroupId", "", tieServes}},
	"AWS::EC2::SecurityGroupEgress":         {{"GroupId", "", tieServed}, {"DestinationSecurityGroupId", "", tieServes}},
	"AWS::EC2::SecurityGroup":               {{"SecurityGroupIngress", "", tieServes}, {"SecurityGroupEgress", "", tieServes}},
	"AWS::WAFv2::WebACLAssociation":         {{"ResourceArn", "", tieServed}},
	"AWS::AutoScaling::ScalingPolicy":       {{"AutoScalingGroupName", "", tieServed}},
}

// joints are types that are nothing by themselves: one that attaches to a single shard's resources is
// that shard's. The value says that what it joins depends on each other through it, as a function and
// the queue that it is fed from.
var joints = map[string]bool{
	typeListenerRule:                  false,
	"AWS::Lambda::EventSourceMapping": true,
	"AWS::Pipes::Pipe":                true,
	"AWS::Lambda::Permission":         false,
	"AWS::SNS::Subscription":          false,
	"AWS::Events::Rule":               false,
	"AWS::Scheduler::Schedule":        false,
	"AWS::ApiGateway::Method":         false,
	"AWS::ApiGatewayV2::Integration":  false,
	"AWS::AppSync::DataSource":        false,
	"AWS::IAM::Policy":                false,
	"AWS::IAM::RolePolicy":            false,
	"AWS::SQS::QueuePolicy":           false,
	"AWS::S3::BucketPolicy":           false,
	"AWS::SNS::TopicPolicy":           false,
	"AWS::Route53::RecordSet":         false,
	"AWS::EC2::SecurityGroupIngress":  false,
	"AWS::EC2::SecurityGroupEgress":   false,
	"AWS::WAFv2::WebACLAssociation":   false,
	"AWS::AutoScaling::ScalingPolicy": false,
}

// tieOf is what a reference at path in a resource of type typ means.
func tieOf(typ string, path []string) tie {
	if traitsOf(typ).observer {
		return tieWeak
	}
	if i := slices.Index(path, "Statement"); i >= 0 {
		for _, key := range path[i+1:] {
			// who may come in, and under which condition, is no need of the resource that lets them in
			if key == "Principal" || key == "NotPrincipal" || key == "Condition" {
				return tieWeak
			}
		}
		return tieGrant
	}
	if len(path) == 0 {
		return tieReference
	}
	for _, a := range attachments[typ] {
		if a.first == path[0] && (a.through == "" || slices.Contains(path[1:], a.through)) {
			return a.tie
		}
	}
	return tieReference
}
