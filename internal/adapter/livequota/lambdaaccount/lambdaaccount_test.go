package lambdaaccount_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/adapter/livequota/lambdaaccount"
	"cellwall.dev/cellwall/internal/audit"
)

func ask(t *testing.T, status int, body string) (map[string]audit.LiveLimit, error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/account-settings") && !strings.HasSuffix(r.URL.Path, "/account-settings/") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return lambdaaccount.New(lambda.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})).Limits(t.Context())
}

func TestLimits(t *testing.T) {
	got, err := ask(t, 200, `{"AccountLimit":{"ConcurrentExecutions":1000,"UnreservedConcurrentExecutions":640},"AccountUsage":{"FunctionCount":3}}`)
	if l := got["lambda.concurrency"]; err != nil || l.Max != 1000 || l.Used == nil || *l.Used != 360 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ask(t, 200, `{"AccountLimit":{"ConcurrentExecutions":10}}`); err != nil || got["lambda.concurrency"].Used != nil {
		t.Errorf("what is reserved was not said: %+v, %v", got, err)
	}
	if got, err = ask(t, 200, `{}`); err == nil {
		t.Errorf("an empty answer is no limit of 0: %+v", got)
	}
	if got, err = ask(t, 403, `{"Message":"not authorized","__type":"AccessDeniedException"}`); err == nil {
		t.Errorf("%+v", got)
	}
}
