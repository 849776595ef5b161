package stamp

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"cellwall.dev/cellwall/internal/fleet"
)

// newURL is a Function URL as the cell's ingress. With source iam Lambda verifies the caller; with verify it lets
// everybody through to the router, which verifies tokens itself.
//
// Who calls by a URL needs leave for two actions, one of which is narrowed to calls by the URL (AWS Lambda developer
// guide, control access to function URLs; since October 2025). With verify everybody gets both, from the CDK. With iam
// a principal of the cell's own account has them by its own policies alone, and one of another account needs them here,
// too: that account is named as a whole, since Lambda takes no principal that is not there, and which of its roles may
// call, its own policies say. The router answers those alone whose tenant the fleet names.
func newURL(core awscdk.Stack, p *plan, router awslambda.Alias) {
	kind, mode := awslambda.FunctionUrlAuthType_NONE, awslambda.InvokeMode_BUFFERED
	if p.fleet.Auth.Source == fleet.AuthIAM {
		kind = awslambda.FunctionUrlAuthType_AWS_IAM
	}
	if p.fleet.Router.Stream {
		mode = awslambda.InvokeMode_RESPONSE_STREAM
	}
	router.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: kind, InvokeMode: mode})
	for _, account := range accountsOf(p.fleet.Auth) {
		if account == p.cell.Account {
			continue
		}
		awslambda.NewCfnPermission(core, str("Url-"+account), &awslambda.CfnPermissionProps{
			FunctionName: router.FunctionArn(), Action: str("lambda:InvokeFunctionUrl"), Principal: str(account), FunctionUrlAuthType: str("AWS_IAM")})
		awslambda.NewCfnPermission(core, str("InvokeByUrl-"+account), &awslambda.CfnPermissionProps{
			FunctionName: router.FunctionArn(), Action: str("lambda:InvokeFunction"), Principal: str(account), InvokedViaFunctionUrl: yes})
	}
}

// accountsOf are the accounts of the principals that may ask, in order; none where nobody asks by IAM.
func accountsOf(a fleet.Auth) []string {
	var accounts []string
	for principal := range a.Principals {
		accounts = append(accounts, strings.Split(principal, ":")[4]) // the fleet's principals are ARNs of IAM
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}
