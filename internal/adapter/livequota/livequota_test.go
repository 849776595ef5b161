package livequota_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"cellwall.dev/cellwall/internal/adapter/livequota"
)

// wire is Service Quotas over HTTP: a page of one quota at a time, and what it is told to do instead.
type wire struct {
	t                 *testing.T
	mu                sync.Mutex
	applied, defaults []string // quotas as JSON
	throttle          int      // calls that are turned away first
	deny              string   // the action that is denied
	calls             []string
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var in struct {
		ServiceCode, NextToken string
		MaxResults             int
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.ServiceCode != "vpc" || in.MaxResults != 100 {
		w.t.Errorf("%+v, %v", in, err)
	}
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "ServiceQuotasV20190624.")
	w.calls = append(w.calls, action+in.NextToken)
	rw.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if w.throttle > 0 {
		w.throttle--
		rw.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(rw, `{"__type":"TooManyRequestsException","Message":"Rate exceeded"}`)
		return
	}
	if action == w.deny {
		rw.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(rw, `{"__type":"AccessDeniedException","Message":"not authorized to perform servicequotas:%s"}`, action)
		return
	}
	list := w.applied
	if action == "ListAWSDefaultServiceQuotas" {
		list = w.defaults
	}
	at := 0
	fmt.Sscanf(in.NextToken, "p%d", &at)
	next := "null"
	if at+1 < len(list) {
		next = fmt.Sprintf(`"p%d"`, at+1)
	}
	fmt.Fprintf(rw, `{"NextToken":%s,"Quotas":[%s]}`, next, strings.Join(list[min(at, len(list)):min(at+1, len(list))], ","))
}

func quotas(t *testing.T, w *wire) *livequota.Quotas {
	w.t = t
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	return livequota.New(servicequotas.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: func() aws.Retryer {
			return retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Millisecond)
		}}))
}

func quota(code string, value float64) string {
	return fmt.Sprintf(`{"ServiceCode":"vpc","QuotaCode":%q,"Value":%v}`, code, value)
}

func TestPagesAndDefaults(t *testing.T) {
	w := &wire{throttle: 1,
		applied: []string{quota("L-F678F1CE", 20), `{"QuotaCode":"L-0EA8095F","ErrorReason":{"ErrorCode":"SERVICE_QUOTA_NOT_AVAILABLE_ERROR","ErrorMessage":"later"}}`,
			`{"QuotaCode":"L-0263D0A3","Value":5,"UsageMetric":{"MetricNamespace":"AWS/Usage","MetricName":"ResourceCount","MetricStatisticRecommendation":"Maximum","MetricDimensions":{"Class":"None","Service":"EC2"}}}`},
		defaults: []string{quota("L-F678F1CE", 5), quota("L-A4707A72", 5)}}
	got, err := quotas(t, w).Quotas(t.Context(), "vpc")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || got["L-F678F1CE"].Value != 20 || got["L-A4707A72"].Value != 5 {
		t.Errorf("applied goes before default, and a default that was never applied holds: %+v", got)
	}
	if u := got["L-0EA8095F"].Unknown; !strings.Contains(u, "SERVICE_QUOTA_NOT_AVAILABLE_ERROR: later") {
		t.Errorf("a quota with an error is unknown, not %q", u)
	}
	if m := got["L-0263D0A3"].Usage; m == nil || m.Namespace != "AWS/Usage" || m.Statistic != "Maximum" || m.Dimensions["Service"] != "EC2" {
		t.Errorf("metric %+v", m)
	}
	want := "ListServiceQuotas ListServiceQuotas ListServiceQuotasp1 ListServiceQuotasp2 ListAWSDefaultServiceQuotas ListAWSDefaultServiceQuotasp1"
	if got := strings.Join(w.calls, " "); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

func TestErrorsAreTold(t *testing.T) {
	for deny, left := range map[string]int{"ListServiceQuotas": 0, "ListAWSDefaultServiceQuotas": 1} {
		got, err := quotas(t, &wire{deny: deny, applied: []string{quota("L-F678F1CE", 20)}}).Quotas(t.Context(), "vpc")
		if err == nil || !strings.Contains(err.Error(), "servicequotas:"+deny) || !strings.Contains(err.Error(), "AccessDenied") || len(got) != left {
			t.Errorf("%s: %v, %v", deny, got, err)
		}
	}
	_, err := quotas(t, &wire{throttle: 100}).Quotas(t.Context(), "vpc")
	if err == nil || !strings.Contains(err.Error(), "TooManyRequests") {
		t.Errorf("throttled for ever: %v", err)
	}
}
