package secretkey

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// Lazy is a client that is made when something is first asked of it. make should remember what it made; its error is
// that of whatever is asked.
func Lazy(make func() (Client, error)) Client { return lazy(make) }

type lazy func() (Client, error)

func (l lazy) GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, o ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	c, err := l()
	if err != nil {
		return nil, err
	}
	return c.GetSecretValue(ctx, in, o...)
}
