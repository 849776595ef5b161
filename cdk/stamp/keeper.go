package stamp

import (
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// keeperTimeout is for one snapshot, in seconds: a large cell's tenants are many pages.
const keeperTimeout = 300

// newKeeper is the cell's keeper function, by its schedule. It is outside the cell's network, since the token
// issuer whose keys it keeps is on the Internet; the rest of what it reads are AWS's regional services.
func newKeeper(core awscdk.Stack, p *plan, key awssecretsmanager.Secret, s snapshots) {
	logs := newLogGroup(core, "KeeperLogs", p.names.LogGroup("keeper"))
	role := keeperRole(core, p, logs)
	key.GrantRead(role, nil)
	s.writtenBy(role)
	fn := awslambda.NewFunction(core, str("Keeper"), &awslambda.FunctionProps{
		FunctionName:                 str(p.names.Keeper()),
		Description:                  str("Writes the snapshot of cell " + p.cell.Name + " of " + p.fleet.Service),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 architecture(p.arch),
		Handler:                      str("bootstrap"),
		Code:                         awslambda.Code_FromAsset(str(p.keeperDir), nil),
		Role:                         role,
		LogGroup:                     logs,
		MemorySize:                   num(p.fleet.Keeper.Memory),
		Timeout:                      seconds(keeperTimeout),
		ReservedConcurrentExecutions: num(fleet.KeeperConcurrency),
		RetryAttempts:                num(0), // the next run comes anyway
		MaxEventAge:                  seconds(60),
		Environment:                  variables(p.keeperEnvironment()),
	})
	live := awslambda.NewAlias(core, str("KeeperLive"), &awslambda.AliasProps{
		AliasName: str(names.Alias), Version: fn.CurrentVersion()})
	awsevents.NewRule(core, str("KeeperSchedule"), &awsevents.RuleProps{
		Description: str("Snapshots of cell " + p.cell.Name + " of " + p.fleet.Service),
		Schedule:    awsevents.Schedule_Rate(seconds(int(p.fleet.Keeper.Every.Seconds()))),
		Targets: list[awsevents.IRuleTarget](awseventstargets.NewLambdaFunction(live, &awseventstargets.LambdaFunctionProps{
			RetryAttempts: num(0), MaxEventAge: seconds(60)})),
	})
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
	role.AddToPolicy(allow(keeperReads, table, table+"/index/*"))
	var looks []string
	if p.service != nil {
		looks = append(looks, "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth")
	}
	if p.fleet.Shard.Lambda != nil {
		looks = append(looks, "cloudwatch:GetMetricData")
	}
	if len(looks) > 0 {
		role.AddToPolicy(allow(looks, "*"))
	}
	return role
}

// keeperReads are the keeper's actions on the directory.
var keeperReads = []string{"dynamodb:GetItem", "dynamodb:Query"}

// keeperEnvironment is what the keeper is told. lambda/keeper reads exactly these.
func (p *plan) keeperEnvironment() map[string]string {
	env := map[string]string{
		"CELLWALL_SERVICE":          p.fleet.Service,
		"CELLWALL_CELL":             p.cell.Name,
		"CELLWALL_KEY_SECRET":       p.names.PlacementKey(),
		"CELLWALL_DIRECTORY":        directoryARN(p.fleet, p.directoryRegion()),
		"CELLWALL_DIRECTORY_REGION": p.directoryRegion(),
		"CELLWALL_SNAPSHOT_BUCKET":  p.names.SnapshotBucket(p.cell.Account, p.cell.Region),
		"CELLWALL_ISSUER":           p.fleet.Auth.Issuer,
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
