package deploy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
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

// stacksAreComplete looks at the status of every stack that stands.
func (w *world) stacksAreComplete(t *testing.T) {
	t.Helper()
	for at := range w.places() {
		for name, status := range w.stacks(t, at.account, at.region) {
			if status != "CREATE_COMPLETE" && status != "UPDATE_COMPLETE" {
				t.Errorf("stack %s of account %s, %s is %s", name, at.account, at.region, status)
			}
		}
	}
}

func (w *world) directory(t *testing.T) {
	table := w.table(t, w.aws.Config(t, homeAccount, homeRegion), w.names.DirectoryTable())
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

// standing reads back all that the fleet says of the cells that stand, and that there is nothing else.
func (w *world) standing(t *testing.T) {
	t.Run("nothing else", w.nothingElse)
	t.Run("stacks", w.stacksAreComplete)
	for _, cell := range w.cells {
		t.Run(cell, func(t *testing.T) {
			w.core(t, cell)
			for _, id := range w.cell(t, cell).Shards.IDs() {
				t.Run(id, func(t *testing.T) { w.shard(t, cell, id) })
			}
		})
	}
}

// core reads back what the shards of a cell share.
func (w *world) core(t *testing.T, name string) {
	cell, config := w.of(name), w.in(t, name)
	t.Run("placement key", func(t *testing.T) {
		out, err := secretsmanager.NewFromConfig(config).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(cell.PlacementKey())})
		if err != nil {
			t.Fatal(err)
		}
		var versions map[string]string
		if err := json.Unmarshal([]byte(*out.SecretString), &versions); err != nil {
			t.Fatalf("the secret is no JSON object: %v", err)
		}
		first := cell.KeyVersion(1)
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(versions[first]) || len(versions) != 1 {
			t.Errorf("the secret does not hold one key of 64 hexadecimal digits under version %s", first)
		}
	})
	t.Run("router", func(t *testing.T) {
		w.function(t, config, cell.Router(), w.fleet.Router.ReservedConcurrency, w.fleet.Router.Memory, "1")
	})
	t.Run("keeper", func(t *testing.T) {
		w.function(t, config, cell.Keeper(), 1, w.fleet.Keeper.Memory, "1")
		w.schedule(t, name)
	})
	t.Run("store", func(t *testing.T) {
		if got := keys(w.table(t, config, cell.Store())); got != "pk HASH, sk RANGE" {
			t.Errorf("keys are %s", got)
		}
	})
	t.Run("network", func(t *testing.T) { w.network(t, name) })
	t.Run("alarms", func(t *testing.T) { w.cellAlarms(t, name) })
}

// shard reads back one shard's own resources: exactly one of each.
func (w *world) shard(t *testing.T, cell, id string) {
	shard, config, of := w.of(cell).Shard(id), w.in(t, cell), w.cell(t, cell)
	t.Run("slice", func(t *testing.T) {
		w.function(t, config, shard.Worker(), w.fleet.Shard.Lambda.ReservedConcurrency, w.fleet.Shard.Lambda.Memory, w.version(shard))
	})
	t.Run("queue", func(t *testing.T) { w.queue(t, config, shard) })
	t.Run("target group", func(t *testing.T) { w.targetGroup(t, place{of.Account, of.Region}, w.of(cell), shard, id) })
	t.Run("Auto Scaling group", func(t *testing.T) { w.group(t, of, shard, id) })
	t.Run("alarms", func(t *testing.T) { w.shardAlarms(t, place{of.Account, of.Region}, shard) })
	t.Run("table", func(t *testing.T) {
		if got := keys(w.table(t, config, shard.Table())); got != "pk HASH, sk RANGE" {
			t.Errorf("keys are %s", got)
		}
	})
	t.Run("bucket", func(t *testing.T) {
		client := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true })
		out, err := client.GetPublicAccessBlock(t.Context(), &s3.GetPublicAccessBlockInput{Bucket: aws.String(shard.Bucket(of.Account, of.Region))})
		if err != nil {
			t.Fatal(err)
		}
		b := out.PublicAccessBlockConfiguration
		if !*b.BlockPublicAcls || !*b.BlockPublicPolicy || !*b.IgnorePublicAcls || !*b.RestrictPublicBuckets {
			t.Errorf("public access is not blocked: %+v", *b)
		}
	})
}

// version is that of a shard's slice: it rises with each release since the shard's first.
func (w *world) version(shard names.Shard) string {
	return strconv.Itoa(w.releases - w.since[shard.Stack()])
}

// function reads back a function behind its alias.
func (w *world) function(t *testing.T, config aws.Config, name string, reserved, memory int, version string) {
	t.Helper()
	client := lambda.NewFromConfig(config)
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
	if *alias.FunctionVersion != version {
		t.Errorf("alias %s is version %s, want %s", names.Alias, *alias.FunctionVersion, version)
	}
	live, err := client.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name, Qualifier: aws.String(names.Alias)})
	if err != nil {
		t.Fatal(err)
	}
	if got := int(aws.ToInt32(live.MemorySize)); got != memory {
		t.Errorf("memory of %d MB, want %d", got, memory)
	}
}

func (w *world) queue(t *testing.T, config aws.Config, shard names.Shard) {
	attributes := attributesOf(t, config, shard.Queue())
	var redrive struct {
		Target string `json:"deadLetterTargetArn"`
		Max    int    `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(attributes["RedrivePolicy"]), &redrive); err != nil {
		t.Fatal(err)
	}
	if dead := attributesOf(t, config, shard.DeadLetters())["QueueArn"]; redrive.Target != dead || redrive.Max != w.fleet.Shard.Queue.MaxReceive {
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

// attributes are those of a queue of the canary.
func (w *world) attributes(t *testing.T, queue string) map[string]string {
	t.Helper()
	return attributesOf(t, w.in(t, canary), queue)
}

func attributesOf(t *testing.T, config aws.Config, queue string) map[string]string {
	t.Helper()
	client := sqs.NewFromConfig(config)
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

// targetGroup follows a shard's traffic backwards: its balancer forwards to its target group alone, for every request or
// for those that name the shard, and its name in the cell's zone is an alias for the balancer.
func (w *world) targetGroup(t *testing.T, at place, cell names.Cell, shard names.Shard, id string) {
	client := elb.NewFromConfig(w.at(t, at))
	name, word := w.balancer(cell, shard)
	groups, err := client.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{shard.TargetGroup(w.fleet.Shard.HTTP.Port, word)}})
	if err != nil {
		t.Fatal(err)
	}
	group := groups.TargetGroups[0]
	if port := strconv.Itoa(int(*group.Port)); port != strconv.Itoa(w.fleet.Shard.HTTP.Port) || *group.HealthCheckPath != w.fleet.Shard.HTTP.HealthPath {
		t.Errorf("target group on port %s with health path %s", port, *group.HealthCheckPath)
	}
	balancers, err := client.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{Names: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	balancer := balancers.LoadBalancers[0]
	if balancer.Scheme != elbtypes.LoadBalancerSchemeEnumInternal {
		t.Errorf("the balancer is %s", balancer.Scheme)
	}
	listeners, err := client.DescribeListeners(t.Context(), &elb.DescribeListenersInput{LoadBalancerArn: balancer.LoadBalancerArn})
	if err != nil || len(listeners.Listeners) != 1 {
		t.Fatalf("%d listeners, %v", len(listeners.Listeners), err)
	}
	actions := listeners.Listeners[0].DefaultActions
	if word != names.OwnBalancer {
		if len(actions) != 1 || actions[0].FixedResponseConfig == nil || *actions[0].FixedResponseConfig.StatusCode != "421" {
			t.Errorf("who names no shard is answered by %+v, want 421", actions)
		}
		rules, err := client.DescribeRules(t.Context(), &elb.DescribeRulesInput{ListenerArn: listeners.Listeners[0].ListenerArn})
		if err != nil {
			t.Fatal(err)
		}
		actions = nil
		for _, r := range rules.Rules {
			for _, c := range r.Conditions {
				if h := c.HttpHeaderConfig; h != nil && *h.HttpHeaderName == "Cellwall-Shard" && slices.Equal(h.Values, []string{id}) {
					actions = append(actions, r.Actions...)
				}
			}
		}
	}
	var targets []string
	for _, a := range actions {
		targets = append(targets, aws.ToString(a.TargetGroupArn))
	}
	if want := []string{*group.TargetGroupArn}; !slices.Equal(targets, want) {
		t.Errorf("the balancer forwards to %v, want %v", targets, want)
	}
	// The name that answers over both IP versions, which the CDK takes for an alias.
	if got, want := w.hosts(t, at)[shard.Zone()][shard.Host()], "dualstack."+*balancer.DNSName; got != want {
		t.Errorf("%s is an alias for %q, want %s", shard.Host(), got, want)
	}
}

func (w *world) group(t *testing.T, cell fleet.Cell, shard names.Shard, id string) {
	config := w.aws.Config(t, cell.Account, cell.Region)
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
	want := cell.ZoneNames()
	if w.fleet.Shard.Zones == fleet.ZonesOne {
		at := slices.IndexFunc(cell.Shards, func(s fleet.ShardSpec) bool { return s.ID == id })
		want = []string{cell.ZoneName(cell.Shards[at].Zone)}
	}
	if zones := slices.Sorted(slices.Values(group.AvailabilityZones)); !slices.Equal(zones, want) {
		t.Errorf("instances start in %v, want %v", zones, want)
	}
	if group.LaunchTemplate == nil {
		t.Fatal("the group has no launch template")
	}
	w.template(t, cell, *group.LaunchTemplate)
	_, word := w.balancer(w.of(cell.Name), shard)
	groups, err := elb.NewFromConfig(config).DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{shard.TargetGroup(w.fleet.Shard.HTTP.Port, word)}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{*groups.TargetGroups[0].TargetGroupArn}; !slices.Equal(group.TargetGroupARNs, want) {
		t.Errorf("the group's instances are targets of %v, want %v", group.TargetGroupARNs, want)
	}
}

// template reads back the version of a launch template by which a group starts its instances.
func (w *world) template(t *testing.T, cell fleet.Cell, of astypes.LaunchTemplateSpecification) {
	t.Helper()
	out, err := ec2.NewFromConfig(w.aws.Config(t, cell.Account, cell.Region)).DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: of.LaunchTemplateId, Versions: []string{*of.Version}})
	if err != nil {
		t.Fatal(err)
	}
	data, http := out.LaunchTemplateVersions[0].LaunchTemplateData, w.fleet.Shard.HTTP
	if want := http.AMIs[cell.Region+"/arm64"]; aws.ToString(data.ImageId) != want || string(data.InstanceType) != http.InstanceType {
		t.Errorf("instances are %s of %s, want %s of %s", data.InstanceType, aws.ToString(data.ImageId), http.InstanceType, want)
	}
	if data.MetadataOptions == nil || data.MetadataOptions.HttpTokens != ec2types.LaunchTemplateHttpTokensStateRequired {
		t.Error("instances answer for their metadata without a token")
	}
}
