package stamp

import (
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	elb "github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
)

// newService is the shard's HTTP service: instances in every zone of the cell, or in the shard's own alone, behind one
// target group, reached through a load balancer of the shard's own or of its group. A load balancer is in every zone of
// the cell, as AWS asks for two at least, and passes requests on across them.
func newService(st awscdk.Stack, p *plan, s shardPlan, key awskms.Key) watched {
	core := reader{st, p}
	zones := p.cell.Zones
	if s.group != "" {
		zones = s.zones // the load balancer is in another stack
	}
	n := core.network(zones)
	sg := awsec2.NewSecurityGroup(st, str("InstanceGroup"), &awsec2.SecurityGroupProps{
		Vpc: n.vpc, AllowAllOutbound: no, Description: str("Instances of shard " + s.id + ": in from the load balancer, out to AWS")})
	sg.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(num(443)), str("AWS"), nil)
	instances := newInstances(st, p, s, n, sg, key)
	targets := newTargets(st, p, s, n, instances)
	w := watched{targets: targets.TargetGroupFullName(), made: instances.Node().DefaultChild().(awscdk.CfnResource)}

	if s.group != "" {
		g := core.group(s.group)
		sg.AddIngressRule(g.sg, awsec2.Port_Tcp(num(p.service.Port)), str("load balancer of the group"), nil)
		g.join(st, s, targets)
		nameBalancer(st, s, n, g.address)
		w.balancer = balancerOf(g.listener)
		return w
	}
	n.routerSG = core.routerGroup()
	alb := newBalancer(st, "Alb", s.names.LoadBalancer(), n, newBalancerGroup(st, "AlbGroup", n))
	newListener(alb, elb.ListenerAction_Forward(list[elb.IApplicationTargetGroup](targets), nil))
	nameBalancer(st, s, n, addressOf(alb))
	w.balancer = alb.LoadBalancerFullName()
	return w
}

// balancerOf is the load balancer of a listener as its metrics call it: app/NAME/ID, which the listener's ARN
// (arn:PARTITION:elasticloadbalancing:REGION:ACCOUNT:listener/app/NAME/ID/LISTENER) has in it.
func balancerOf(listener elb.IApplicationListener) *string {
	words := awscdk.Fn_Split(str("/"), listener.ListenerArn(), nil)
	return awscdk.Fn_Join(str("/"), list(awscdk.Fn_Select(num(1), words), awscdk.Fn_Select(num(2), words), awscdk.Fn_Select(num(3), words)))
}

// newTargets is the shard's target group. AWS changes neither its port nor the balancer that it serves:
// both stand in its logical id and its name, so that a fleet with another port or ingress gets another
// target group beside the old one, and gives up the old one at the end.
func newTargets(st awscdk.Stack, p *plan, s shardPlan, n network, instances awsautoscaling.AutoScalingGroup) elb.ApplicationTargetGroup {
	id := "Targets-" + strconv.Itoa(p.service.Port) + "-" + s.balancer()
	return elb.NewApplicationTargetGroup(st, str(id), &elb.ApplicationTargetGroupProps{
		TargetGroupName: str(s.names.TargetGroup(p.service.Port, s.balancer())), Vpc: n.vpc,
		Port: num(p.service.Port), Protocol: elb.ApplicationProtocol_HTTP,
		Targets:             list[elb.IApplicationLoadBalancerTarget](instances),
		DeregistrationDelay: seconds(30), // as long as a routed request may last
		HealthCheck: &elb.HealthCheck{Path: str(p.service.HealthPath), Interval: seconds(10), Timeout: seconds(5),
			HealthyThresholdCount: num(2), UnhealthyThresholdCount: num(2)},
	})
}

// newInstances is the shard's Auto Scaling group. It has no desired capacity, which a deployment
// would set back to what it was before scaling.
//
// A deployment waits until each new instance says that the service answers (start.sh.tmpl), one
// instance after another; one that says otherwise, or nothing, fails it, and the old release is
// launched again. The CDK lets the instances' role signal this stack.
func newInstances(st awscdk.Stack, p *plan, s shardPlan, n network, sg awsec2.ISecurityGroup, key awskms.Key) awsautoscaling.AutoScalingGroup {
	h := p.service
	group := awsautoscaling.NewAutoScalingGroup(st, str("Instances"), &awsautoscaling.AutoScalingGroupProps{
		AutoScalingGroupName: str(s.names.Group()),
		Vpc:                  n.vpc, VpcSubnets: n.within(s.zones),
		LaunchTemplate: newTemplate(st, p, s, sg, key),
		MinCapacity:    num(h.Min), MaxCapacity: num(h.Max),
		HealthChecks: awsautoscaling.HealthChecks_WithAdditionalChecks(&awsautoscaling.AdditionalHealthChecksOptions{
			AdditionalTypes: list(awsautoscaling.AdditionalHealthCheckType_ELB), GracePeriod: seconds(graceTime)}),
		// What else replaces instances (an instance refresh, a failed health check) launches the new one first and waits
		// until it is warm, so that the group has as many as it wants all the time.
		DefaultInstanceWarmup: seconds(startTime),
		// For no-instances. It costs nothing.
		GroupMetrics:         list(awsautoscaling.NewGroupMetrics(awsautoscaling.GroupMetric_IN_SERVICE_INSTANCES())),
		MinHealthyPercentage: num(100), MaxHealthyPercentage: num(110),
		Signals: awsautoscaling.Signals_WaitForMinCapacity(&awsautoscaling.SignalsOptions{
			MinSuccessPercentage: num(100), Timeout: seconds(signalTime)}),
		UpdatePolicy: awsautoscaling.UpdatePolicy_RollingUpdate(&awsautoscaling.RollingUpdateOptions{
			MaxBatchSize:          num(1),
			MinInstancesInService: num(min(h.Min, h.Max-1)), // one at least must be replaceable
			WaitOnResourceSignals: yes,
			MinSuccessPercentage:  num(100),
			PauseTime:             seconds(signalTime),
			// All that would launch or end instances beside CloudFormation meanwhile: the health of a release that is sick
			// when its mend is deployed, too (AWS Knowledge Center, "auto-scaling-group-rolling-updates").
			SuspendProcesses: list(awsautoscaling.ScalingProcess_HEALTH_CHECK, awsautoscaling.ScalingProcess_REPLACE_UNHEALTHY,
				awsautoscaling.ScalingProcess_AZ_REBALANCE, awsautoscaling.ScalingProcess_ALARM_NOTIFICATION,
				awsautoscaling.ScalingProcess_SCHEDULED_ACTIONS),
		}),
	})
	group.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(str(instancesID))
	if h.Max > h.Min {
		group.ScaleOnCpuUtilization(str("Cpu"), &awsautoscaling.CpuUtilizationScalingProps{
			TargetUtilizationPercent: num(cpuTarget), EstimatedInstanceWarmup: seconds(startTime)})
	}
	return group
}

const (
	// instancesID is the logical id of the Auto Scaling group, by which its instances signal.
	instancesID = "Instances"
	// startTime is the seconds that an instance may take from launch to its first healthy answer.
	startTime = 120
	// graceTime is the seconds that a new instance may take before its health counts. It is longer than the start
	// script takes to give up, so that none is ended while a deployment still waits for its word.
	graceTime = 360
	// signalTime is the seconds that a deployment waits for an instance's word. It is longer than the
	// start script takes to give up, with a launch before and the signal after.
	signalTime = 600
	// cpuTarget is the average use of the processors, in percent, that the group scales towards. It
	// leaves room for the time that another instance needs to start.
	cpuTarget = 60
)

// serviceLog is what the service's log group is called by.
const serviceLog = "service"

// newTemplate is how an instance of the shard is launched. What the service says goes into a log group of the shard's,
// which outlives the instance.
func newTemplate(st awscdk.Stack, p *plan, s shardPlan, sg awsec2.ISecurityGroup, key awskms.Key) awsec2.LaunchTemplate {
	h := p.service
	asset := awss3assets.NewAsset(st, str("Service"), &awss3assets.AssetProps{Path: str(h.archive.path)})
	role := newStateRole(st, "InstanceRole", "ec2.amazonaws.com", "Instances of shard "+s.id+" of cell "+p.cell.Name, p, s, key)
	newEncryptedLogGroup(st, "ServiceLogs", s.names.LogGroup(serviceLog), key).GrantWrite(role)
	// Not asset.GrantRead, which gives the whole bucket of every service's assets.
	role.AddToPolicy(allow([]string{"s3:GetObject"},
		"arn:"+partition(p.cell.Region)+":s3:::"+*asset.S3BucketName()+"/"+*asset.S3ObjectKey()))
	env := map[string]string{"PORT": strconv.Itoa(h.Port), "AWS_REGION": p.cell.Region}
	for k, v := range s.env {
		env[k] = v
	}
	template := awsec2.NewLaunchTemplate(st, str("Template"), &awsec2.LaunchTemplateProps{
		InstanceType:  awsec2.NewInstanceType(str(h.InstanceType)),
		MachineImage:  awsec2.MachineImage_GenericLinux(&map[string]*string{p.cell.Region: str(h.ami)}, nil),
		SecurityGroup: sg,
		Role:          role,
		// Tokens alone, and no further than the instance itself.
		RequireImdsv2: yes, HttpPutResponseHopLimit: num(1),
		// Without a size: the image's own holds, and no image's snapshot is larger than the volume.
		BlockDevices: list(&awsec2.BlockDevice{DeviceName: str(rootDevice), Volume: awsec2.NewBlockDeviceVolume(
			&awsec2.EbsDeviceProps{Encrypted: yes, VolumeType: awsec2.EbsDeviceVolumeType_GP3}, nil)}),
		UserData: awsec2.UserData_Custom(str(start{
			Shard: s.id, Cell: p.cell.Name, Service: p.fleet.Service, Region: p.cell.Region,
			Bucket: *asset.S3BucketName(), Key: *asset.S3ObjectKey(), SHA256: h.archive.sha256,
			Command: h.Command, Port: h.Port, HealthPath: h.HealthPath, Env: environmentLines(env),
			Stack: s.names.Stack(), Resource: instancesID, LogGroup: s.names.LogGroup(serviceLog),
		}.script())),
	})
	for _, key := range slices.Sorted(maps.Keys(p.fleet.Deploy.Tags)) {
		// An instance has its group's tags, but its disk only those of the template.
		awscdk.Tags_Of(template).Add(str(key), str(p.fleet.Deploy.Tags[key]), nil)
	}
	return template
}

// rootDevice is the first disk of Amazon Linux 2023, which the fleet's images are made from.
const rootDevice = "/dev/xvda"
