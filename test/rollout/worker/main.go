// Command worker is a slice whose answer is the version that it was built as, so that a test sees which one is deployed.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

// version is set by the linker.
var version = "none"

func main() {
	lambda.Start(func(context.Context) (string, error) { return version, nil })
}
