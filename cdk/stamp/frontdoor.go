package stamp

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// frontDoorRoleARN is the role of a region's front door, by which cells know it.
func frontDoorRoleARN(f *fleet.Fleet, region string) string {
	return "arn:" + partition(region) + ":iam::" + f.Directory.Account + ":role/" + f.Names().FrontDoorRole(region)
}

// routerAliasARN is a cell's router as a front door invokes it.
func routerAliasARN(f *fleet.Fleet, c fleet.Cell) string {
	return arn("lambda", c.Region, c.Account, "function:"+f.NamesOf(c).RouterAlias())
}

// newFrontDoorRoles are the roles of the front doors of all regions. They stand in the global stack, which is
// deployed before any cell: a cell's router names them as those who may invoke it, and AWS wants a role that is
// named to exist.
func newFrontDoorRoles(global awscdk.Stack, f *fleet.Fleet) {
	for _, region := range f.FrontDoors() {
		role := awsiam.NewRole(global, str("FrontDoorRole-"+region), &awsiam.RoleProps{
			RoleName:    str(f.Names().FrontDoorRole(region)),
			AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
			Description: str("Front door of " + f.Service + " in " + region),
		})
		role.AddToPolicy(allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"},
			arn("logs", region, f.Directory.Account, "log-group:"+f.Names().LogGroup("frontdoor")+":*")))
		tables := []string{directoryARN(f, region)}
		if region != f.Directory.Region {
			tables = append(tables, directoryARN(f, f.Directory.Region))
		}
		role.AddToPolicy(allow([]string{"dynamodb:GetItem"}, tables...))
		var routers []string
		for _, c := range f.Cells {
			routers = append(routers, routerAliasARN(f, c))
		}
		role.AddToPolicy(allow([]string{"lambda:InvokeFunction"}, routers...))
		frontDoorSnapshots(f, region).openedBy(role, f.Directory.Account)
	}
}

// frontDoorSnapshots is where a region's front door has its snapshot.
func frontDoorSnapshots(f *fleet.Fleet, region string) snapshotPlace {
	return snapshotPlace{
		service: f.Service, cell: names.Global, about: "the front door of " + f.Service + " in " + region, region: region,
		bucket: f.Names().FrontDoorSnapshotBucket(f.Directory.Account, region),
		key:    f.Names().FrontDoorSnapshotKey(), mac: f.Names().FrontDoorSnapshotMAC(),
	}
}

// newFrontDoors is a stack for each region's front door: an API and the function behind it, and what keeps the
// snapshot that it starts from, outside of any cell.
func newFrontDoors(app awscdk.App, in Input, global awscdk.Stack) error {
	f := in.Fleet
	for _, region := range f.FrontDoors() {
		st := newStack(app, f, "frontdoor-"+region, f.Names().FrontDoorStack(), "Front door of "+f.Service+" in "+region,
			&awscdk.Environment{Account: str(f.Directory.Account), Region: str(region)}, map[string]string{names.TagService: f.Service})
		st.AddStackDependency(global, str("the role comes first"))
		env, err := frontDoorEnvironment(in, region)
		if err != nil {
			return err
		}
		s := newSnapshots(st, frontDoorSnapshots(f, region))
		newFrontDoorKeeper(st, in, region, s)
		role := awsiam.Role_FromRoleArn(st, str("Role"), str(frontDoorRoleARN(f, region)), &awsiam.FromRoleArnOptions{Mutable: no})
		fn := awslambda.NewFunction(st, str("FrontDoor"), &awslambda.FunctionProps{
			FunctionName:                 str(f.Names().FrontDoor()),
			Description:                  str("Sends tenants of " + f.Service + " to their cells"),
			Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
			Architecture:                 architecture(in.Arch),
			Handler:                      str("bootstrap"),
			Code:                         awslambda.Code_FromAsset(str(in.FrontDoor), nil),
			Role:                         role,
			LogGroup:                     newLogGroup(st, "Logs", f.Names().LogGroup("frontdoor")),
			MemorySize:                   num(f.FrontDoor.Memory),
			Timeout:                      seconds(routerTimeout),
			ReservedConcurrentExecutions: num(f.FrontDoor.ReservedConcurrency),
			Environment:                  variables(env),
		})
		live := awslambda.NewAlias(st, str("Live"), &awslambda.AliasProps{AliasName: str(names.Alias), Version: fn.CurrentVersion()})
		ingress := newAPI(st, api{name: f.Names().FrontDoorAPI(), about: "Ingress of " + f.Service, log: f.Names().AccessLog(), auth: f.Auth, function: live})
		newDoorAlarms(st, f, region, ingress.ApiId())
		createStateLast(st)
	}
	return nil
}

// directoryFormat is the partition of the directory's table in which it says of which format it is.
const directoryFormat = "META"

// newFrontDoorKeeper writes the front door's snapshot. It lists the tenants of all cells by the directory's index in
// its own region, and reads nothing else there but of which format the directory is.
func newFrontDoorKeeper(st awscdk.Stack, in Input, region string, s snapshots) {
	f := in.Fleet
	logs := newLogGroup(st, "KeeperLogs", f.Names().LogGroup("keeper"))
	role := awsiam.NewRole(st, str("KeeperRole"), &awsiam.RoleProps{
		RoleName:    str(f.Names().FrontDoorKeeperRole(region)),
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		Description: str("Keeper of " + s.place.about),
	})
	logs.GrantWrite(role)
	table := directoryARN(f, region)
	role.AddToPolicy(allow([]string{"dynamodb:Query"}, cellIndex(table)))
	role.AddToPolicy(inPartitions(allow([]string{"dynamodb:GetItem"}, table), directoryFormat))
	s.writtenBy(role)
	newKeeperFunction(st, keeperFunction{
		name: f.Names().FrontDoorKeeper(), about: s.place.about, folder: in.Keeper, arch: in.Arch, keeper: f.Keeper,
		role: role, logs: logs, env: frontDoorKeeperEnvironment(f, region),
		schedule: f.Names().FrontDoorKeeperSchedule(), scheduleARN: arn("events", region, f.Directory.Account, "rule/"+f.Names().FrontDoorKeeperSchedule()),
	})
}

// frontDoorKeeperEnvironment is what a front door's keeper is told. lambda/keeper reads exactly these.
func frontDoorKeeperEnvironment(f *fleet.Fleet, region string) map[string]string {
	env := map[string]string{
		"CELLWALL_SERVICE":          f.Service,
		"CELLWALL_CELLS":            frontDoorCells(f),
		"CELLWALL_DIRECTORY":        directoryARN(f, region),
		"CELLWALL_DIRECTORY_REGION": region,
		"CELLWALL_SNAPSHOT_BUCKET":  f.Names().FrontDoorSnapshotBucket(f.Directory.Account, region),
	}
	if f.Auth.Source == fleet.AuthVerify { // else the API verifies, and nobody waits for the issuer's keys
		env["CELLWALL_ISSUER"] = f.Auth.Issuer
	}
	return env
}

// frontDoorCells is where the cells are.
func frontDoorCells(f *fleet.Fleet) string {
	cells := map[string]string{}
	for _, c := range f.Cells {
		cells[c.Name] = c.Region + "/" + c.Account
	}
	text, err := json.Marshal(cells) // in sorted order
	if err != nil {
		panic(err) // unreachable: strings do encode
	}
	return string(text)
}

// frontDoorEnvironment is what a front door is told. lambda/frontdoor reads exactly these.
func frontDoorEnvironment(in Input, region string) (map[string]string, error) {
	f := in.Fleet
	auth, err := authText(f, nil)
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		"CELLWALL_SERVICE":               f.Service,
		"CELLWALL_ROLE":                  frontDoorRoleARN(f, region),
		"CELLWALL_AUTH":                  auth,
		"CELLWALL_DIRECTORY":             directoryARN(f, region),
		"CELLWALL_DIRECTORY_REGION":      region,
		"CELLWALL_DIRECTORY_HOME_REGION": f.Directory.Region,
		"CELLWALL_CELLS":                 frontDoorCells(f),
		"CELLWALL_SNAPSHOT_BUCKET":       f.Names().FrontDoorSnapshotBucket(f.Directory.Account, region),
	}
	if region != f.Directory.Region {
		env["CELLWALL_DIRECTORY_HOME"] = directoryARN(f, f.Directory.Region)
	}
	if f.Router.HashTenants {
		env["CELLWALL_HASH_TENANTS"] = "1"
	}
	if n := environmentSize(env); n > environmentLimit {
		return nil, in.At.Fault("frontDoor", fmt.Sprintf("the front door's environment takes %d bytes", n),
			fmt.Sprintf("Lambda has %d, and every cell's router stands there", environmentLimit), "have fewer cells, with shorter names, or no front door")
	}
	return env, nil
}
