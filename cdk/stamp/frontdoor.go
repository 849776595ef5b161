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
	}
}

// newFrontDoors is a stack for each region's front door: an API and the function behind it, outside of any cell.
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
		newAPI(st, api{name: f.Names().FrontDoorAPI(), about: "Ingress of " + f.Service, auth: f.Auth, function: live})
	}
	return nil
}

// frontDoorEnvironment is what a front door is told. lambda/frontdoor reads exactly these.
func frontDoorEnvironment(in Input, region string) (map[string]string, error) {
	f := in.Fleet
	cells := map[string]string{}
	for _, c := range f.Cells {
		cells[c.Name] = c.Region + "/" + c.Account
	}
	auth, err := authText(f, nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(cells) // in sorted order
	if err != nil {
		return nil, fmt.Errorf("CELLWALL_CELLS cannot be written: %w", err)
	}
	env := map[string]string{
		"CELLWALL_SERVICE":               f.Service,
		"CELLWALL_ROLE":                  frontDoorRoleARN(f, region),
		"CELLWALL_AUTH":                  auth,
		"CELLWALL_DIRECTORY":             directoryARN(f, region),
		"CELLWALL_DIRECTORY_REGION":      region,
		"CELLWALL_DIRECTORY_HOME_REGION": f.Directory.Region,
		"CELLWALL_CELLS":                 string(text),
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
