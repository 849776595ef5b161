package ssmami

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// get is a Client.
type get func(ctx context.Context, name string) (*ssm.GetParameterOutput, error)

func (g get) GetParameter(ctx context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	return g(ctx, *in.Name)
}

func value(text string) *ssm.GetParameterOutput {
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: &text}}
}

func TestLatest(t *testing.T) {
	published := map[string]string{
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64":  "ami-0123456789abcdef0",
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64": "ami-01234567",
	}
	for architecture, want := range map[string]string{"arm64": "ami-0123456789abcdef0", "x86_64": "ami-01234567"} {
		id, err := Latest(t.Context(), get(func(_ context.Context, name string) (*ssm.GetParameterOutput, error) {
			return value(published[name]), nil
		}), architecture)
		if err != nil || id != want {
			t.Errorf("%s: %q, %v", architecture, id, err)
		}
	}
}

func TestLatestRefuses(t *testing.T) {
	down := errors.New("no route")
	for what, c := range map[string]struct {
		out *ssm.GetParameterOutput
		err error
	}{
		"down": {nil, down}, "nothing": {&ssm.GetParameterOutput{}, nil}, "empty": {value(""), nil},
		"no image": {value("ami-xyz"), nil}, "two": {value("ami-01234567 ami-01234567"), nil},
	} {
		id, err := Latest(t.Context(), get(func(context.Context, string) (*ssm.GetParameterOutput, error) { return c.out, c.err }), "arm64")
		if err == nil || id != "" || !strings.Contains(err.Error(), Parameter("arm64")) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", what, id, err)
		}
	}
}

func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := Latest(t.Context(), get(func(ctx context.Context, _ string) (*ssm.GetParameterOutput, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), "arm64")
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != readTimeout { // by the bubble's clock
			t.Errorf("after %v: %v", took, err)
		}
	})
}
