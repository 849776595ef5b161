// Command cdk is the CDK app of cellwall: it reads fleet.yaml and synthesises one Stage per cell.
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awsautoscaling"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awsroute53targets"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	_ "github.com/aws/aws-cdk-go/awscdk/v2/awsssm"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	app.Synth(nil)
}
