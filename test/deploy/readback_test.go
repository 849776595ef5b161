package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// stacks is the status of each stack in an account's region.
func (w *world) stacks(t *testing.T, account, region string) map[string]string {
	t.Helper()
	out, err := cloudformation.NewFromConfig(w.aws.Config(t, account, region)).DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range out.Stacks {
		found[*s.StackName] = string(s.StackStatus)
	}
	return found
}

func (w *world) stacksAreComplete(t *testing.T) {
	cell := w.names.Cell(canary)
	want := map[string]string{"CDKToolkit": "CREATE_COMPLETE", w.names.Stack(): "UPDATE_COMPLETE", cell.Stack(): "CREATE_COMPLETE"}
	for _, shard := range w.cell(t, canary).Shards.IDs() {
		want[cell.Shard(shard).Stack()] = "CREATE_COMPLETE"
	}
	if diff := cmp.Diff(want, w.stacks(t, homeAccount, homeRegion)); diff != "" {
		t.Errorf("stacks (-want +got):\n%s", diff)
	}
}

// nothingOfAnotherCell looks at every account and region of the fleet: all that is there belongs to the
// canary, the directory or the CDK's own bootstrap.
func (w *world) nothingOfAnotherCell(t *testing.T) {
	prefix := w.names.Cell(canary).Stack()
	prefix = strings.TrimSuffix(prefix, "core")
	for _, c := range w.fleet.Cells {
		if c.Account != homeAccount || c.Region != homeRegion {
			if found := w.stacks(t, c.Account, c.Region); len(found) > 0 {
				t.Errorf("account %s, %s: stacks %v", c.Account, c.Region, found)
			}
		}
		config := w.aws.Config(t, c.Account, c.Region)
		functions, err := lambda.NewFromConfig(config).ListFunctions(t.Context(), &lambda.ListFunctionsInput{})
		if err != nil {
			t.Fatal(err)
		}
		tables, err := dynamodb.NewFromConfig(config).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if err != nil {
			t.Fatal(err)
		}
		queues, err := sqs.NewFromConfig(config).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range functions.Functions {
			found = append(found, *f.FunctionName)
		}
		found = append(found, tables.TableNames...)
		for _, url := range queues.QueueUrls {
			found = append(found, url[strings.LastIndexByte(url, '/')+1:])
		}
		for _, name := range found {
			if !strings.HasPrefix(name, prefix) && name != w.names.DirectoryTable() {
				t.Errorf("account %s, %s: %s belongs to another cell", c.Account, c.Region, name)
			}
		}
	}
}

func (w *world) directory(t *testing.T) {
	table := w.table(t, w.names.DirectoryTable())
	if got := keys(table); got != "pk HASH, sk RANGE" {
		t.Errorf("keys of the directory are %s", got)
	}
	indexes := map[string]string{}
	for _, i := range table.GlobalSecondaryIndexes {
		indexes[*i.IndexName] = fmt.Sprintf("%s, projects %s", schema(i.KeySchema), i.Projection.ProjectionType)
	}
	want := map[string]string{names.FirstIndex: "i1 HASH, pk RANGE, projects ALL", names.SecondIndex: "i2 HASH, pk RANGE, projects ALL"}
	if diff := cmp.Diff(want, indexes); diff != "" {
		t.Errorf("indexes of the directory (-want +got):\n%s", diff)
	}
	if s := table.StreamSpecification; s == nil || !aws.ToBool(s.StreamEnabled) || s.StreamViewType != types.StreamViewTypeNewAndOldImages {
		t.Errorf("the directory's stream is %+v, want one with new and old images", s)
	}
}

// core reads back what the shards of the cell share.
func (w *world) core(t *testing.T) {
	cell := w.names.Cell(canary)
	config := w.aws.Config(t, homeAccount, homeRegion)
	t.Run("placement key", func(t *testing.T) {
		out, err := secretsmanager.NewFromConfig(config).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(cell.PlacementKey())})
		if err != nil {
			t.Fatal(err)
		}
		var versions map[string]string
		if err := json.Unmarshal([]byte(*out.SecretString), &versions); err != nil {
			t.Fatalf("the secret is no JSON object: %v", err)
		}
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(versions["1"]) || len(versions) != 1 {
			t.Error("the secret does not hold one key of 64 hexadecimal digits under version 1")
		}
	})
	t.Run("router", func(t *testing.T) {
		w.function(t, cell.Router(), w.fleet.Router.ReservedConcurrency)
	})
	t.Run("store", func(t *testing.T) {
		if got := keys(w.table(t, cell.Store())); got != "pk HASH, sk RANGE" {
			t.Errorf("keys are %s", got)
		}
	})
	t.Run("subnets", func(t *testing.T) {
		out, err := ec2.NewFromConfig(config).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		if err != nil {
			t.Fatal(err)
		}
		zones := map[string]bool{}
		for _, s := range out.Subnets {
			if !aws.ToBool(s.DefaultForAz) {
				zones[*s.AvailabilityZone] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(zones)), w.cell(t, canary).ZoneNames(); !slices.Equal(got, want) {
			t.Errorf("subnets in %v, want %v", got, want)
		}
	})
}

// shard reads back one shard's own resources: exactly one of each.
func (w *world) shard(t *testing.T, id string) {
	shard := w.names.Cell(canary).Shard(id)
	t.Run("slice", func(t *testing.T) {
		w.function(t, shard.Worker(), w.fleet.Shard.Lambda.ReservedConcurrency)
	})
	t.Run("queue", func(t *testing.T) { w.queue(t, shard) })
	t.Run("target group", func(t *testing.T) { w.targetGroup(t, shard) })
	t.Run("Auto Scaling group", func(t *testing.T) { w.group(t, shard) })
	t.Run("table", func(t *testing.T) {
		if got := keys(w.table(t, shard.Table())); got != "pk HASH, sk RANGE" {
			t.Errorf("keys are %s", got)
		}
	})
	t.Run("bucket", func(t *testing.T) {
		client := s3.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion), func(o *s3.Options) { o.UsePathStyle = true })
		out, err := client.GetPublicAccessBlock(t.Context(), &s3.GetPublicAccessBlockInput{Bucket: aws.String(shard.Bucket(homeAccount, homeRegion))})
		if err != nil {
			t.Fatal(err)
		}
		b := out.PublicAccessBlockConfiguration
		if !*b.BlockPublicAcls || !*b.BlockPublicPolicy || !*b.IgnorePublicAcls || !*b.RestrictPublicBuckets {
			t.Errorf("public access is not blocked: %+v", *b)
		}
	})
}

// function reads back a function behind its alias.
func (w *world) function(t *testing.T, name string, reserved int) {
	t.Helper()
	client := lambda.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	concurrency, err := client.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToInt32(concurrency.ReservedConcurrentExecutions); int(got) != reserved {
		t.Errorf("reserved concurrency %d, want %d", got, reserved)
	}
	alias, err := client.GetAlias(t.Context(), &lambda.GetAliasInput{FunctionName: &name, Name: aws.String(names.Alias)})
	if err != nil {
		t.Fatal(err)
	}
	if *alias.FunctionVersion != "1" {
		t.Errorf("alias %s is version %s, want 1", names.Alias, *alias.FunctionVersion)
	}
}

func (w *world) queue(t *testing.T, shard names.Shard) {
	config := w.aws.Config(t, homeAccount, homeRegion)
	attributes := w.attributes(t, shard.Queue())
	var redrive struct {
		Target string `json:"deadLetterTargetArn"`
		Max    int    `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(attributes["RedrivePolicy"]), &redrive); err != nil {
		t.Fatal(err)
	}
	if dead := w.attributes(t, shard.DeadLetters())["QueueArn"]; redrive.Target != dead || redrive.Max != w.fleet.Shard.Queue.MaxReceive {
		t.Errorf("redrive policy %+v, want %s after %d", redrive, dead, w.fleet.Shard.Queue.MaxReceive)
	}
	sources, err := lambda.NewFromConfig(config).ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{
		EventSourceArn: aws.String(attributes["QueueArn"])})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources.EventSourceMappings) != 1 {
		t.Fatalf("%d event sources of the queue, want 1", len(sources.EventSourceMappings))
	}
	source := sources.EventSourceMappings[0]
	if !strings.HasSuffix(*source.FunctionArn, ":function:"+shard.WorkerAlias()) {
		t.Errorf("the queue's messages go to %s, want the alias %s", *source.FunctionArn, shard.WorkerAlias())
	}
	if source.ScalingConfig == nil || int(*source.ScalingConfig.MaximumConcurrency) != w.fleet.Shard.Queue.Consumers {
		t.Errorf("scaling of the consumer is %+v, want %d at once", source.ScalingConfig, w.fleet.Shard.Queue.Consumers)
	}
}

func (w *world) attributes(t *testing.T, queue string) map[string]string {
	t.Helper()
	client := sqs.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: url.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes
}

// targetGroup follows a shard's traffic backwards: its balancer's listener forwards to its target group
// alone, and the balancer's name in the cell's zone is an alias for it.
func (w *world) targetGroup(t *testing.T, shard names.Shard) {
	client := elb.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	groups, err := client.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{shard.TargetGroup(w.fleet.Shard.HTTP.Port, names.OwnBalancer)}})
	if err != nil {
		t.Fatal(err)
	}
	group := groups.TargetGroups[0]
	if port := strconv.Itoa(int(*group.Port)); port != strconv.Itoa(w.fleet.Shard.HTTP.Port) || *group.HealthCheckPath != w.fleet.Shard.HTTP.HealthPath {
		t.Errorf("target group on port %s with health path %s", port, *group.HealthCheckPath)
	}
	balancers, err := client.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{Names: []string{shard.LoadBalancer()}})
	if err != nil {
		t.Fatal(err)
	}
	balancer := balancers.LoadBalancers[0]
	if balancer.Scheme != elbtypes.LoadBalancerSchemeEnumInternal {
		t.Errorf("the balancer is %s", balancer.Scheme)
	}
	listeners, err := client.DescribeListeners(t.Context(), &elb.DescribeListenersInput{LoadBalancerArn: balancer.LoadBalancerArn})
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, l := range listeners.Listeners {
		for _, a := range l.DefaultActions {
			targets = append(targets, aws.ToString(a.TargetGroupArn))
		}
	}
	if want := []string{*group.TargetGroupArn}; !slices.Equal(targets, want) {
		t.Errorf("the balancer forwards to %v, want %v", targets, want)
	}
	// The name that answers over both IP versions, which the CDK takes for an alias.
	if got, want := strings.TrimSuffix(w.alias(t, shard), "."), "dualstack."+*balancer.DNSName; got != want {
		t.Errorf("%s is an alias for %q, want %s", shard.Host(), got, want)
	}
}

// alias is what a shard's name in the cell's private zone stands for.
func (w *world) alias(t *testing.T, shard names.Shard) string {
	t.Helper()
	client := route53.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion))
	zones, err := client.ListHostedZones(t.Context(), &route53.ListHostedZonesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range zones.HostedZones {
		if *zone.Name != shard.Zone()+"." {
			continue
		}
		if !zone.Config.PrivateZone {
			t.Errorf("zone %s is public", *zone.Name)
		}
		records, err := client.ListResourceRecordSets(t.Context(), &route53.ListResourceRecordSetsInput{HostedZoneId: zone.Id})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records.ResourceRecordSets {
			if *r.Name == shard.Host()+"." && r.AliasTarget != nil {
				return *r.AliasTarget.DNSName
			}
		}
	}
	return ""
}

func (w *world) group(t *testing.T, shard names.Shard) {
	config := w.aws.Config(t, homeAccount, homeRegion)
	out, err := autoscaling.NewFromConfig(config).DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{shard.Group()}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("%d groups named %s", len(out.AutoScalingGroups), shard.Group())
	}
	group, http := out.AutoScalingGroups[0], w.fleet.Shard.HTTP
	if int(*group.MinSize) != http.Min || int(*group.MaxSize) != http.Max || len(group.Instances) != http.Min {
		t.Errorf("%d to %d instances, %d running, want %d to %d and the fewest running", *group.MinSize, *group.MaxSize, len(group.Instances), http.Min, http.Max)
	}
	policies, err := autoscaling.NewFromConfig(config).DescribePolicies(t.Context(), &autoscaling.DescribePoliciesInput{
		AutoScalingGroupName: aws.String(shard.Group())})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(policies.ScalingPolicies); n != 1 || aws.ToFloat64(policies.ScalingPolicies[0].TargetTrackingConfiguration.TargetValue) != 60 {
		t.Errorf("%d scaling policies: %+v", n, policies.ScalingPolicies)
	}
	if group.LaunchTemplate == nil {
		t.Error("the group has no launch template")
	}
	groups, err := elb.NewFromConfig(config).DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{shard.TargetGroup(w.fleet.Shard.HTTP.Port, names.OwnBalancer)}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{*groups.TargetGroups[0].TargetGroupArn}; !slices.Equal(group.TargetGroupARNs, want) {
		t.Errorf("the group's instances are targets of %v, want %v", group.TargetGroupARNs, want)
	}
}
