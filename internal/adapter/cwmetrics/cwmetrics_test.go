package cwmetrics

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go/encoding/cbor"
)

var now = time.Date(2026, 11, 30, 12, 0, 30, 0, time.UTC)

// fake answers GetMetricData in Go, from the last values of metrics by "namespace metric dimension=value
// statistic".
type fake struct {
	t      *testing.T
	values map[string][]float64
	status types.StatusCode
	err    error
	page   int // results in one answer; 0 for all
	calls  int
	sizes  []int
}

func (f *fake) GetMetricData(_ context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	f.calls++
	f.sizes = append(f.sizes, len(in.MetricDataQueries))
	if f.err != nil {
		return nil, f.err
	}
	if len(in.MetricDataQueries) > 500 || !in.EndTime.Equal(now) || in.EndTime.Sub(*in.StartTime) != map[bool]time.Duration{false: window, true: past}[*in.MetricDataQueries[0].MetricStat.Metric.Namespace == "cellwall"] || in.ScanBy != types.ScanByTimestampDescending {
		f.t.Errorf("asked for %d metrics from %v to %v by %s", len(in.MetricDataQueries), in.StartTime, in.EndTime, in.ScanBy)
	}
	from, out := 0, &cloudwatch.GetMetricDataOutput{}
	if in.NextToken != nil {
		fmt.Sscan(*in.NextToken, &from)
	}
	to := len(in.MetricDataQueries)
	if f.page > 0 && from+f.page < to {
		to = from + f.page
		out.NextToken = aws.String(fmt.Sprint(to))
	}
	for _, q := range in.MetricDataQueries[from:to] {
		m := q.MetricStat.Metric
		key := *m.Namespace + " " + *m.MetricName
		for _, d := range m.Dimensions {
			key += " " + *d.Name + "=" + *d.Value
		}
		key += fmt.Sprintf(" %s %d", *q.MetricStat.Stat, *q.MetricStat.Period)
		out.MetricDataResults = append(out.MetricDataResults, types.MetricDataResult{Id: q.Id, Values: f.values[key], StatusCode: f.status})
	}
	return out, nil
}

func metrics(client Client) *Metrics {
	m := New(client, Cell{Service: "orders", Name: "eu-1",
		Function: func(s string) string { return "worker-" + s }, Queue: func(s string) string { return "work-" + s }})
	m.now = func() time.Time { return now }
	return m
}

func TestMetrics(t *testing.T) {
	f := &fake{t: t, values: map[string][]float64{
		"AWS/Lambda Throttles FunctionName=worker-s01 Sum 60":                     {3, 99},
		"AWS/Lambda Throttles FunctionName=worker-s02 Sum 60":                     {0, 99},
		"AWS/Lambda Throttles FunctionName=worker-s03 Sum 60":                     {-1},
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=work-s01 Maximum 60":     {90.5},
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=work-s04 Maximum 60":     {},
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=work-another Maximum 60": {7},
		"cellwall Requests service=orders cell=eu-1 shard=s01 Sum 60":             {3, 99, 0.5},
		"cellwall Requests service=orders cell=eu-1 shard=s02 Sum 60":             {7, -1},
		"cellwall Requests service=orders cell=eu-2 shard=s03 Sum 60":             {7},
	}}
	shards := []string{"s01", "s02", "s03", "s04"}
	for _, f.page = range []int{0, 1, 3} {
		rates, err := metrics(f).Throttles(t.Context(), shards)
		if want := map[string]float64{"s01": 3, "s02": 0, "s03": 0, "s04": 0}; err != nil || !maps.Equal(rates, want) {
			t.Errorf("%v, %v; want %v", rates, err, want)
		}
		ages, err := metrics(f).QueueAges(t.Context(), shards)
		if want := map[string]time.Duration{"s01": 90500 * time.Millisecond, "s02": 0, "s03": 0, "s04": 0}; err != nil || !maps.Equal(ages, want) {
			t.Errorf("%v, %v; want %v", ages, err, want)
		}
		requests, err := metrics(f).Requests(t.Context(), shards)
		if want := map[string]float64{"s01": 102.5, "s02": 7, "s03": 0, "s04": 0}; err != nil || !maps.Equal(requests, want) {
			t.Errorf("%v, %v; want %v", requests, err, want)
		}
	}
}

func TestManyShards(t *testing.T) {
	f := &fake{t: t, values: map[string][]float64{"AWS/Lambda Throttles FunctionName=worker-s1100 Sum 60": {5}}}
	var shards []string
	for i := range 1200 {
		shards = append(shards, fmt.Sprint("s", i))
	}
	rates, err := metrics(f).Throttles(t.Context(), shards)
	if err != nil || len(rates) != 1200 || rates["s1100"] != 5 || fmt.Sprint(f.sizes) != "[500 500 200]" {
		t.Errorf("%d rates, %v of s1100, requests of %v, %v", len(rates), rates["s1100"], f.sizes, err)
	}
	f.calls = 0
	if rates, err := metrics(f).Throttles(t.Context(), nil); err != nil || len(rates) != 0 || f.calls != 0 {
		t.Errorf("no shards: %v, %v, %d calls", rates, err, f.calls)
	}
}

func TestMetricsThatFail(t *testing.T) {
	down := errors.New("no route")
	if _, err := metrics(&fake{t: t, err: down}).Throttles(t.Context(), []string{"s01"}); !errors.Is(err, down) {
		t.Errorf("down: %v", err)
	}
	for _, status := range []types.StatusCode{types.StatusCodeInternalError, types.StatusCodeForbidden} {
		if _, err := metrics(&fake{t: t, status: status}).QueueAges(t.Context(), []string{"s01"}); err == nil || !strings.Contains(err.Error(), string(status)) {
			t.Errorf("%s: %v", status, err)
		}
	}
	if _, err := metrics(endless{}).Throttles(t.Context(), []string{"s01"}); err == nil || !strings.Contains(err.Error(), "pages") {
		t.Errorf("an answer without an end: %v", err)
	}
	if _, err := metrics(stranger{}).Throttles(t.Context(), []string{"s01"}); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("an answer to another question: %v", err)
	}
}

// parted answers one metric in two parts, the latest value first.
type parted struct{}

func (parted) GetMetricData(_ context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	r := types.MetricDataResult{Id: in.MetricDataQueries[0].Id, Values: []float64{9}, StatusCode: types.StatusCodePartialData}
	if in.NextToken != nil {
		r.Values, r.StatusCode = []float64{1}, types.StatusCodeComplete
		return &cloudwatch.GetMetricDataOutput{MetricDataResults: []types.MetricDataResult{r}}, nil
	}
	return &cloudwatch.GetMetricDataOutput{MetricDataResults: []types.MetricDataResult{r}, NextToken: aws.String("more")}, nil
}

func TestTheLatestCounts(t *testing.T) {
	if rates, err := metrics(parted{}).Throttles(t.Context(), []string{"s01"}); err != nil || rates["s01"] != 9 {
		t.Errorf("%v, %v", rates, err)
	}
	if requests, err := metrics(parted{}).Requests(t.Context(), []string{"s01"}); err != nil || requests["s01"] != 10 {
		t.Errorf("of two parts: %v, %v", requests, err)
	}
}

type endless struct{}

func (endless) GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	return &cloudwatch.GetMetricDataOutput{NextToken: aws.String("more")}, nil
}

type stranger struct{}

func (stranger) GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	return &cloudwatch.GetMetricDataOutput{MetricDataResults: []types.MetricDataResult{{Id: aws.String("x"), Values: []float64{1}}}}, nil
}

// TestWire sends a request through the SDK to a server that speaks CloudWatch's protocol, Smithy RPC v2 CBOR,
// which the AWS emulator does not.
func TestWire(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		in, err := cbor.Decode(body)
		if err != nil || r.URL.Path != "/service/GraniteServiceVersion20100801/operation/GetMetricData" || r.Header.Get("Smithy-Protocol") != "rpc-v2-cbor" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		var results cbor.List
		for _, q := range in.(cbor.Map)["MetricDataQueries"].(cbor.List) {
			q := q.(cbor.Map)
			metric := q["MetricStat"].(cbor.Map)["Metric"].(cbor.Map)
			function := metric["Dimensions"].(cbor.List)[0].(cbor.Map)["Value"].(cbor.String)
			values := cbor.List{}
			if metric["Namespace"].(cbor.String) == "AWS/Lambda" && function == "worker-s02" {
				values = cbor.List{cbor.Float64(4), cbor.Float64(1)}
			}
			results = append(results, cbor.Map{"Id": q["Id"], "StatusCode": cbor.String("Complete"), "Values": values})
		}
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		w.Write(cbor.Encode(cbor.Map{"MetricDataResults": results}))
	}))
	t.Cleanup(server.Close)
	client := cloudwatch.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	rates, err := metrics(client).Throttles(t.Context(), []string{"s01", "s02"})
	if want := map[string]float64{"s01": 0, "s02": 4}; err != nil || !maps.Equal(rates, want) {
		t.Errorf("%v, %v; want %v", rates, err, want)
	}
}
