package stamp

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet"
)

// api is an HTTP API that hands everything to one function.
type api struct {
	name, about string
	log         string // name of the log group that it writes to
	auth        fleet.Auth
	function    awslambda.Alias
}

// newAPI is an ingress, which verifies the caller as the fleet says.
func newAPI(st awscdk.Stack, a api) awsapigatewayv2.HttpApi {
	ingress := awsapigatewayv2.NewHttpApi(st, str("Api"), &awsapigatewayv2.HttpApiProps{
		ApiName:            str(a.name),
		Description:        str(a.about),
		DefaultAuthorizer:  newAuthorizer(st, a),
		DefaultIntegration: awsapigatewayv2integrations.NewHttpLambdaIntegration(str("Router"), a.function, nil),
	})
	logs := newLogGroup(st, "ApiLogs", a.log)
	stage := ingress.DefaultStage().Node().DefaultChild().(awsapigatewayv2.CfnStage)
	stage.SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		// By its derived name: the reference that the CDK has is the ARN of the group's streams.
		DestinationArn: str(arn("logs", *st.Region(), *st.Account(), "log-group:"+a.log)),
		Format:         str(accessLine),
	})
	stage.AddResourceDependency(logs.Node().DefaultChild().(awscdk.CfnResource), str("named by its derived name"))
	return ingress
}

// accessLine is what the API writes of a request, as JSON: what it did with it, and what it refused and why, which no
// function sees. Neither headers, so that no token is in it, nor the path, in which a tenant may be named (auth.pathTenant)
// that the fleet wants to have hashed; what routers do with a request, and for whom, is in their own lines. The
// members' values are API Gateway's (API Gateway developer guide, "Customize HTTP API access logs").
const accessLine = `{"requestId":"$context.requestId","time":"$context.requestTime","ip":"$context.identity.sourceIp",` +
	`"method":"$context.httpMethod","protocol":"$context.protocol","status":"$context.status",` +
	`"bytes":"$context.responseLength","ms":"$context.responseLatency",` +
	`"functionStatus":"$context.integration.status","functionMs":"$context.integration.latency",` +
	`"refused":"$context.error.responseType","why":"$context.authorizer.error"}`

// standsIn says whether the resource of an ARN is of this account and region. A stack can let its API invoke a
// function there, and no other: of that one, its owner does (docs/deploying.md).
func standsIn(arn, account, region string) bool {
	words := strings.Split(arn, ":")
	return len(words) > 5 && words[3] == region && words[4] == account
}

// newAuthorizer verifies callers before the function is asked; with source verify nobody does, and the function
// verifies tokens itself.
func newAuthorizer(st awscdk.Stack, a api) awsapigatewayv2.IHttpRouteAuthorizer {
	switch a.auth.Source {
	case fleet.AuthIAM:
		return awsapigatewayv2authorizers.NewHttpIamAuthorizer()
	case fleet.AuthLambda:
		ours := standsIn(a.auth.AuthorizerARN, *st.Account(), *st.Region())
		fn := awslambda.Function_FromFunctionAttributes(st, str("Authorizer"), &awslambda.FunctionAttributes{
			FunctionArn: str(a.auth.AuthorizerARN), SameEnvironment: jsii.Bool(ours), SkipPermissions: jsii.Bool(!ours)})
		return awsapigatewayv2authorizers.NewHttpLambdaAuthorizer(str("Caller"), fn, &awsapigatewayv2authorizers.HttpLambdaAuthorizerProps{
			ResponseTypes: list(awsapigatewayv2authorizers.HttpLambdaResponseType_SIMPLE),
			// An answer that is remembered would be that of another token, if the header were not the source.
			IdentitySource: strs("$request.header.Authorization"),
		})
	case fleet.AuthVerify:
		return awsapigatewayv2.NewHttpNoneAuthorizer()
	}
	return awsapigatewayv2authorizers.NewHttpJwtAuthorizer(str("Token"), str(a.auth.Issuer),
		&awsapigatewayv2authorizers.HttpJwtAuthorizerProps{JwtAudience: strs(a.auth.Audience)})
}
