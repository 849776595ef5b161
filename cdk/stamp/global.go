package stamp

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// globalStackID is the id of the global stack in the app, beside the cells' names.
const globalStackID = "global"

// newGlobal is the one stack that belongs to no cell: the roles of the fleet's front doors, and the tenant
// directory, a global table with a replica in every region that the fleet names. Its keys are those of every table of ours
// (names.PartitionKey, names.SortKey); an entry is TENANT#<id>, ENTRY. The indexes list records by what
// the directory says they belong to, such as a cell; caches learn of changes by the stream, which a table
// with replicas has in this form anyway.
//
// AWS::DynamoDB::GlobalTable does not create a replica outside of the stack's region and give it a
// policy in one operation (Amazon DynamoDB developer guide, resource-based policy considerations), so
// the replicas that a deployment creates, fresh, get theirs with the next one.
func newGlobal(app awscdk.App, f *fleet.Fleet, fresh []string) awscdk.Stack {
	home := f.Directory
	st := newStack(app, f, globalStackID, names.ForFleet(f.Service).Stack(), "Tenant directory of "+f.Service,
		&awscdk.Environment{Account: str(home.Account), Region: str(home.Region)},
		map[string]string{names.TagService: f.Service})

	replicas := make([]*awsdynamodb.ReplicaTableProps, 0, len(home.Replicas))
	regions := slices.Clone(home.Replicas)
	slices.Sort(regions)
	for _, region := range regions {
		replica := &awsdynamodb.ReplicaTableProps{
			Region:                           str(region),
			DeletionProtection:               yes,
			PointInTimeRecoverySpecification: pointInTime(),
			Tags:                             replicaTags(f),
		}
		if !slices.Contains(fresh, region) {
			replica.ResourcePolicy = directoryPolicy(f, region)
		}
		replicas = append(replicas, replica)
	}
	newFrontDoorRoles(st, f)
	awsdynamodb.NewTableV2(st, str("Directory"), &awsdynamodb.TablePropsV2{
		TableName:    str(names.ForFleet(f.Service).DirectoryTable()),
		PartitionKey: stringKey(names.PartitionKey),
		SortKey:      stringKey(names.SortKey),
		GlobalSecondaryIndexes: &[]*awsdynamodb.GlobalSecondaryIndexPropsV2{
			directoryIndex(names.FirstIndex, names.FirstIndexKey), directoryIndex(names.SecondIndex, names.SecondIndexKey)},
		DynamoStream:                     awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES,
		Billing:                          awsdynamodb.Billing_OnDemand(nil),
		DeletionProtection:               yes,
		PointInTimeRecoverySpecification: pointInTime(),
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
		ResourcePolicy:                   directoryPolicy(f, home.Region),
		Tags:                             replicaTags(f),
		Replicas:                         &replicas,
	})
	newDirectoryAlarms(st, f, home.Region)
	createStateLast(st)
	return st
}

// newReplicaWatches is a stack for each region that has a replica: CloudWatch's alarms are on metrics of their own region,
// and a replica is made by the global stack, which stands in another.
func newReplicaWatches(app awscdk.App, f *fleet.Fleet, global awscdk.Stack) {
	for _, region := range slices.Sorted(slices.Values(f.Directory.Replicas)) {
		st := newStack(app, f, "watch-"+region, f.Names().WatchStack(), "Alarms of the tenant directory of "+f.Service+" in "+region,
			&awscdk.Environment{Account: str(f.Directory.Account), Region: str(region)}, map[string]string{names.TagService: f.Service})
		st.AddStackDependency(global, str("the replica comes first"))
		newDirectoryAlarms(st, f, region)
	}
}

// directoryIndex lists whole records by one attribute, whose values are as few as states of a tenant are.
// DynamoDB splits a busy value by the sort key, which is therefore the one of which there are many. Only
// listings read an index, but a write that it cannot take is throttled at the table.
func directoryIndex(name, key string) *awsdynamodb.GlobalSecondaryIndexPropsV2 {
	return &awsdynamodb.GlobalSecondaryIndexPropsV2{
		IndexName: str(name), PartitionKey: stringKey(key), SortKey: stringKey(names.PartitionKey), ProjectionType: awsdynamodb.ProjectionType_ALL}
}

// replicaTags are the tags of each replica, the one at home included: a global table has none of its own, which a stack's
// tags could come to.
func replicaTags(f *fleet.Fleet) *[]*awscdk.CfnTag {
	tags := []*awscdk.CfnTag{{Key: str(names.TagService), Value: str(f.Service)}}
	for _, key := range slices.Sorted(maps.Keys(f.Deploy.Tags)) {
		tags = append(tags, &awscdk.CfnTag{Key: str(key), Value: str(f.Deploy.Tags[key])})
	}
	return &tags
}

// directoryARN is the directory's table in one region.
func directoryARN(f *fleet.Fleet, region string) string {
	return arn("dynamodb", region, f.Directory.Account, "table/"+names.ForFleet(f.Service).DirectoryTable())
}

// directoryRegion is where a cell reads the directory: its own region where there is a replica.
func directoryRegion(f *fleet.Fleet, c fleet.Cell) string {
	if slices.Contains(f.Directory.Replicas, c.Region) {
		return c.Region
	}
	return f.Directory.Region
}

// asksHome says whether the cell's router, which reads a replica, asks the home region when that will not do.
// From a cell's own network without NAT there is no way there: gateway endpoints end in their own region, and AWS
// PrivateLink carries no requests to DynamoDB in another one.
func asksHome(f *fleet.Fleet, c fleet.Cell) bool {
	return directoryRegion(f, c) != f.Directory.Region && leadsOut(c)
}

// directoryPolicy lets the functions of cells in other accounts reach the directory in this region; nil when there
// are none, since a function of the directory's own account needs no more than its role's policy. Routers read
// single entries where they read; keepers list those of a cell there, and note suspects where the directory is
// written: in their cells' own partitions, or, where the cell has a quarantine, wherever it takes to pin a tenant.
//
// Whole accounts are named as principals, since a role must exist to be named, and the condition narrows them to
// the functions' roles. The roles are named one by one: a pattern would also match those of a service whose name
// begins with this one's, as orders-eu with orders.
func directoryPolicy(f *fleet.Fleet, region string) awsiam.PolicyDocument {
	var routers, keepers, afar, noting, pinning readers
	var partitions []string
	for _, c := range f.Cells {
		if c.Account == f.Directory.Account {
			continue
		}
		near, home := directoryRegion(f, c) == region, region == f.Directory.Region
		keeper := reading{c.Account, f.NamesOf(c).KeeperRole()}
		if near || home && asksHome(f, c) {
			routers = append(routers, reading{c.Account, f.NamesOf(c).RouterRole()})
		}
		if near {
			keepers = append(keepers, keeper)
		}
		switch {
		case home && len(c.Quarantine) > 0:
			pinning = append(pinning, keeper)
		case home:
			noting, partitions = append(noting, keeper), append(partitions, cellPartition(c.Name))
			if !near {
				afar = append(afar, keeper)
			}
		}
	}
	table := directoryARN(f, region)
	var statements []awsiam.PolicyStatement
	add := func(who readers, sid string, actions []string, resources ...string) {
		if len(who) > 0 {
			statements = append(statements, who.may(sid, region, actions, resources...))
		}
	}
	add(routers, "RoutersReadEntries", []string{"dynamodb:GetItem"}, table)
	add(keepers, "KeepersReadCells", keeperReads, table, cellIndex(table))
	add(pinning, "KeepersQuarantine", quarantines, table)
	add(afar, "KeepersReadNotes", []string{"dynamodb:GetItem"}, table)
	if len(noting) > 0 {
		slices.Sort(partitions)
		statements = append(statements, inPartitions(noting.may("KeepersNoteSuspects", region, []string{"dynamodb:UpdateItem"}, table), partitions...))
	}
	if len(statements) == 0 {
		return nil
	}
	return awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements})
}

// readers are roles of other accounts.
type readers []reading

type reading struct{ account, role string }

// may lets the roles do this.
func (r readers) may(sid, region string, actions []string, resources ...string) awsiam.PolicyStatement {
	var accounts, roles []string
	for _, one := range r {
		accounts = append(accounts, one.account)
		roles = append(roles, "arn:"+partition(region)+":iam::"+one.account+":role/"+one.role)
	}
	slices.Sort(roles)
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	principals := make([]awsiam.IPrincipal, len(accounts))
	for i, a := range accounts {
		principals[i] = awsiam.NewAccountPrincipal(a)
	}
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        str(sid),
		Principals: &principals,
		Actions:    strs(actions...),
		Resources:  strs(resources...),
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:PrincipalArn": roles}},
	})
}
