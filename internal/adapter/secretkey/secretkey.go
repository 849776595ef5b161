// Package secretkey reads a cell's placement key from AWS Secrets Manager.
package secretkey

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// How long a router waits for its key when it starts; Lambda gives its start 10 s.
const (
	connectTimeout = time.Second
	tryTimeout     = 2 * time.Second
	readTimeout    = 5 * time.Second // all tries together
)

// AtStart makes a client fit for an environment's start: a try that hangs leaves time for others.
func AtStart(o *secretsmanager.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
}

// keyBytes is the length of a cell's key.
const keyBytes = 32

// Client is the part of *secretsmanager.Client that is needed.
type Client interface {
	GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// Read returns one version of a cell's key. The secret's value is {"1":"<64 hexadecimal digits>", …}, a
// key for each version. No error repeats any of it. It takes 5 s at most.
func Read(ctx context.Context, client Client, secret, version string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	if err != nil {
		return nil, fmt.Errorf("read the placement key from secret %s: %w", secret, err)
	}
	key, err := parse(aws.ToString(out.SecretString), version)
	if err != nil {
		return nil, fmt.Errorf("placement key in secret %s: %w", secret, err)
	}
	return key, nil
}

func parse(value, version string) ([]byte, error) {
	var versions map[string]string
	if json.Unmarshal([]byte(value), &versions) != nil {
		return nil, errors.New(`want an object {"version":"64 hexadecimal digits"}`)
	}
	text, ok := versions[version]
	if !ok {
		return nil, fmt.Errorf("version %s is not there", version)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("version %s is not %d hexadecimal digits", version, 2*keyBytes)
	}
	return key, nil
}
