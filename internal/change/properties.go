package change

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"cellwall.dev/cellwall/internal/template"
)

//go:embed properties.json
var propertiesJSON []byte

// resourceType is what is known of a type of resources; scripts/create-only.py says where from.
type resourceType struct {
	Is      []string `json:"is"`
	Replace []string `json:"replace"`
	May     []string `json:"may"`
	Fixed   []string `json:"fixed"`
}

// properties is the generated table, by resource type.
var properties = sync.OnceValue(func() map[string]resourceType {
	var file struct {
		Types map[string]resourceType `json:"types"`
	}
	if err := json.Unmarshal(propertiesJSON, &file); err != nil {
		panic("the generated table of properties is broken: " + err.Error()) // it is part of the program
	}
	return file.Types
})

// effect is what a change of one property does to a resource of a type. The path leads to the value that
// changes; from and to are that value, nil where there is none.
func effect(table map[string]resourceType, typ string, path []string, from, to *template.Node) Kind {
	t, known := table[typ]
	if !known || len(path) == 0 || !slices.Contains(t.Is, path[0]) {
		return MayReplace
	}
	kind := Changed
	raise := func(k Kind) {
		if k.rank() > kind.rank() {
			kind = k
		}
	}
	for _, p := range t.Replace {
		raise(touches(strings.Split(p, "/"), path, from, to, Replaced))
	}
	for _, p := range t.May {
		raise(touches(strings.Split(p, "/"), path, from, to, MayReplace))
	}
	return kind
}

// touches says whether a change at path is one of the property: whole when it is, MayReplace when that
// depends on a value that is not known, Changed when it is not.
func touches(property, path []string, from, to *template.Node, whole Kind) Kind {
	for i := range min(len(property), len(path)) {
		if property[i] != path[i] && property[i] != "*" {
			return Changed
		}
	}
	if len(path) >= len(property) {
		return whole
	}
	rest, kind := property[len(path):], Changed
	for _, n := range []*template.Node{from, to} {
		if n == nil {
			continue
		}
		switch has(*n, rest) {
		case Replaced:
			return whole
		case MayReplace:
			kind = MayReplace
		}
	}
	return kind
}

// has says whether a value has something at a path: Replaced when it has, MayReplace when an intrinsic
// function stands before its end, Changed when it has not.
func has(n template.Node, path []string) Kind {
	switch {
	case len(path) == 0:
		return Replaced
	case isCall(n):
		return MayReplace
	case path[0] == "*" && n.Kind() == template.List:
		best := Changed
		for i := range n.Len() {
			if k := has(n.At(i), path[1:]); k.rank() > best.rank() {
				best = k
			}
		}
		return best
	}
	v, ok := n.Get(path[0])
	if !ok {
		return Changed
	}
	return has(v, path[1:])
}

// typeGroup is an Auto Scaling group, which is replaced for some properties when its update policy says so.
const typeGroup = "AWS::AutoScaling::AutoScalingGroup"

// decided settles what a change may do where the template says what it does: whether a group is replaced
// for its launch template or subnets is in its update policy (CloudFormation template reference, UpdatePolicy
// attribute, AutoScalingReplacingUpdate).
func decided(r *template.Resource, kind Kind, path []string) Kind {
	if kind != MayReplace || r.Type != typeGroup || len(path) == 0 || !slices.Contains(properties()[typeGroup].May, path[0]) {
		return kind
	}
	policy, _ := r.UpdatePolicy.Get("AutoScalingReplacingUpdate")
	will, ok := policy.Get("WillReplace")
	switch text, known := will.Scalar(); {
	case !ok || known && text == "false":
		return Changed
	case known && text == "true":
		return Replaced
	}
	return MayReplace
}

// naming is the property that gives a resource its physical name, for the types that have one which must be
// unique in its account and region, or, for buckets and roles, further than that.
var naming = map[string]string{
	"AWS::ApiGatewayV2::VpcLink":                "Name",
	typeGroup:                                   "AutoScalingGroupName",
	"AWS::CloudWatch::Alarm":                    "AlarmName",
	"AWS::CloudWatch::CompositeAlarm":           "AlarmName",
	"AWS::CloudWatch::Dashboard":                "DashboardName",
	"AWS::CloudWatch::InsightRule":              "RuleName",
	"AWS::DynamoDB::GlobalTable":                "TableName",
	"AWS::DynamoDB::Table":                      "TableName",
	"AWS::EC2::LaunchTemplate":                  "LaunchTemplateName",
	"AWS::ElasticLoadBalancingV2::LoadBalancer": "Name",
	"AWS::ElasticLoadBalancingV2::TargetGroup":  "Name",
	"AWS::Events::EventBus":                     "Name",
	"AWS::Events::Rule":                         "Name",
	"AWS::IAM::InstanceProfile":                 "InstanceProfileName",
	"AWS::IAM::ManagedPolicy":                   "ManagedPolicyName",
	"AWS::IAM::Role":                            "RoleName",
	"AWS::KMS::Alias":                           "AliasName",
	typeFunction:                                "FunctionName",
	"AWS::Logs::LogGroup":                       "LogGroupName",
	"AWS::S3::Bucket":                           "BucketName",
	"AWS::SNS::Topic":                           "TopicName",
	"AWS::SQS::Queue":                           "QueueName",
	typeParameter:                               "Name",
	"AWS::Scheduler::Schedule":                  "Name",
	"AWS::SecretsManager::Secret":               "Name",
	"AWS::StepFunctions::StateMachine":          "StateMachineName",
}

// keepsData are the types whose deletion takes data with it that nobody has elsewhere.
var keepsData = []string{
	"AWS::DynamoDB::GlobalTable", "AWS::DynamoDB::Table", "AWS::EC2::Volume", "AWS::EFS::FileSystem", "AWS::KMS::Key",
	"AWS::KMS::ReplicaKey", "AWS::Kinesis::Stream", "AWS::OpenSearchService::Domain", "AWS::RDS::DBCluster",
	"AWS::RDS::DBInstance", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SecretsManager::Secret",
}

// stateful says whether a resource keeps data: its type does, or somebody had it kept when its stack goes. A key
// that somebody had deleted with its stack, in so many words, is none: nothing that lasts is encrypted by it.
func stateful(r *template.Resource) bool {
	if strings.HasPrefix(r.Type, "AWS::KMS::") && r.DeletionPolicy == "Delete" {
		return false
	}
	return slices.Contains(keepsData, r.Type) || retained(r.DeletionPolicy)
}

// retained says whether a policy leaves the resource where it is.
func retained(policy string) bool { return policy == "Retain" || policy == "RetainExceptOnCreate" }
