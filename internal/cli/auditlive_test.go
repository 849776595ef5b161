package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// liveAWS answers all that --live asks, over HTTP, by what the request says it is.
type liveAWS struct{ deny atomic.Bool }

func (l *liveAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	_ = r.ParseForm()
	switch {
	case strings.Contains(r.URL.Path, "GetMetricData"):
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		w.Write([]byte{0xa0})
	case r.Form.Get("Action") == "GetCallerIdentity":
		fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111111111111</Account><Arn>arn:aws:iam::111111111111:user/ann</Arn><UserId>u</UserId></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	case strings.HasSuffix(target, "ListServiceQuotas") && l.deny.Load():
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","Message":"not authorized"}`)
	case strings.HasSuffix(target, "ListServiceQuotas"):
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"Quotas":[{"QuotaCode":"L-0263D0A3","Value":50},{"QuotaCode":"L-0485CB21","Value":2000}]}`)
	case strings.HasSuffix(target, "ListAWSDefaultServiceQuotas"):
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"Quotas":[]}`)
	case strings.HasSuffix(target, "DescribeLimits"):
		fmt.Fprint(w, `{"AccountMaxReadCapacityUnits":80000,"AccountMaxWriteCapacityUnits":80000}`)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func TestAuditLive(t *testing.T) {
	aws := &liveAWS{}
	server := httptest.NewServer(aws)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	manifest, resources := `{"version":"38.0.0","artifacts":{`, ""
	for i := range 6 {
		resources += fmt.Sprintf(`,"Ip%d":{"Type":"AWS::EC2::EIP"}`, i)
	}
	for i, shard := range []string{"s01", "s02"} {
		name := "orders-eu-1-shard-" + shard
		if i > 0 {
			manifest += ","
			resources = ""
		}
		manifest += fmt.Sprintf(`%q:{"type":"aws:cloudformation:stack","environment":"aws://111111111111/eu-west-1","properties":{"templateFile":"%s.json","stackName":%q}}`, name, name, name)
		text := `{"Resources":{"Topic":{"Type":"AWS::SNS::Topic"}` + resources + `}}`
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(manifest+"}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	const over = "error    QT007  6 of 5 at most: elastic IP addresses per Region, account 111111111111, eu-west-1"
	status, out, errw := command("", "audit", dir)
	if status != ExitFound || !strings.Contains(out, over) {
		t.Errorf("by the default: status %d, %s%s", status, out, errw)
	}
	status, out, errw = command("", "audit", "--live", dir)
	if status != ExitDone || strings.Contains(out, "elastic IP addresses") {
		t.Errorf("by the account: status %d, %s%s", status, out, errw)
	}
	if !strings.Contains(out, "review   UN008  1 limit of account 111111111111, eu-west-1 unknown (Service Quotas does not list L-61103206 of sns): topics per account") {
		t.Errorf("the quota that is not listed is not named: %s", out)
	}
	aws.deny.Store(true)
	status, out, errw = command("", "audit", "--live", dir)
	if status != ExitDone || !strings.Contains(out, "review   UN008  6 of 5 at most: elastic IP addresses per Region") || !strings.Contains(out, "AccessDeniedException") {
		t.Errorf("denied: status %d, %s%s", status, out, errw)
	}
	status, _, errw = command("", "audit", "--live-role", "x", dir)
	if status != ExitUsage || !strings.Contains(errw, "--live") {
		t.Errorf("a role for nothing: status %d, %s", status, errw)
	}
	status, _, errw = command("", "audit", "--live", auditFixtures+"core-rule")
	if status != ExitUsage || !strings.Contains(errw, "no stack says its account and region") {
		t.Errorf("nowhere to ask: status %d, %s", status, errw)
	}
}
