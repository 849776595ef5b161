package awsemu_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/route53"
)

// service is a small web service in a network of its own, with a private zone. What an update shall
// change stands in capitals.
const service = `
	"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.77.0.0/16"}},
	"SubnetA":{"Type":"AWS::EC2::Subnet","Properties":{"VpcId":{"Ref":"Vpc"},"CidrBlock":"10.77.0.0/24","AvailabilityZone":"eu-west-1a"}},
	"SubnetB":{"Type":"AWS::EC2::Subnet","Properties":{"VpcId":{"Ref":"Vpc"},"CidrBlock":"10.77.1.0/24","AvailabilityZone":"eu-west-1b"}},
	"Firewall":{"Type":"AWS::EC2::SecurityGroup","Properties":{"GroupDescription":"service","VpcId":{"Ref":"Vpc"},
		"SecurityGroupIngress":[{"IpProtocol":"tcp","FromPort":PORT,"ToPort":PORT,"CidrIp":"10.77.0.0/16"}]}},
	"Template":{"Type":"AWS::EC2::LaunchTemplate","Properties":{"LaunchTemplateData":{"InstanceType":"SIZE","ImageId":"ami-0123456789abcdef0",
		"BlockDeviceMappings":[{"DeviceName":"/dev/xvda","Ebs":{"Encrypted":true,"VolumeType":"gp3"}}],
		"SecurityGroupIds":[{"Ref":"Firewall"}]}}},
	"Targets":{"Type":"AWS::ElasticLoadBalancingV2::TargetGroup","Properties":{"Name":"updates","Port":8080,"Protocol":"HTTP","VpcId":{"Ref":"Vpc"},
		"HealthCheckPath":"PATH","TargetGroupAttributes":[{"Key":"deregistration_delay.timeout_seconds","Value":"30"}]}},
	"Balancer":{"Type":"AWS::ElasticLoadBalancingV2::LoadBalancer","Properties":{"Name":"updates","Scheme":"internal",
		"Subnets":[{"Ref":"SubnetA"},{"Ref":"SubnetB"}],"SecurityGroups":[{"Ref":"Firewall"}]}},
	"Listener":{"Type":"AWS::ElasticLoadBalancingV2::Listener","Properties":{"LoadBalancerArn":{"Ref":"Balancer"},"Port":80,"Protocol":"HTTP",
		"DefaultActions":[{"Type":"fixed-response","FixedResponseConfig":{"StatusCode":"404"}}]}},
	"Rule":{"Type":"AWS::ElasticLoadBalancingV2::ListenerRule","Properties":{"ListenerArn":{"Ref":"Listener"},"Priority":PRIORITY,
		"Conditions":[{"Field":"path-pattern","PathPatternConfig":{"Values":["/x"]}}],
		"Actions":[{"Type":"forward","TargetGroupArn":{"Ref":"Targets"}}]}},
	"Group":{"Type":"AWS::AutoScaling::AutoScalingGroup","Properties":{"AutoScalingGroupName":"updates","MinSize":"2","MaxSize":"4",
		"VPCZoneIdentifier":[{"Ref":"SubnetA"},{"Ref":"SubnetB"}],"TargetGroupARNs":[{"Ref":"Targets"}],
		"LaunchTemplate":{"LaunchTemplateId":{"Ref":"Template"},"Version":{"Fn::GetAtt":["Template","LatestVersionNumber"]}}}},
	"Scaling":{"Type":"AWS::AutoScaling::ScalingPolicy","Properties":{"AutoScalingGroupName":{"Ref":"Group"},"PolicyType":"TargetTrackingScaling",
		"EstimatedInstanceWarmup":120,"TargetTrackingConfiguration":{"TargetValue":TARGET,
			"PredefinedMetricSpecification":{"PredefinedMetricType":"ASGAverageCPUUtilization"}}}},
	"Zone":{"Type":"AWS::Route53::HostedZone","Properties":{"Name":"updates.internal","VPCs":[{"VPCId":{"Ref":"Vpc"},"VPCRegion":"eu-west-1"}]}},
	"Name":{"Type":"AWS::Route53::RecordSet","Properties":{"HostedZoneId":{"Ref":"Zone"},"Name":"s.updates.internal","Type":"A",
		"AliasTarget":{"DNSName":{"Fn::GetAtt":["Balancer","DNSName"]},"HostedZoneId":{"Fn::GetAtt":["Balancer","CanonicalHostedZoneID"]}}}}`

// TestUpdatesChangeInPlace changes one property each of what stock moto recreates, or leaves as it is while
// it reports success, and reads all of it back.
func TestUpdatesChangeInPlace(t *testing.T) {
	s := newStacks(t)
	version := func(port, size, path, priority, target string) string {
		return strings.NewReplacer("PORT", port, "SIZE", size, "PATH", path, "PRIORITY", priority, "TARGET", target).Replace(service)
	}
	if got := s.create(t, "updates", version("8080", "t4g.small", "/old", "7", "60")); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "updates"))
	}
	before := readService(t)
	if before.port != 8080 || before.path != "/old" || before.priority != "7" || before.target != 60 || len(before.instances) != 2 {
		t.Fatalf("the service was made as %+v", before)
	}
	for _, instance := range before.instances {
		if !strings.HasPrefix(instance.subnet, "subnet-") || !slices.Contains(before.subnets, instance.subnet) {
			t.Errorf("instance %s is in subnet %s, not in one of the group's, %v", instance.id, instance.subnet, before.subnets)
		}
		if instance.size != "t4g.small" {
			t.Errorf("instance %s is a %s", instance.id, instance.size)
		}
	}
	if !before.private {
		t.Error("the zone with a network is read back as a public one")
	}
	if got := s.update(t, "updates", version("9090", "t4g.large", "/new", "8", "70")); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "updates"))
	}
	after := readService(t)
	if after.port != 9090 || after.path != "/new" || after.priority != "8" || after.target != 70 {
		t.Errorf("after the update the service is %+v", after)
	}
	if after.firewall != before.firewall || after.groupARN != before.groupARN || after.targets != before.targets {
		t.Error("the update made a security group, Auto Scaling group or target group anew")
	}
	if len(after.instances) != 2 {
		t.Errorf("%d instances after the update", len(after.instances))
	}
	for _, instance := range after.instances {
		if instance.size != "t4g.large" {
			t.Errorf("instance %s is still a %s", instance.id, instance.size)
		}
	}
}

type instance struct{ id, subnet, size string }

type readBack struct {
	port                        int32
	path, priority              string
	target                      float64
	firewall, groupARN, targets string
	subnets                     []string
	instances                   []instance
	private                     bool
}

func readService(t *testing.T) readBack {
	t.Helper()
	config := use(t).Config(t, account, region)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var r readBack
	balancing := elb.NewFromConfig(config)
	groups, err := balancing.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{"updates"}})
	must(err)
	r.path, r.targets = *groups.TargetGroups[0].HealthCheckPath, *groups.TargetGroups[0].TargetGroupArn
	balancers, err := balancing.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{Names: []string{"updates"}})
	must(err)
	listeners, err := balancing.DescribeListeners(t.Context(), &elb.DescribeListenersInput{LoadBalancerArn: balancers.LoadBalancers[0].LoadBalancerArn})
	must(err)
	rules, err := balancing.DescribeRules(t.Context(), &elb.DescribeRulesInput{ListenerArn: listeners.Listeners[0].ListenerArn})
	must(err)
	for _, rule := range rules.Rules {
		if !*rule.IsDefault {
			r.priority += *rule.Priority
		}
	}
	r.firewall = balancers.LoadBalancers[0].SecurityGroups[0]
	computing := ec2.NewFromConfig(config)
	firewalls, err := computing.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{r.firewall}})
	must(err)
	for _, permission := range firewalls.SecurityGroups[0].IpPermissions {
		r.port += *permission.FromPort // one rule; two would add up to neither
	}
	scaling, err := autoscaling.NewFromConfig(config).DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{"updates"}})
	must(err)
	r.groupARN = *scaling.AutoScalingGroups[0].AutoScalingGroupARN
	policies, err := autoscaling.NewFromConfig(config).DescribePolicies(t.Context(), &autoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String("updates")})
	must(err)
	for _, p := range policies.ScalingPolicies {
		r.target += *p.TargetTrackingConfiguration.TargetValue
	}
	r.subnets = strings.Split(*scaling.AutoScalingGroups[0].VPCZoneIdentifier, ",")
	var ids []string
	for _, i := range scaling.AutoScalingGroups[0].Instances {
		ids = append(ids, *i.InstanceId)
	}
	instances, err := computing.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids})
	must(err)
	for _, reservation := range instances.Reservations {
		for _, i := range reservation.Instances {
			r.instances = append(r.instances, instance{*i.InstanceId, aws.ToString(i.SubnetId), string(i.InstanceType)})
		}
	}
	zones, err := route53.NewFromConfig(config).ListHostedZones(t.Context(), &route53.ListHostedZonesInput{})
	must(err)
	for _, zone := range zones.HostedZones {
		if *zone.Name == "updates.internal." {
			r.private = zone.Config.PrivateZone
		}
	}
	return r
}

func TestRetainIsHonoured(t *testing.T) {
	s := newStacks(t)
	kept := `"Kept":{"Type":"AWS::SQS::Queue","DeletionPolicy":"Retain","Properties":{"QueueName":"retain-kept"}}`
	loose := `"Loose":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"retain-loose"}}`
	rest := `"Rest":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"retain-rest"}}`
	if got := s.create(t, "retain", kept+","+loose+","+rest); got != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", got)
	}
	if got := s.update(t, "retain", rest); got != "UPDATE_COMPLETE" {
		t.Fatalf("the stack is %s:\n%s", got, s.reasons(t, "retain"))
	}
	if queueURL(t, "retain-kept") == "" {
		t.Error("a retained queue was deleted")
	}
	if queueURL(t, "retain-loose") != "" {
		t.Error("a queue that left the template still stands")
	}
}

// TestReplicasComeBeforeTheirPolicies: CloudFormation adds or removes one replica of a global table in
// an update, and gives a replica in another region its policy in a later operation than the one that
// creates it.
func TestReplicasComeBeforeTheirPolicies(t *testing.T) {
	s := newStacks(t)
	global := func(table string, replicas ...string) string {
		var all []string
		for _, r := range replicas {
			region, policy, _ := strings.Cut(r, "+")
			if policy != "" {
				policy = `,"ResourcePolicy":{"PolicyDocument":{"Version":"2012-10-17","Statement":[]}}`
			}
			all = append(all, `{"Region":"`+region+`"`+policy+`}`)
		}
		return `"T":{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"TableName":"` + table + `","BillingMode":"PAY_PER_REQUEST",
			"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
			"Replicas":[` + strings.Join(all, ",") + `]}}`
	}
	const oneStep, twoSteps = "replica-one-step", "replica-two-steps"
	if got := s.create(t, oneStep, global(oneStep, "eu-west-1+policy", "us-east-1+policy")); got != "ROLLBACK_COMPLETE" ||
		!strings.Contains(s.reasons(t, oneStep), "cannot be created together with its resource policy") {
		t.Errorf("a table with a replica and its policy at once is %s:\n%s", got, s.reasons(t, oneStep))
	}
	if got := s.create(t, twoSteps, global(twoSteps, "eu-west-1+policy", "us-east-1")); got != "CREATE_COMPLETE" {
		t.Fatalf("the table is %s:\n%s", got, s.reasons(t, twoSteps))
	}
	for _, step := range []struct {
		want     string
		replicas []string
	}{
		{"UPDATE_COMPLETE", []string{"eu-west-1+policy", "us-east-1+policy"}},
		{"UPDATE_ROLLBACK_COMPLETE", []string{"eu-west-1+policy", "us-east-1+policy", "ap-south-1+policy"}},
		{"UPDATE_ROLLBACK_COMPLETE", []string{"eu-west-1+policy", "us-east-1+policy", "ap-south-1", "sa-east-1"}},
		{"UPDATE_ROLLBACK_COMPLETE", []string{"eu-west-1+policy", "ap-south-1"}}, // one goes, one comes
		{"UPDATE_COMPLETE", []string{"eu-west-1+policy", "us-east-1+policy", "ap-south-1"}},
	} {
		if got := s.update(t, twoSteps, global(twoSteps, step.replicas...)); got != step.want {
			t.Errorf("replicas %v: the stack is %s, want %s:\n%s", step.replicas, got, step.want, s.reasons(t, twoSteps))
		}
	}
}

// TestProtectedTablesStay: a table that is protected from deletion fails the rollback that would delete it.
func TestProtectedTablesStay(t *testing.T) {
	s := newStacks(t)
	protected := func(dependsOn string) string {
		return `"T":{"Type":"AWS::DynamoDB::Table","DeletionPolicy":"RetainExceptOnCreate","Properties":{"TableName":"protected","BillingMode":"PAY_PER_REQUEST",
			"DeletionProtectionEnabled":true,"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}` + dependsOn + `},
			"S":{"Type":"AWS::EC2::Subnet",`
	}
	const broken = `"Properties":{"VpcId":"vpc-none","CidrBlock":"10.0.0.0/24"}}`
	if got := s.create(t, "protected-last", protected(`,"DependsOn":"S"`)+broken); got != "ROLLBACK_COMPLETE" {
		t.Errorf("with the table last, the stack is %s:\n%s", got, s.reasons(t, "protected-last"))
	}
	if got := s.create(t, "protected-first", protected("")+`"DependsOn":"T",`+broken); got != "ROLLBACK_FAILED" {
		t.Errorf("with the table first, the stack is %s:\n%s", got, s.reasons(t, "protected-first"))
	}
}
