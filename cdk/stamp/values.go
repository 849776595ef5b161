package stamp

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// The CDK's Go binding takes pointers; these make them.
var (
	yes = jsii.Bool(true)
	no  = jsii.Bool(false)
	str = jsii.String
)

func num(n int) *float64               { return jsii.Number(float64(n)) }
func seconds(n int) awscdk.Duration    { return awscdk.Duration_Seconds(num(n)) }
func days(n int) awscdk.Duration       { return awscdk.Duration_Days(num(n)) }
func list[T any](values ...T) *[]T     { return &values }
func strs(values ...string) *[]*string { return jsii.Strings(values...) }

// partition is the AWS partition of a region, the second word of its ARNs.
func partition(region string) string { return names.Partition(region) }

// arn names a resource by account, region and derived name, so that no stack needs another's output.
func arn(service, region, account, resource string) string {
	return strings.Join([]string{"arn", partition(region), service, region, account, resource}, ":")
}

// allow is one statement of a role's policy.
func allow(actions []string, resources ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: strs(actions...), Resources: strs(resources...)})
}

// deny forbids what another statement allows.
func deny(actions []string, resources ...string) awsiam.PolicyStatement {
	statement := allow(actions, resources...)
	statement.SetEffect(awsiam.Effect_DENY)
	return statement
}
