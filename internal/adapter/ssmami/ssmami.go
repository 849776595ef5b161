// Package ssmami finds the current machine image of Amazon Linux 2023 by the public parameters of AWS Systems
// Manager.
package ssmami

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// Client is the part of *ssm.Client that is needed, of the region that is asked for.
type Client interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// readTimeout bounds all tries of one reading together.
const readTimeout = 20 * time.Second

// Parameter is the name of the public parameter with the id of the current image for an architecture, arm64 or x86_64,
// with the kernel that Amazon Linux has by default (Amazon Linux 2023 user guide, launching AL2023 using the SSM
// parameter).
func Parameter(architecture string) string {
	return "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-" + architecture
}

var image = regexp.MustCompile(`^ami-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// Latest returns the id of the current image in the client's region. It takes 20 s at most.
func Latest(ctx context.Context, client Client, architecture string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	name := Parameter(architecture)
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if err != nil {
		return "", fmt.Errorf("read parameter %s: %w", name, err)
	}
	if out.Parameter != nil {
		id = aws.ToString(out.Parameter.Value)
	}
	if !image.MatchString(id) {
		return "", fmt.Errorf("read parameter %s: %q is no id of a machine image", name, id)
	}
	return id, nil
}
