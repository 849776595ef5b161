// Package first makes what a function's environment may never need when it is first asked for, so that a cold start
// does not wait for it: the SDK's configuration, and its clients.
package first

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Settings loads the SDK's configuration, once. It reads the environment, and files where there are any.
func Settings() func() (aws.Config, error) {
	return sync.OnceValues(func() (aws.Config, error) {
		settings, err := config.LoadDefaultConfig(context.Background())
		if err != nil {
			return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
		}
		return settings, nil
	})
}

// Client makes a client of the configuration, once. It is for the functions Lazy of the adapters.
func Client[C any](settings func() (aws.Config, error), make func(aws.Config) C) func() (C, error) {
	return sync.OnceValues(func() (client C, err error) {
		c, err := settings()
		if err != nil {
			return client, err
		}
		return make(c), nil
	})
}
