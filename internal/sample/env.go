package sample

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/adapter/itemhttp"
	"cellwall.dev/cellwall/internal/adapter/shardqueue"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// Parts are the service, and what becomes of the jobs of its shard's queue that it does not do.
type Parts struct {
	Service              http.Handler
	Dispatch, DeadLetter shardkit.Dispatch // nil for none
}

// FromEnvironment returns the service as the environment describes it:
//
//	CELLWALL_CELL            the cell's name
//	CELLWALL_SHARD           this shard's id
//	CELLWALL_SHARD_TABLE     this shard's own DynamoDB table (string keys pk and sk), which has whom it holds
//	CELLWALL_TABLE           DynamoDB table with the tenants' state; unset: the shard's own
//	CELLWALL_STORE_URL       or the address of a store that speaks the protocol of itemhttp, for both
//	CELLWALL_STORE_TOKEN     bearer token for it
//	CELLWALL_ROUTER_SECRET   what the router must send in cellwall-secret; unset: the network decides
//	CELLWALL_DISPATCH_QUEUE  name of the cell's SQS queue from which the router places jobs; unset: a job of a
//	                         tenant that is not here fails, and messages are refused
//	CELLWALL_DISPATCH_URL    or where a store takes such jobs by POST, with CELLWALL_STORE_TOKEN
//	CELLWALL_DEAD_QUEUE      name of the SQS queue for jobs that find no shard; unset: they fail
//	CELLWALL_SAMPLE_POISON   1: POST /poison ends the process
//
// A shard without a table of its own has whom it holds in CELLWALL_TABLE, under its id. Without a table
// and a store's address nothing can say whom the shard holds: then everybody is served, for any shard
// when CELLWALL_SHARD is not set, and what is stored is kept in memory, both of which it logs.
func FromEnvironment(ctx context.Context, getenv func(string) string) (*Parts, error) {
	items, err := itemsFrom(ctx, getenv)
	if err != nil {
		return nil, err
	}
	var p Parts
	for name, to := range map[string]*shardkit.Dispatch{"CELLWALL_DISPATCH_QUEUE": &p.Dispatch, "CELLWALL_DEAD_QUEUE": &p.DeadLetter} {
		if queue := getenv(name); queue != "" {
			aws, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: load the AWS configuration: %w", name, err)
			}
			// The client's own repetitions are welcome: a job that is there twice takes effect once.
			*to = shardqueue.NewJobs(sqs.NewFromConfig(aws), queue).Put
		}
	}
	if url := getenv("CELLWALL_DISPATCH_URL"); url != "" {
		if p.Dispatch != nil {
			return nil, errors.New("CELLWALL_DISPATCH_QUEUE and CELLWALL_DISPATCH_URL are both set: keep one")
		}
		if p.Dispatch, err = dispatchTo(url, getenv("CELLWALL_STORE_TOKEN")); err != nil {
			return nil, err
		}
	}
	c := Config{Items: items, Shard: getenv("CELLWALL_SHARD"), Secret: getenv("CELLWALL_ROUTER_SECRET"), Dispatch: p.Dispatch}
	switch poison := getenv("CELLWALL_SAMPLE_POISON"); poison {
	case "", "0":
	case "1":
		c.Poison = func() {
			slog.Error("poisoned: the process ends")
			os.Exit(1)
		}
	default:
		return nil, fmt.Errorf("CELLWALL_SAMPLE_POISON is %q: want 1 or nothing", poison)
	}
	p.Service, err = New(c)
	return &p, err
}

func itemsFrom(ctx context.Context, getenv func(string) string) (shardkit.Items, error) {
	own, url, shard := getenv("CELLWALL_SHARD_TABLE"), getenv("CELLWALL_STORE_URL"), getenv("CELLWALL_SHARD")
	state := getenv("CELLWALL_TABLE")
	if state == "" {
		state = own
	}
	switch {
	case state != "" && url != "":
		return nil, errors.New("CELLWALL_TABLE or CELLWALL_SHARD_TABLE, and CELLWALL_STORE_URL are both set: keep one")
	case (state != "" || url != "") && shard == "":
		return nil, errors.New("CELLWALL_SHARD is not set: a store is asked whom this shard holds")
	case state != "":
		aws, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("load the AWS configuration: %w", err)
		}
		return itemdynamo.New(dynamodb.NewFromConfig(aws), itemdynamo.Tables{State: state, Own: own, Shard: shard})
	case url != "":
		items, err := itemhttp.New(url, getenv("CELLWALL_STORE_TOKEN"), getenv("CELLWALL_CELL"), shard)
		if err != nil {
			return nil, fmt.Errorf("CELLWALL_STORE_URL and CELLWALL_CELL: %w", err)
		}
		return items, nil
	}
	slog.Warn("none of CELLWALL_TABLE, CELLWALL_SHARD_TABLE and CELLWALL_STORE_URL is set: " +
		"items are lost when the process ends, and whether this shard holds a tenant is not checked")
	return shardkit.NewUnchecked(), nil
}
