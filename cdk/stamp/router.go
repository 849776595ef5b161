package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// provisioned is how many environments of the alias's version are kept started; nil for none.
func provisioned(r fleet.Router) *float64 {
	if r.ProvisionedConcurrency == 0 {
		return nil
	}
	return num(r.ProvisionedConcurrency)
}

// routerTimeout ends a routed request before API Gateway does, which gives up after 30 s.
const routerTimeout = 29

// recursion is whether jobs may come back to a function that led to them. Lambda follows a message from queue to function
// to queue and drops it at about the 16th pass through one function (AWS Lambda developer guide, "recursive loop
// detection"). A job of a job, as shards send them through the dispatch queue, passes through the router each time, so
// that a chain of them would end there without a word. How long one may be is ours to say, and is said in the job
// (shardkit.MaxHops). Without jobs there is no such way, and Lambda's rule stands.
func (p *plan) recursion() awslambda.RecursiveLoop {
	if p.fleet.Shard.Queue == nil {
		return awslambda.RecursiveLoop_TERMINATE
	}
	return awslambda.RecursiveLoop_ALLOW
}

// newRouter is the cell's routing function, by its alias.
func newRouter(core awscdk.Stack, p *plan, n network, key awssecretsmanager.Secret, s snapshots) awslambda.Alias {
	logs := newLogGroup(core, "RouterLogs", p.names.LogGroup("router"))
	role := routerRole(core, p, logs)
	key.GrantRead(role, nil)
	s.readBy(role)
	fn := awslambda.NewFunction(core, str("Router"), &awslambda.FunctionProps{
		FunctionName:                 str(p.names.Router()),
		Description:                  str("Routes tenants of cell " + p.cell.Name + " to their shards"),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 architecture(p.arch),
		Handler:                      str("bootstrap"),
		Code:                         awslambda.Code_FromAsset(str(p.routerDir), nil),
		Role:                         role,
		LogGroup:                     logs,
		MemorySize:                   num(p.fleet.Router.Memory),
		Timeout:                      seconds(routerTimeout),
		ReservedConcurrentExecutions: num(p.fleet.Router.ReservedConcurrency),
		RecursiveLoop:                p.recursion(),
		Vpc:                          n.vpc,
		VpcSubnets:                   n.placed(),
		SecurityGroups:               list(n.routerSG),
		Environment:                  variables(p.routerEnv),
	})
	live := awslambda.NewAlias(core, str("RouterLive"), &awslambda.AliasProps{
		AliasName: str(names.Alias), Version: fn.CurrentVersion(), ProvisionedConcurrentExecutions: provisioned(p.fleet.Router)})
	for _, region := range p.fleet.FrontDoors() {
		awslambda.NewCfnPermission(core, str("FrontDoor-"+region), &awslambda.CfnPermissionProps{
			FunctionName: live.FunctionArn(), Action: str("lambda:InvokeFunction"), Principal: str(frontDoorRoleARN(p.fleet, region))})
	}
	return live
}

// routerRole may do what routing needs: call the cell's shards, all of them, present and to come, by
// the pattern of their names, and no other cell's whose names match it; read single records of the directory, which entries and topologies are; write
// its log.
func routerRole(core awscdk.Stack, p *plan, logs awslogs.LogGroup) awsiam.Role {
	role := awsiam.NewRole(core, str("RouterRole"), &awsiam.RoleProps{
		RoleName:    str(p.names.RouterRole()), // the directory's policy in another account goes by this name
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		Description: str("Router of cell " + p.cell.Name + " of " + p.fleet.Service),
	})
	logs.GrantWrite(role)
	if p.fleet.Shard.Lambda != nil {
		invoke := []string{"lambda:InvokeFunction"}
		role.AddToPolicy(allow(invoke, p.arn("lambda", "function:"+workerPattern(p.names))))
		role.AddToPolicy(deny(invoke, p.arn("lambda", "function:"+p.otherCells(names.Shard.WorkerAlias))))
	}
	if p.fleet.Shard.Queue != nil {
		send := []string{"sqs:GetQueueUrl", "sqs:SendMessage"}
		role.AddToPolicy(allow(send, p.arn("sqs", queuePattern(p.names))))
		role.AddToPolicy(deny(send, p.arn("sqs", p.otherCells(names.Shard.Queue))))
		if p.fleet.Shard.Encryption == fleet.EncryptionOwn {
			role.AddToPolicy(useShardKeys(p, keySends, "sqs"))
		}
	}
	tables := []string{directoryARN(p.fleet, p.directoryRegion())}
	if asksHome(p.fleet, p.cell) {
		tables = append(tables, directoryARN(p.fleet, p.fleet.Directory.Region))
	}
	role.AddToPolicy(allow([]string{"dynamodb:GetItem"}, tables...))

	// Lambda itself attaches the function to the network in the role's name. None of these actions
	// can be narrowed to a resource that exists before the function does; the denial keeps them from
	// the function's own code (AWS Lambda developer guide, VPC permissions).
	attach := []string{"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses"}
	role.AddToPolicy(allow(attach, "*"))
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_DENY,
		Actions:   strs(attach...),
		Resources: strs("*"),
		Conditions: &map[string]any{"ArnEquals": map[string]any{
			"lambda:SourceFunctionArn": p.arn("lambda", "function:"+p.names.Router())}},
	}))
	return role
}

// newLogGroup keeps a log for a month.
func newLogGroup(st awscdk.Stack, id, name string) awslogs.LogGroup {
	return newEncryptedLogGroup(st, id, name, nil)
}

// newEncryptedLogGroup is one under a key, whose policy must let CloudWatch Logs use it; nil is a key of AWS.
func newEncryptedLogGroup(st awscdk.Stack, id, name string, key awskms.Key) awslogs.LogGroup {
	props := &awslogs.LogGroupProps{
		LogGroupName: str(name), Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: awscdk.RemovalPolicy_DESTROY}
	if key != nil {
		props.EncryptionKey = key
	}
	return awslogs.NewLogGroup(st, str(id), props)
}

func architecture(a Arch) awslambda.Architecture {
	if a == X86 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}
