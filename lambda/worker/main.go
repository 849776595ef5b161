// Command worker is the sample service as a Lambda slice: it answers the router's invocations and
// consumes its shard's queue.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/sample"
	_ "cellwall.dev/cellwall/lambda/internal/collectlater"
	"cellwall.dev/cellwall/lambda/shardkit"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log)
	worker, err := build(log)
	if err != nil {
		log.Error("worker does not start", "err", err)
		os.Exit(1)
	}
	lambda.Start(handler.Lambda(worker))
}

func build(log *slog.Logger) (*handler.Worker, error) {
	p, err := sample.FromEnvironment(context.Background(), os.Getenv)
	if err != nil {
		return nil, err
	}
	return handler.NewConsumer(shardkit.Consumption{
		Service: p.Service, Secret: os.Getenv("CELLWALL_ROUTER_SECRET"), Dispatch: p.Dispatch, DeadLetter: p.DeadLetter, Log: log,
	})
}
