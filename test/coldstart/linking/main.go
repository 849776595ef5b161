// Command linking is what a cell's router is measured beside: a function that does nothing and links the SDK
// clients that the router links. With BUILD=1 it also builds them at its start, as functions usually do.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// clients are the router's, with what it calls, so that the linker keeps the same of each.
type clients struct {
	dynamodb *dynamodb.Client
	kms      *kms.Client
	lambda   *awslambda.Client
	s3       *s3.Client
	secrets  *secretsmanager.Client
	sqs      *sqs.Client
}

func build(ctx context.Context) (*clients, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return &clients{
		dynamodb.NewFromConfig(settings), kms.NewFromConfig(settings), awslambda.NewFromConfig(settings),
		s3.NewFromConfig(settings), secretsmanager.NewFromConfig(settings), sqs.NewFromConfig(settings),
	}, nil
}

// call asks each service for what it is asked for by a router.
func (c *clients) call(ctx context.Context) error {
	calls := []func() error{
		func() error { _, err := c.dynamodb.GetItem(ctx, &dynamodb.GetItemInput{}); return err },
		func() error { _, err := c.dynamodb.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{}); return err },
		func() error { _, err := c.dynamodb.Query(ctx, &dynamodb.QueryInput{}); return err },
		func() error { _, err := c.kms.Decrypt(ctx, &kms.DecryptInput{}); return err },
		func() error { _, err := c.kms.VerifyMac(ctx, &kms.VerifyMacInput{}); return err },
		func() error { _, err := c.lambda.Invoke(ctx, &awslambda.InvokeInput{}); return err },
		func() error {
			_, err := c.lambda.InvokeWithResponseStream(ctx, &awslambda.InvokeWithResponseStreamInput{})
			return err
		},
		func() error { _, err := c.s3.GetObject(ctx, &s3.GetObjectInput{}); return err },
		func() error {
			_, err := c.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{})
			return err
		},
		func() error { _, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{}); return err },
		func() error { _, err := c.sqs.SendMessage(ctx, &sqs.SendMessageInput{}); return err },
	}
	for _, call := range calls {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	var built *clients
	if os.Getenv("BUILD") != "" {
		var err error
		if built, err = build(context.Background()); err != nil {
			os.Exit(1)
		}
	}
	lambda.Start(func(ctx context.Context, event json.RawMessage) (string, error) {
		if os.Getenv("CALL") == "" {
			return "done", nil
		}
		if built == nil {
			var err error
			if built, err = build(ctx); err != nil {
				return "", err
			}
		}
		return "called", built.call(ctx)
	})
}
