package stamp

import (
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// keeperTimeout is for one snapshot, in seconds: a large cell's tenants are many pages.
const keeperTimeout = 300

// newKeeper is the cell's keeper function with its schedule, by its version. It is outside the cell's network, since the token
// issuer whose keys it keeps is on the Internet; the rest of what it reads are AWS's regional services.
func newKeeper(core awscdk.Stack, p *plan, key awssecretsmanager.Secret, s snapshots) awslambda.Version {
	logs := newLogGroup(core, "KeeperLogs", p.names.LogGroup("keeper"))
	role := keeperRole(core, p, logs)
	key.GrantRead(role, nil)
	s.writtenBy(role)
	return newKeeperFunction(core, keeperFunction{
		name: p.names.Keeper(), about: p.snapshotPlace().about, folder: p.keeperDir, arch: p.arch, keeper: p.fleet.Keeper,
		role: role, logs: logs, env: p.keeperEnvironment(),
		schedule: p.names.KeeperSchedule(), scheduleARN: p.arn("events", "rule/"+p.names.KeeperSchedule()),
	})
}

// keeperFunction is what is different from keeper to keeper: a cell's, or a front door's.
type keeperFunction struct {
	name, about           string
	folder                string
	arch                  Arch
	keeper                fleet.Keeper
	role                  awsiam.Role
	logs                  awslogs.LogGroup
	env                   map[string]string
	schedule, scheduleARN string
}

// newKeeperFunction is a keeper with its schedule, by its version.
func newKeeperFunction(st awscdk.Stack, k keeperFunction) awslambda.Version {
	fn := awslambda.NewFunction(st, str("Keeper"), &awslambda.FunctionProps{
		FunctionName:                 str(k.name),
		Description:                  str("Writes the snapshot of " + k.about),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 architecture(k.arch),
		Handler:                      str("bootstrap"),
		Code:                         awslambda.Code_FromAsset(str(k.folder), nil),
		Role:                         k.role,
		LogGroup:                     k.logs,
		MemorySize:                   num(k.keeper.Memory),
		Timeout:                      seconds(keeperTimeout),
		ReservedConcurrentExecutions: num(fleet.KeeperConcurrency),
		Environment:                  variables(k.env),
	})
	// Of the alias, by which it is invoked: what the function says of itself holds for $LATEST alone.
	live := awslambda.NewAlias(st, str("KeeperLive"), &awslambda.AliasProps{
		AliasName: str(names.Alias), Version: fn.CurrentVersion(), RetryAttempts: num(0), MaxEventAge: seconds(keeperPatience)})
	newKeeperSchedule(st, k, live)
	return fn.CurrentVersion()
}

// keeperPatience is how many seconds a run that is due may wait. After that the next one is.
const keeperPatience = 60

// newKeeperSchedule has a keeper write. The rule is of the bare CloudFormation type: the permission knows it by
// its derived ARN instead of by reference, so that createStateLast can have it wait for the bucket. A rate counts
// from the rule's creation, so that a first deployment is through, or failed, before anything lies in the bucket
// that would keep CloudFormation from taking it back.
func newKeeperSchedule(st awscdk.Stack, k keeperFunction, live awslambda.Alias) {
	awsevents.NewCfnRule(st, str("KeeperSchedule"), &awsevents.CfnRuleProps{
		Name:               str(k.schedule),
		Description:        str("Snapshots of " + k.about),
		ScheduleExpression: awsevents.Schedule_Rate(seconds(int(k.keeper.Every.Seconds()))).ExpressionString(),
		Targets: list(&awsevents.CfnRule_TargetProperty{
			Id: str("keeper"), Arn: live.FunctionArn(), Input: str("{}"),
			RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{MaximumRetryAttempts: num(0), MaximumEventAgeInSeconds: num(keeperPatience)}}),
	})
	awslambda.NewCfnPermission(st, str("KeeperScheduled"), &awslambda.CfnPermissionProps{
		FunctionName: live.FunctionArn(), Action: str("lambda:InvokeFunction"), Principal: str("events.amazonaws.com"),
		SourceArn: str(k.scheduleARN)})
}

// keeperRole may read what a snapshot holds: the cell's entries by the directory's index, its topologies and
// drains, and what the load balancers and CloudWatch say of its shards. Neither of the latter two can be narrowed.
func keeperRole(core awscdk.Stack, p *plan, logs awslogs.LogGroup) awsiam.Role {
	role := awsiam.NewRole(core, str("KeeperRole"), &awsiam.RoleProps{
		RoleName:    str(p.names.KeeperRole()), // the directory's policy in another account goes by this name
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		Description: str("Keeper of cell " + p.cell.Name + " of " + p.fleet.Service),
	})
	logs.GrantWrite(role)
	table := directoryARN(p.fleet, p.directoryRegion())
	role.AddToPolicy(allow(keeperReads, table, cellIndex(table)))
	for _, s := range suspicion(p) {
		role.AddToPolicy(s)
	}
	looks := []string{"cloudwatch:GetMetricData"}
	if p.service != nil {
		looks = append(looks, "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth")
	}
	role.AddToPolicy(allow(looks, "*"))
	return role
}

// keeperReads are the keeper's actions on the directory's table and the index that lists a cell's tenants.
var keeperReads = []string{"dynamodb:GetItem", "dynamodb:Query"}

func cellIndex(table string) string { return table + "/index/" + names.FirstIndex }

// keeperEnvironment is what the keeper is told. lambda/keeper reads exactly these.
func (p *plan) keeperEnvironment() map[string]string {
	env := p.suspicionEnvironment()
	for name, value := range map[string]string{
		"CELLWALL_SERVICE":          p.fleet.Service,
		"CELLWALL_CELL":             p.cell.Name,
		"CELLWALL_KEY_SECRET":       p.names.PlacementKey(),
		"CELLWALL_DIRECTORY":        directoryARN(p.fleet, p.directoryRegion()),
		"CELLWALL_DIRECTORY_REGION": p.directoryRegion(),
		"CELLWALL_SNAPSHOT_BUCKET":  p.names.SnapshotBucket(p.cell.Account, p.cell.Region),
	} {
		env[name] = value
	}
	p.addGeneration(env)
	// Where nothing in the cell verifies tokens, nobody waits for the issuer, and its outage is no fault of a run's.
	if p.fleet.Auth.Source == fleet.AuthVerify || p.fleet.FrontDoor != nil {
		env["CELLWALL_ISSUER"] = p.fleet.Auth.Issuer
	}
	if p.fleet.Shard.Lambda != nil {
		env["CELLWALL_SLICES"] = "1"
	}
	if p.fleet.Shard.Queue != nil {
		env["CELLWALL_QUEUES"] = "1"
	}
	if p.service != nil {
		env["CELLWALL_PORT"] = strconv.Itoa(p.service.Port)
		env["CELLWALL_BALANCERS"] = names.OwnBalancer
		if len(p.groups) > 0 {
			env["CELLWALL_BALANCERS"] = strings.Join(p.groups, " ")
		}
	}
	return env
}
