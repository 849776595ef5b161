package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// want is one finding that a case must have. Every finding at or above warning that the rules of limits and pools
// make must be among the case's.
type want struct {
	rule, level, message string
}

// realCase is something that happened to somebody, as the smallest templates in which it happens again.
type realCase struct {
	name  string
	make  func(s stackSet)
	opt   audit.Options
	wants []want
}

// getatt is an attribute of a resource.
func getatt(id, attr string) object { return object{"Fn::GetAtt": []any{id, attr}} }
func ref(id string) object          { return object{"Ref": id} }

// export lets other stacks of a case import what a resource is.
func (s stackSet) export(stack, name string, value any) {
	s.section(stack, "Outputs")[strings.ReplaceAll(name, "-", "")] = object{"Value": value, "Export": object{"Name": name}}
}

func imported(name string) object { return object{"Fn::ImportValue": name} }

// oneALB puts a load balancer with a listener into a stack.
func oneALB(s stackSet, stack string) {
	s.put(stack, "Alb", "AWS::ElasticLoadBalancingV2::LoadBalancer", object{"Name": "edge"})
	s.put(stack, "Http", "AWS::ElasticLoadBalancingV2::Listener", object{"LoadBalancerArn": ref("Alb"),
		"DefaultActions": []any{object{"Type": "fixed-response", "FixedResponseConfig": object{"StatusCode": "404"}}}})
}

func forward(id string) []any { return []any{object{"Type": "forward", "TargetGroupArn": ref(id)}} }

var realCases = []realCase{
	{"101 target groups on one ALB", func(s stackSet) {
		oneALB(s, "edge")
		for i := range 101 { // four rules a page of groups: the rules are few, the groups are not
			s.put("edge", fmt.Sprintf("T%03d", i), "AWS::ElasticLoadBalancingV2::TargetGroup", object{})
		}
		for i := range 26 {
			var groups []any
			for j := i * 4; j < min(i*4+4, 101); j++ {
				groups = append(groups, object{"TargetGroupArn": ref(fmt.Sprintf("T%03d", j)), "Weight": 1})
			}
			s.put("edge", fmt.Sprintf("R%02d", i), "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": ref("Http"), "Priority": i + 1,
				"Conditions": []any{object{"Field": "path-pattern", "Values": []any{fmt.Sprintf("/%d/*", i)}}},
				"Actions":    []any{object{"Type": "forward", "ForwardConfig": object{"TargetGroups": groups}}}})
		}
	}, audit.Options{}, slices.Concat([]want{
		{"QT001", "fatal", `101 of 100 at most: target groups per ALB, of "edge"; a deployment fails with "TooManyUniqueTargetGroupsPerLoadBalancer"`},
	}, repeat(25, func(i int) want {
		return want{"QT003", "warning", fmt.Sprintf(`4 of 5 at most: target groups per action, of "R%02d"`, i)}
	}))},

	{"one rule and group per tenant", func(s stackSet) {
		oneALB(s, "edge")
		s.export("edge", "listener", ref("Http"))
		for i := range 101 {
			st := fmt.Sprintf("tenant-%03d", i)
			s.put(st, "Targets", "AWS::ElasticLoadBalancingV2::TargetGroup", object{})
			s.put(st, "Rule", "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": imported("listener"), "Priority": i + 1,
				"Conditions": []any{object{"Field": "host-header", "HostHeaderConfig": object{"Values": []any{st + ".example.com"}}}},
				"Actions":    forward("Targets")})
		}
	}, audit.Options{}, []want{
		{"QT001", "fatal", `101 of 100 at most: target groups per ALB, of "edge" (tenant-000: 1 + tenant-001: 1 + tenant-002: 1 + tenant-003: 1 + tenant-004: 1 + tenant-005: 1 + tenant-006: 1 + tenant-007: 1 + 93 of 93 more); a deployment fails with "TooManyUniqueTargetGroupsPerLoadBalancer"`},
		{"QT003", "error", `101 of 100 at most: rules per ALB, default rules excluded, of "edge" (tenant-000: 1 + tenant-001: 1 + tenant-002: 1 + tenant-003: 1 + tenant-004: 1 + tenant-005: 1 + tenant-006: 1 + tenant-007: 1 + 93 of 93 more); a deployment fails with "TooManyRules"`},
	}},

	{"33 rules with every node in each group", func(s stackSet) {
		oneALB(s, "nodes")
		var groups []any
		for i := range 33 {
			id := fmt.Sprintf("T%02d", i)
			s.put("nodes", id, "AWS::ElasticLoadBalancingV2::TargetGroup", object{})
			s.put("nodes", "R"+id, "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": ref("Http"), "Priority": i + 1, "Actions": forward(id),
				"Conditions": []any{object{"Field": "path-pattern", "Values": []any{fmt.Sprintf("/%d/*", i)}}}})
			groups = append(groups, ref(id))
		}
		s.put("nodes", "Nodes", "AWS::AutoScaling::AutoScalingGroup", object{"MinSize": "3", "MaxSize": "31", "TargetGroupARNs": groups})
	}, audit.Options{}, []want{
		{"QT003", "error", `1023 of 1000 at most: targets per ALB, of "edge"; a deployment fails with "TooManyTargets"`},
	}},

	{"six values in one rule condition", func(s stackSet) {
		oneALB(s, "edge")
		s.put("edge", "T", "AWS::ElasticLoadBalancingV2::TargetGroup", object{})
		s.put("edge", "R", "AWS::ElasticLoadBalancingV2::ListenerRule", object{"ListenerArn": ref("Http"), "Priority": 1, "Actions": forward("T"),
			"Conditions": []any{object{"Field": "host-header", "HostHeaderConfig": object{"Values": []any{"a.example.com", "b.example.com", "c.example.com", "d.example.com", "e.example.com", "f.example.com"}}}}})
	}, audit.Options{}, []want{
		{"QT003", "fatal", `6 of 5 at most: condition values per rule, of "R"`},
	}},

	{"a reservation of 10 in an account whose limit is 10", func(s stackSet) {
		s.put("jobs", "Worker", "AWS::Lambda::Function", object{"ReservedConcurrentExecutions": 10})
	}, audit.Options{Concurrency: map[string]int{"111111111111": 10}}, []want{
		{"QT002", "error", "1 function reserves 10 (outside of cells: 10) of 0 in account 111111111111, eu-west-1: 10 concurrent executions less the 10 that Lambda keeps free; left -10"},
	}},

	{"reservations that starve another stack's functions", func(s stackSet) {
		for i := range 9 {
			s.put("orders", fmt.Sprint("Worker", i), "AWS::Lambda::Function", object{"ReservedConcurrentExecutions": 100})
		}
		s.put("billing", "Nightly", "AWS::Lambda::Function", object{})
		s.put("billing", "Invoice", "AWS::Lambda::Function", object{})
	}, audit.Options{}, []want{
		{"QT002", "warning", "9 functions reserve 900 (outside of cells: 900) of 900 in account 111111111111, eu-west-1: 1000 concurrent executions less the 100 that Lambda keeps free; left 0"},
		{"PL001", "warning", "2 functions without a reservation (billing: 2) share 100 concurrent executions of account 111111111111, eu-west-1: 1000 − 900 reserved (AWS's default; new accounts start lower (10 and 50 both reported). Live: lambda:GetAccountSettings ConcurrentExecutions / UnreservedConcurrentExecutions)"},
	}},

	{"50 rules granting one function", func(s stackSet) {
		s.put("events", "Handler", "AWS::Lambda::Function", object{"FunctionName": "order-events-handler"})
		for i := range 50 {
			id := fmt.Sprintf("CustomerLifecycleEventRule%02d", i)
			s.put("events", id, "AWS::Events::Rule", object{"Name": fmt.Sprintf("customer-lifecycle-event-subscription-%02d-of-the-order-service", i),
				"EventPattern": object{"source": []any{fmt.Sprint("customer.", i)}}, "Targets": []any{object{"Id": "1", "Arn": getatt("Handler", "Arn")}}})
			s.put("events", id+"AllowEventRuleEventsHandler0A1B2C3D", "AWS::Lambda::Permission", object{"Action": "lambda:InvokeFunction", "Principal": "events.amazonaws.com",
				"FunctionName": getatt("Handler", "Arn"), "SourceArn": getatt(id, "Arn")})
		}
	}, audit.Options{}, []want{
		{"QT005", "fatal", `21103 to 21153 of 20480 bytes at most: resource-based policy size`},
	}},

	{"a role shared by 38 data shares", func(s stackSet) {
		s.put("lake", "Reader", "AWS::IAM::Role", object{"RoleName": "lake-reader", "AssumeRolePolicyDocument": object{"Version": "2012-10-17", "Statement": []any{
			object{"Effect": "Allow", "Principal": object{"Service": "glue.amazonaws.com"}, "Action": "sts:AssumeRole"}}}})
		var of []any
		for i := range 38 {
			bucket := fmt.Sprintf("company-data-lake-producer-team-%02d-published-datasets-eu-west-1", i)
			of = append(of, "arn:aws:s3:::"+bucket, "arn:aws:s3:::"+bucket+"/curated/*")
		}
		s.put("lake", "Shares", "AWS::IAM::ManagedPolicy", object{"Roles": []any{ref("Reader")}, "PolicyDocument": object{"Version": "2012-10-17",
			"Statement": []any{object{"Effect": "Allow", "Action": []any{"s3:GetObject", "s3:ListBucket"}, "Resource": of}}}})
	}, audit.Options{}, []want{
		{"QT005", "fatal", `6496 of 6144 chars without whitespace at most: managed policy size, of "Shares"; a deployment fails with "Cannot exceed quota for PolicySize: 6144"`},
	}},

	{"the fourth cell adds rules to one group", func(s stackSet) {
		s.put("shared-network", "Ingress", "AWS::EC2::SecurityGroup", object{"GroupName": "partners", "SecurityGroupIngress": []any{object{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "192.0.2.1/32"}}})
		s.export("shared-network", "partners", getatt("Ingress", "GroupId"))
		for cell := range 4 {
			for i := range 15 {
				s.put(fmt.Sprintf("orders-c%d-core", cell+1), fmt.Sprintf("Partner%02d", i), "AWS::EC2::SecurityGroupIngress", object{"GroupId": imported("partners"), "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
					"CidrIp": fmt.Sprintf("198.51.%d.%d/32", cell, i)})
			}
		}
	}, audit.Options{}, []want{
		{"QT004", "error", `61 of 60 at most: inbound or outbound rules per security group, ingress over IPv4, of "partners" (orders-c1: 15 + orders-c2: 15 + orders-c3: 15 + orders-c4: 15 + shared-network: 1); a deployment fails with "RulesPerSecurityGroupLimitExceeded"`},
	}},

	{"eleven services each making a log resource policy", func(s stackSet) {
		for i := range 11 {
			st := fmt.Sprintf("service-%02d", i)
			group := s.put(st, "Slow", "AWS::Logs::LogGroup", object{"LogGroupName": st + "/search-slow-logs"})
			_ = group
			s.put(st, "Policy", "AWS::Logs::ResourcePolicy", object{"PolicyName": st, "PolicyDocument": object{"Fn::Sub": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"es.amazonaws.com"},"Action":"logs:PutLogEvents","Resource":"${Slow.Arn}"}]}`}})
		}
	}, audit.Options{}, []want{
		{"QT007", "fatal", `11 of 10 at most: resource policies per Region, account 111111111111, eu-west-1 (service-00: 1 + service-01: 1 + service-02: 1 + service-03: 1 + service-04: 1 + service-05: 1 + service-06: 1 + service-07: 1 + 3 of 3 more); a deployment fails with "LimitExceededException: Resource limit exceeded"`},
	}},

	{"a NAT per zone per cell against five EIPs", func(s stackSet) {
		for _, cell := range []string{"eu-1", "eu-2"} {
			for _, zone := range []string{"a", "b", "c"} {
				st := "orders-" + cell + "-core"
				s.put(st, "Subnet"+zone, "AWS::EC2::Subnet", object{"AvailabilityZone": "eu-west-1" + zone, "CidrBlock": "10.0.0.0/24"})
				s.put(st, "Ip"+zone, "AWS::EC2::EIP", object{"Domain": "vpc"})
				s.put(st, "Nat"+zone, "AWS::EC2::NatGateway", object{"SubnetId": ref("Subnet" + zone), "AllocationId": getatt("Ip"+zone, "AllocationId")})
			}
		}
	}, audit.Options{}, []want{
		{"QT007", "error", `6 of 5 at most: elastic IP addresses per Region, account 111111111111, eu-west-1 (orders-eu-1: 3 + orders-eu-2: 3); a deployment fails with "AddressLimitExceeded"`},
		{"PL008", "error", `2 cells (orders-eu-1: 3 + orders-eu-2: 3) take 6 of 5 of account 111111111111, eu-west-1: elastic IP addresses per Region (AWS's default)`},
	}},

	{"three CloudFront policies per tenant", func(s stackSet) {
		for i := range 21 {
			st := fmt.Sprintf("tenant-%02d", i)
			s.put(st, "Cache", "AWS::CloudFront::CachePolicy", object{"CachePolicyConfig": object{"Name": st}})
			s.put(st, "Origin", "AWS::CloudFront::OriginRequestPolicy", object{"OriginRequestPolicyConfig": object{"Name": st}})
			s.put(st, "Headers", "AWS::CloudFront::ResponseHeadersPolicy", object{"ResponseHeadersPolicyConfig": object{"Name": st}})
		}
	}, audit.Options{}, []want{
		{"QT007", "error", `21 of 20 at most: custom cache policies per account, account 111111111111`},
		{"QT007", "error", `21 of 20 at most: custom origin request policies per account, account 111111111111`},
		{"QT007", "review", `21 of 20 at most: custom response headers policies per account, account 111111111111`},
	}},

	{"SSM pacing per pool against the account's 40 per second", func(s stackSet) {
		for i := range 6 {
			s.put(fmt.Sprintf("pool-%d", i), "Poller", "AWS::Lambda::Function", object{"Environment": object{"Variables": object{"SSM_MAX_TPS": "10"}}, "ReservedConcurrentExecutions": 1})
		}
	}, audit.Options{}, []want{
		{"PL003", "warning", `60 requests/s (pool-0: 10 + pool-1: 10 + pool-2: 10 + pool-3: 10 + pool-4: 10 + pool-5: 10) are said to be drawn from 40 requests/s of account 111111111111, eu-west-1: GetParameter(s)/ByPath shared default throughput`},
	}},
}

func repeat(n int, f func(i int) want) []want {
	var out []want
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

// TestRealCases holds that each case has exactly the findings about limits and pools that it should have.
func TestRealCases(t *testing.T) {
	for _, c := range realCases {
		t.Run(c.name, func(t *testing.T) {
			s := stackSet{}
			c.make(s)
			r := audit.Run(s.load(t), c.opt)
			left := slices.Clone(c.wants)
			for _, f := range r.Findings {
				if !strings.HasPrefix(f.Rule, "QT") && !strings.HasPrefix(f.Rule, "PL") {
					continue
				}
				i := slices.IndexFunc(left, func(w want) bool {
					return w.rule == f.Rule && w.level == f.Level.String() && strings.HasPrefix(f.Message, w.message)
				})
				if i < 0 {
					t.Errorf("%s %s %s", f.Level, f.Rule, f.Message)
					continue
				}
				left = slices.Delete(left, i, i+1)
				if f.Fix == "" {
					t.Errorf("%s has no fix", f.Rule)
				}
			}
			for _, w := range left {
				t.Errorf("not found: %s %s %s", w.level, w.rule, w.message)
			}
		})
	}
}
