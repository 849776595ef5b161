package elbaccount_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"cellwall.dev/cellwall/internal/adapter/livequota/elbaccount"
	"cellwall.dev/cellwall/internal/audit/limitdata"
)

func account(t *testing.T, answer func(marker string) (int, string)) elbaccount.Account {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "DescribeAccountLimits" {
			t.Errorf("action %q", r.FormValue("Action"))
		}
		status, body := answer(r.FormValue("Marker"))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return elbaccount.New(elb.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}))
}

func page(next string, limits ...string) string {
	s := "<DescribeAccountLimitsResponse><DescribeAccountLimitsResult><Limits>"
	for i := 0; i+1 < len(limits); i += 2 {
		s += "<member><Name>" + limits[i] + "</Name><Max>" + limits[i+1] + "</Max></member>"
	}
	s += "</Limits>"
	if next != "" {
		s += "<NextMarker>" + next + "</NextMarker>"
	}
	return s + "</DescribeAccountLimitsResult></DescribeAccountLimitsResponse>"
}

func TestLimits(t *testing.T) {
	got, err := account(t, func(marker string) (int, string) {
		if marker == "" {
			return 200, page("m", "rules-per-application-load-balancer", "300", "of-another-time", "1")
		}
		return 200, page("", "targets-per-application-load-balancer", "2000", "listeners-per-application-load-balancer", "many")
	}).Limits(t.Context())
	if err != nil || len(got) != 3 || got["alb.rules"].Max != 300 || got["alb.targets"].Max != 2000 || got["alb.listeners"].Unknown == "" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range elbaccount.IDs {
		if _, ok := limitdata.Get(id); !ok {
			t.Errorf("%s is not in the catalogue", id)
		}
	}
}

func TestErrors(t *testing.T) {
	denied := `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`
	if got, err := account(t, func(string) (int, string) { return 403, denied }).Limits(t.Context()); err == nil {
		t.Errorf("denied: %+v", got)
	}
	if got, err := account(t, func(marker string) (int, string) {
		if marker == "" {
			return 200, page("m", "target-groups", "3000")
		}
		return 403, denied
	}).Limits(t.Context()); err == nil {
		t.Errorf("denied on the second page: %+v", got)
	}
	if got, err := account(t, func(string) (int, string) { return 200, page("again") }).Limits(t.Context()); err == nil {
		t.Errorf("endless: %+v", got)
	}
}
