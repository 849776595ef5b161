package dynamoaccount_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/livequota/dynamoaccount"
	"cellwall.dev/cellwall/internal/audit"
)

func ask(t *testing.T, status int, body string) (map[string]audit.LiveLimit, error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("X-Amz-Target"); got != "DynamoDB_20120810.DescribeLimits" {
			t.Errorf("target %q", got)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return dynamoaccount.New(dynamodb.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})).Limits(t.Context())
}

func TestLimits(t *testing.T) {
	got, err := ask(t, 200, `{"AccountMaxReadCapacityUnits":200000,"AccountMaxWriteCapacityUnits":90000,"TableMaxReadCapacityUnits":40000}`)
	if err != nil || len(got) != 3 || got["ddb.account-rcu"].Max != 200000 || got["ddb.account-wcu"].Max != 90000 || got["ddb.table-rcu"].Max != 40000 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ask(t, 400, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}`); err == nil {
		t.Errorf("%+v", got)
	}
}
