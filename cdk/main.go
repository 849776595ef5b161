// Command cdk is the CDK app of cellwall: it reads fleet.yaml and stamps one Stage per cell. cdk.json
// names it, so it runs inside cdk synth and cdk deploy.
//
// Settings of the context (-c KEY=VALUE): fleet=FILE, cell=NAME for one cell alone, arch=x86_64 for
// functions that were built for that instead of arm64, newReplicas=REGION[,REGION] for the deployment
// that creates replicas of the directory there: their policies come with the next one.
package main

import (
	"fmt"
	"os"

	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/cdk/stamp"
)

func main() {
	err := stamp.Run(stamp.Options{})
	jsii.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
