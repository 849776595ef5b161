package usage_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/smithy-go/encoding/cbor"

	"cellwall.dev/cellwall/internal/adapter/livequota/usage"
	"cellwall.dev/cellwall/internal/audit/live"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func metrics(t *testing.T, answer func(in cbor.Map) (int, cbor.Map)) *usage.Metrics {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		in, err := cbor.Decode(body)
		if err != nil || !strings.HasSuffix(r.URL.Path, "/operation/GetMetricData") {
			t.Errorf("%s: %v", r.URL, err)
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		status, out := answer(in.(cbor.Map))
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		w.WriteHeader(status)
		w.Write(cbor.Encode(out))
	}))
	t.Cleanup(server.Close)
	return usage.New(cloudwatch.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}), func() time.Time { return now })
}

// TestUsages reads one metric a page. The latest value of each counts, and a metric without one is left out.
func TestUsages(t *testing.T) {
	m := metrics(t, func(in cbor.Map) (int, cbor.Map) {
		asked := in["MetricDataQueries"].(cbor.List)
		if len(asked) != 2 {
			t.Errorf("%d queries", len(asked))
		}
		stat := asked[0].(cbor.Map)["MetricStat"].(cbor.Map)
		metric := stat["Metric"].(cbor.Map)
		if stat["Stat"].(cbor.String) != "Maximum" || metric["Namespace"].(cbor.String) != "AWS/Usage" || metric["Dimensions"].(cbor.List)[0].(cbor.Map)["Name"].(cbor.String) != "Class" {
			t.Errorf("%v", stat)
		}
		if _, second := in["NextToken"]; second {
			return 200, cbor.Map{"MetricDataResults": cbor.List{cbor.Map{"Id": asked[1].(cbor.Map)["Id"], "Values": cbor.List{}}}}
		}
		return 200, cbor.Map{"NextToken": cbor.String("more"), "MetricDataResults": cbor.List{
			cbor.Map{"Id": asked[0].(cbor.Map)["Id"], "Values": cbor.List{cbor.Float64(4), cbor.Float64(9)}}}}
	})
	got, err := m.Usages(t.Context(), map[string]live.Metric{
		"ec2.eips": {Namespace: "AWS/Usage", Name: "ResourceCount", Dimensions: map[string]string{"Service": "EC2", "Class": "None"}},
		"vpc.vpcs": {Namespace: "AWS/Usage", Name: "ResourceCount", Statistic: "Maximum"}})
	if want := map[string]float64{"ec2.eips": 4}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestErrors(t *testing.T) {
	one := map[string]live.Metric{"vpc.vpcs": {Namespace: "AWS/Usage", Name: "ResourceCount"}}
	for what, m := range map[string]*usage.Metrics{
		"denied": metrics(t, func(cbor.Map) (int, cbor.Map) {
			return 403, cbor.Map{"__type": cbor.String("com.amazonaws.cloudwatch#AccessDenied"), "message": cbor.String("no")}
		}),
		"endless": metrics(t, func(cbor.Map) (int, cbor.Map) {
			return 200, cbor.Map{"NextToken": cbor.String("more"), "MetricDataResults": cbor.List{}}
		}),
	} {
		if got, err := m.Usages(t.Context(), one); err == nil || got != nil || !strings.Contains(err.Error(), "cloudwatch:GetMetricData") {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}
