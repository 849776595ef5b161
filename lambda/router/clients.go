package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/secretkey"
	"cellwall.dev/cellwall/internal/adapter/shardlambda"
	"cellwall.dev/cellwall/internal/adapter/shardqueue"
	"cellwall.dev/cellwall/lambda/internal/first"
)

// clients are those of AWS's services, each made when something is first asked of it. A router that serves from its
// snapshot needs that of the slices and no other.
type clients struct{ settings func() (aws.Config, error) }

func newClients() clients { return clients{first.Settings()} }

func (c clients) directory(region string) dynamodir.Client {
	return dynamodir.Lazy(first.Client(c.settings, func(s aws.Config) dynamodir.Client {
		return dynamodb.NewFromConfig(s, dynamodir.ForRequests, func(o *dynamodb.Options) { o.Region = region })
	}))
}

func (c clients) secrets() secretkey.Client {
	return secretkey.Lazy(first.Client(c.settings, func(s aws.Config) secretkey.Client {
		return secretsmanager.NewFromConfig(s, secretkey.ForRequests)
	}))
}

func (c clients) slices() shardlambda.Client {
	return shardlambda.Lazy(first.Client(c.settings, func(s aws.Config) shardlambda.Client { return lambda.NewFromConfig(s, shardlambda.Once) }))
}

func (c clients) queues() shardqueue.Client {
	return shardqueue.Lazy(first.Client(c.settings, func(s aws.Config) shardqueue.Client { return sqs.NewFromConfig(s, shardqueue.Once) }))
}
