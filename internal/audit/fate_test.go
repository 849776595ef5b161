package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/audit"
)

// TestFate draws a situation for each clause of the package comment, in one stack, and names all that is
// shared in it. A resource whose id begins with s1 to s3 is that shard's, any other is nobody's.
func TestFate(t *testing.T) {
	ref := func(id string) object { return object{"Ref": id} }
	att := func(id string) object { return object{"Fn::GetAtt": []any{id, "Arn"}} }
	forward := func(ids ...string) []any {
		var out []any
		for _, id := range ids {
			out = append(out, object{"TargetGroupArn": ref(id)})
		}
		return out
	}
	allow := func(ids ...string) object {
		var out []any
		for _, id := range ids {
			out = append(out, att(id))
		}
		return object{"Statement": []any{object{"Effect": "Allow", "Resource": out}}}
	}
	const (
		lb       = "AWS::ElasticLoadBalancingV2::LoadBalancer"
		listener = "AWS::ElasticLoadBalancingV2::Listener"
		rule     = "AWS::ElasticLoadBalancingV2::ListenerRule"
		targets  = "AWS::ElasticLoadBalancingV2::TargetGroup"
		asg      = "AWS::AutoScaling::AutoScalingGroup"
		function = "AWS::Lambda::Function"
		table    = "AWS::DynamoDB::Table"
		queue    = "AWS::SQS::Queue"
		group    = "AWS::EC2::SecurityGroup"
	)
	type resource struct {
		id, typ    string
		properties object
	}
	for _, c := range []struct {
		name      string
		resources []resource
		want      []string
	}{
		{"a role of nobody's that may use each shard's table", []resource{
			{"s1table", table, nil}, {"s2table", table, nil},
			{"role", "AWS::IAM::Role", object{"Policies": []any{object{"PolicyDocument": allow("s1table", "s2table")}}}},
			{"s1fn", function, object{"Role": att("role")}}, {"s2fn", function, object{"Role": att("role")}},
		}, []string{"role by s1 s2"}},
		{"a shard's role that may use another shard's table", []resource{
			{"s1table", table, nil},
			{"s2role", "AWS::IAM::Role", object{"Policies": []any{object{"PolicyDocument": allow("s1table")}}}},
		}, []string{"s1table by s1 s2"}},
		{"who may come in is no need", []resource{
			{"router", "AWS::IAM::Role", nil},
			{"s1queue", queue, nil}, {"s2queue", queue, nil},
			{"s1let", "AWS::SQS::QueuePolicy", object{"Queues": []any{ref("s1queue")}, "PolicyDocument": object{"Statement": []any{object{"Principal": object{"AWS": att("router")}}}}}},
			{"s2let", "AWS::SQS::QueuePolicy", object{"Queues": []any{ref("s2queue")}, "PolicyDocument": object{"Statement": []any{object{"Principal": object{"AWS": att("router")}}}}}},
		}, []string{"router by s1 s2 (info)"}},
		{"load balancer, listener, rules and target groups are nobody's, the instances the shards'", []resource{
			{"alb", lb, nil}, {"http", listener, object{"LoadBalancerArn": ref("alb"), "DefaultActions": forward("tg1")}},
			{"tg1", targets, nil}, {"tg2", targets, nil}, {"tg3", targets, nil},
			{"rule2", rule, object{"ListenerArn": ref("http"), "Actions": forward("tg2")}},
			{"s1asg", asg, object{"TargetGroupARNs": []any{ref("tg1")}}}, {"s2asg", asg, object{"TargetGroupARNs": []any{ref("tg2")}}}, {"s3asg", asg, object{"TargetGroupARNs": []any{ref("tg3")}}},
		}, []string{"alb by s1 s2", "http by s1 s2 (info)"}},
		{"instances of nobody's behind each shard's target group", []resource{
			{"s1tg", targets, nil}, {"s2tg", targets, nil},
			{"asg", asg, object{"TargetGroupARNs": []any{ref("s1tg"), ref("s2tg")}}},
		}, []string{"asg by s1 s2"}},
		{"a shared listener that names each shard's target group", []resource{
			{"alb", lb, nil}, {"http", listener, object{"LoadBalancerArn": ref("alb"), "DefaultActions": forward("s1tg", "s2tg")}},
			{"s1tg", targets, nil}, {"s2tg", targets, nil}, {"s3tg", targets, nil},
		}, []string{"alb by s1 s2", "http by s1 s2 (info)"}},
		{"a shard's listener that forwards to another shard's targets", []resource{
			{"s1alb", lb, nil}, {"s1http", listener, object{"LoadBalancerArn": ref("s1alb"), "DefaultActions": forward("s2tg")}},
			{"s2tg", targets, nil},
		}, []string{"s1alb by s1 s2", "s1http by s1 s2 (info)", "s2tg by s1 s2"}},
		{"a queue that feeds another shard's function", []resource{
			{"s1queue", queue, nil}, {"s2fn", function, nil},
			{"source", "AWS::Lambda::EventSourceMapping", object{"EventSourceArn": att("s1queue"), "FunctionName": ref("s2fn")}},
		}, []string{"s1queue by s1 s2", "s2fn by s1 s2", "source by s1 s2 (info)"}},
		{"a pipe from one shard to another", []resource{
			{"s1queue", queue, nil}, {"s2fn", function, nil},
			{"pipe", "AWS::Pipes::Pipe", object{"Source": att("s1queue"), "Target": att("s2fn")}},
		}, []string{"pipe by s1 s2", "s1queue by s1 s2", "s2fn by s1 s2"}},
		{"a security group that lets each shard in", []resource{
			{"group", group, object{"SecurityGroupIngress": []any{object{"SourceSecurityGroupId": ref("s1group")}, object{"SourceSecurityGroupId": ref("s2group")}}}},
			{"s1group", group, nil}, {"s2group", group, nil},
		}, []string{"group by s1 s2"}},
		{"a shared dead-letter queue", []resource{
			{"dead", queue, nil},
			{"s1queue", queue, object{"RedrivePolicy": object{"deadLetterTargetArn": att("dead")}}}, {"s3queue", queue, object{"RedrivePolicy": object{"deadLetterTargetArn": att("dead")}}},
		}, []string{"dead by s1 s3"}},
		{"a managed policy of nobody's at each shard's role", []resource{
			{"s1role", "AWS::IAM::Role", nil}, {"s2role", "AWS::IAM::Role", nil}, {"shared", table, nil},
			{"policy", "AWS::IAM::ManagedPolicy", object{"Roles": []any{ref("s1role"), ref("s2role")}, "PolicyDocument": allow("shared")}},
		}, []string{"policy by s1 s2", "shared by s1 s2"}},
		{"an inline policy joins the role's shard", []resource{
			{"s1role", "AWS::IAM::Role", nil}, {"s2role", "AWS::IAM::Role", nil}, {"s2table", table, nil},
			{"policy", "AWS::IAM::Policy", object{"Roles": []any{ref("s1role")}, "PolicyDocument": allow("s2table")}},
		}, []string{"s2table by s1 s2"}},
		{"versions and aliases of each shard's own function", []resource{
			{"s1fn", function, nil}, {"s2fn", function, nil},
			{"v1", "AWS::Lambda::Version", object{"FunctionName": ref("s1fn")}}, {"v2", "AWS::Lambda::Version", object{"FunctionName": ref("s2fn")}},
			{"live1", "AWS::Lambda::Alias", object{"FunctionName": ref("s1fn"), "FunctionVersion": object{"Fn::GetAtt": []any{"v1", "Version"}}}},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stackSet{}
			for _, sh := range []string{"s1", "s2", "s3"} {
				s.put("all", sh+"own", queue, object{"Tags": fateTags(sh)})
			}
			for _, r := range c.resources {
				p := object{}
				for k, v := range r.properties {
					p[k] = v
				}
				if sh := r.id[:min(2, len(r.id))]; slices.Contains([]string{"s1", "s2", "s3"}, sh) {
					p["Tags"] = fateTags(sh)
				}
				s.put("all", r.id, r.typ, p)
			}
			var got []string
			for _, f := range s.run(t).Findings {
				line := fmt.Sprintf("%s by %s", f.Resource.LogicalID, strings.Join(shardIDs(f), " "))
				if f.Level == audit.Info {
					line += " (info)"
				}
				got = append(got, line)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("shared:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

func fateTags(shard string) []object {
	return []object{{"Key": "cellwall:cell", "Value": "c"}, {"Key": "cellwall:shard", "Value": shard}}
}
