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

	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/adapter/itemhttp"
)

// FromEnvironment returns the service as the environment describes it:
//
//	CELLWALL_SHARD           this shard's id; unset: requests for any shard are taken
//	CELLWALL_TABLE           DynamoDB table (string keys pk and sk) that holds the items
//	CELLWALL_STORE_URL       or the address of a store that speaks the protocol of itemhttp
//	CELLWALL_STORE_TOKEN     bearer token for it
//	CELLWALL_ROUTER_SECRET   what the router must send in cellwall-secret; unset: the network decides
//	CELLWALL_SAMPLE_POISON   1: POST /poison ends the process
//
// Without a table and a store's address items are kept in memory, which it logs.
func FromEnvironment(ctx context.Context, getenv func(string) string) (http.Handler, error) {
	store, err := storeFrom(ctx, getenv("CELLWALL_TABLE"), getenv("CELLWALL_STORE_URL"), getenv("CELLWALL_STORE_TOKEN"))
	if err != nil {
		return nil, err
	}
	c := Config{Store: store, Shard: getenv("CELLWALL_SHARD"), Secret: getenv("CELLWALL_ROUTER_SECRET")}
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
	return New(c), nil
}

func storeFrom(ctx context.Context, table, url, token string) (Store, error) {
	switch {
	case table != "" && url != "":
		return nil, errors.New("CELLWALL_TABLE and CELLWALL_STORE_URL are both set: keep one")
	case table != "":
		aws, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("load the AWS configuration: %w", err)
		}
		return itemdynamo.New(dynamodb.NewFromConfig(aws), table), nil
	case url != "":
		store, err := itemhttp.New(url, token)
		if err != nil {
			return nil, fmt.Errorf("CELLWALL_STORE_URL: %w", err)
		}
		return store, nil
	}
	slog.Warn("neither CELLWALL_TABLE nor CELLWALL_STORE_URL is set: items are lost when the process ends")
	return NewMemory(), nil
}
