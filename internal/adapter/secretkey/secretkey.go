// Package secretkey reads a cell's placement keys from AWS Secrets Manager, and adds versions there.
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

// How long a request waits for keys that are not known yet.
const (
	connectTimeout = time.Second
	tryTimeout     = 2 * time.Second
	readTimeout    = 5 * time.Second // all tries together
)

// ForRequests makes a client fit for use while somebody waits: a try that hangs leaves time for others.
func ForRequests(o *secretsmanager.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
}

// keyBytes is the length of a cell's key.
const keyBytes = 32

// ErrVersion means that the secret has no key of the version that was asked for, or one that is none. It
// comes wrapped.
var ErrVersion = errors.New("the secret has no such key")

// Client is the part of *secretsmanager.Client that is needed.
type Client interface {
	GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// Read returns one version of a cell's key. The secret's value is {"1":"<64 hexadecimal digits>", …}, a
// key for each version. No error repeats any of it. It takes 5 s at most.
func Read(ctx context.Context, client Client, secret, version string) ([]byte, error) {
	keys, err := readAll(ctx, client, secret)
	if err != nil {
		return nil, err
	}
	return keys.version(secret, version)
}

// Made is when the secret's newest value was made, which is when a version was added last: none is ever changed. It
// takes 5 s at most.
func Made(ctx context.Context, client Client, secret string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("read when secret %s got its value: %w", secret, err)
	case out.CreatedDate == nil:
		return time.Time{}, fmt.Errorf("secret %s does not say when it got its value", secret)
	}
	return *out.CreatedDate, nil
}

// versions are the digits of a secret's keys.
type versions map[string]string

func readAll(ctx context.Context, client Client, secret string) (versions, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	if err != nil {
		return nil, fmt.Errorf("read the placement keys from secret %s: %w", secret, err)
	}
	return parse(secret, aws.ToString(out.SecretString))
}

func parse(secret, value string) (versions, error) {
	var keys versions
	if json.Unmarshal([]byte(value), &keys) != nil || keys == nil {
		return nil, fmt.Errorf(`placement keys in secret %s: want an object {"version":"64 hexadecimal digits"}`, secret)
	}
	return keys, nil
}

func (v versions) version(secret, version string) ([]byte, error) {
	text, ok := v[version]
	if !ok {
		return nil, fmt.Errorf("placement key in secret %s: version %s is not there: %w", secret, version, ErrVersion)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("placement key in secret %s: version %s is not %d hexadecimal digits: %w", secret, version, 2*keyBytes, ErrVersion)
	}
	return key, nil
}
