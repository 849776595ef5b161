package stamp

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// The keeper hears from the routers' log which tenants take down one shard after another, and notes them in the
// directory; where the cell has a quarantine, it pins them to that (internal/quarantine).

// verdicts matches the lines of the router's log that are the router's own word on a tenant: by the msg of the
// whole line, so that nothing that a client sends can look like one.
const verdicts = `{ $.msg = "poison verdict" }`

// How often the keeper is asked again to hear a verdict, and for how many seconds: a verdict is told once, and may meet
// a run that takes all of keeperTimeout, or a directory that does not answer for a while.
const (
	hearAttempts = 2
	hearPatience = 3600
)

// newVerdicts has the keeper hear them, by an alias of their own: how long an event may wait is a matter of the alias
// by which it comes, and a run that is due waits for keeperPatience alone.
func newVerdicts(core awscdk.Stack, p *plan, version awslambda.Version) {
	keeper := awslambda.NewAlias(core, str("KeeperEar"), &awslambda.AliasProps{
		AliasName: str(names.EarAlias), Version: version, RetryAttempts: num(hearAttempts), MaxEventAge: seconds(hearPatience)})
	logs := p.names.LogGroup("router")
	permission := awslambda.NewCfnPermission(core, str("KeeperHears"), &awslambda.CfnPermissionProps{
		FunctionName: keeper.FunctionArn(), Action: str("lambda:InvokeFunction"), Principal: str("logs.amazonaws.com"),
		SourceArn: str(p.arn("logs", "log-group:"+logs+":*")), SourceAccount: str(p.cell.Account)})
	filter := awslogs.NewCfnSubscriptionFilter(core, str("Verdicts"), &awslogs.CfnSubscriptionFilterProps{
		LogGroupName: str(logs), FilterPattern: str(verdicts), DestinationArn: keeper.FunctionArn()})
	filter.AddResourceDependency(permission, str("CloudWatch Logs asks the function whether it may, at once"))
	filter.AddResourceDependency(core.Node().FindChild(str("RouterLogs")).Node().DefaultChild().(awscdk.CfnResource), str("named by its derived name"))
}

// quarantines are what the keeper of a cell with a quarantine does to the directory where it is written: read
// entries, shards and notes, and write them by one transaction; and, when one was interrupted, look for it in the
// tenant's history.
var quarantines = []string{"dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}

// cellPartition is the partition of the directory's table that a cell's own records are in.
func cellPartition(cell string) string { return "CELL#" + cell }

// suspicion is what the keeper's role may do about suspects. Without a quarantine it writes its cell's own records
// alone, whose partition DynamoDB tells from the tenants'.
func suspicion(p *plan) []awsiam.PolicyStatement {
	home := directoryARN(p.fleet, p.fleet.Directory.Region)
	if len(p.cell.Quarantine) == 0 {
		return []awsiam.PolicyStatement{allow([]string{"dynamodb:GetItem"}, home), inPartitions(allow([]string{"dynamodb:UpdateItem"}, home), cellPartition(p.cell.Name))}
	}
	statements := []awsiam.PolicyStatement{allow(quarantines, home)}
	var holdings []string
	switch p.holdings() {
	case holdingsTable:
		for _, s := range p.shards {
			holdings = append(holdings, p.arn("dynamodb", "table/"+s.names.Table()))
		}
	case holdingsStore:
		holdings = append(holdings, p.arn("dynamodb", "table/"+p.names.Store()))
	}
	if len(holdings) > 0 {
		statements = append(statements, allow([]string{"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:UpdateItem"}, holdings...))
	}
	if p.holdings() == holdingsTable && p.fleet.Shard.Encryption == fleet.EncryptionOwn {
		statements = append(statements, useShardKeys(p, keyUses, "dynamodb"))
	}
	return statements
}

// inPartitions narrows a statement on a table to some of its partitions.
func inPartitions(s awsiam.PolicyStatement, partitions ...string) awsiam.PolicyStatement {
	s.AddCondition(str("ForAllValues:StringEquals"), map[string]any{"dynamodb:LeadingKeys": partitions})
	return s
}

// Where shards keep whom they hold, as lambda/keeper calls it.
const (
	holdingsTable = "table"
	holdingsStore = "store"
)

func (p *plan) holdings() string {
	switch {
	case p.fleet.Shard.Table != nil:
		return holdingsTable
	case p.fleet.Shard.State.Mode == fleet.StateCell:
		return holdingsStore
	}
	return ""
}

// suspicionEnvironment is what the keeper is told of suspects.
func (p *plan) suspicionEnvironment() map[string]string {
	env := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			env[name] = value
		}
	}
	if home := p.fleet.Directory.Region; p.directoryRegion() != home {
		set("CELLWALL_DIRECTORY_HOME", directoryARN(p.fleet, home))
		set("CELLWALL_DIRECTORY_HOME_REGION", home)
	}
	set("CELLWALL_QUARANTINE", strings.Join(p.cell.Quarantine, " "))
	set("CELLWALL_HOLDINGS", p.holdings())
	if p.fleet.Shard.State.Mode == fleet.StateHome {
		set("CELLWALL_STATEFUL", "1")
	}
	if p.fleet.Router.HashTenants {
		set("CELLWALL_HASH_TENANTS", "1")
	}
	return env
}
