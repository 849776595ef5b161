package routing

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestHeaders holds the package's rule of headers in both directions.
func TestHeaders(t *testing.T) {
	spoofs := http.Header{
		"Cellwall-Tenant": {"mallory"}, "cellwall-tenant": {"mallory"}, "CELLWALL-TENANT": {"mallory"},
		"Cellwall_Tenant": {"mallory"}, "cellwall_epoch": {"9"}, "CellWall-Shard": {"s01"}, "Cellwall-": {"x"},
		"Cellwall-Secret": {"x"}, "Cellwall-Deadline": {"9999999999999"}, "cellwall_deadline": {"9999999999999"}, "Cellwall-Anything-Else": {"x"}, "cellwall-tenant ": {"x"}, " cellwall-tenant": {"x"},
		"cellwall-tenant:": {"x"}, "cellwall\x00-tenant": {"x"}, "": {"x"},
		"X-Crlf": {"a\r\nCellwall-Tenant: mallory"}, "X-Nul": {"a\x00b"}, "X-Two": {"good", "bad\n"},
		"Connection": {"close, X-Named", "x_other"}, "X-Named": {"1"}, "X-Other": {"1"},
		"Keep-Alive": {"1"}, "Proxy-Connection": {"1"}, "Proxy-Authenticate": {"1"}, "Proxy-Authorization": {"1"},
		"Te": {"trailers"}, "Trailer": {"X"}, "Transfer-Encoding": {"chunked"}, "Transfer_Encoding": {"chunked"},
		"Upgrade": {"h2c"}, "Expect": {"100-continue"}, "Content-Length": {"5"},
		"Authorization": {"Bearer t"}, "x-lower": {"kept"}, "Xcellwall-Tenant": {"x"}, "Idempotency-Key": {"k"},
	}
	want := http.Header{
		"X-Two": {"good"}, "Authorization": {"Bearer t"}, "X-Lower": {"kept"}, "Idempotency-Key": {"k"},
		HeaderTenant: {"acme"}, HeaderEpoch: {"3"}, HeaderShard: {"s07"},
	}
	if diff := cmp.Diff(want, forShard(spoofs, Call{Tenant: "acme", Epoch: 3, Shard: "s07"})); diff != "" {
		t.Errorf("at the shard (-want +got):\n%s", diff)
	}
	for _, name := range []string{HeaderTenant, HeaderEpoch, HeaderShard} {
		want.Del(name)
	}
	if diff := cmp.Diff(want, forClient(spoofs, "GET", 200)); diff != "" {
		t.Errorf("at the client (-want +got):\n%s", diff)
	}
	for _, bodyless := range []struct {
		method string
		status int
	}{{"HEAD", 200}, {"GET", 304}} {
		if got := forClient(spoofs, bodyless.method, bodyless.status).Get("Content-Length"); got != "5" {
			t.Errorf("%s, %d: length %q is lost", bodyless.method, bodyless.status, got)
		}
	}
}

// TestNoSpellingGetsThrough tries header names near the router's own.
func TestNoSpellingGetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := []byte("cellwall-tenant")
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			i := rapid.IntRange(0, len(name)-1).Draw(t, "at")
			if c := name[i]; rapid.Bool().Draw(t, "upper") && c >= 'a' {
				name[i] = c - 'a' + 'A'
			} else if c == '-' {
				name[i] = '_'
			}
		}
		client := http.Header{string(name): {"mallory"}}
		got := forShard(client, Call{Tenant: "acme", Epoch: 1, Shard: "s01"})
		for header, values := range got {
			for _, value := range values {
				if strings.Contains(value, "mallory") {
					t.Fatalf("%q arrived as %q", name, header)
				}
			}
		}
		if got.Get(HeaderTenant) != "acme" {
			t.Fatalf("tenant %q", got.Get(HeaderTenant))
		}
	})
}

// clientDrops and clientKeeps are names of headers that clients send, by what becomes of them.
var (
	clientDrops = strings.Fields(`X-Tenant-Id X-Tenant Tenant-Id Tenant tenantid X-TENANT-ID X-Tenantid XTenantId X.Tenant.Id X-Multi-Tenant-Key
		X-Scope-OrgID X-Org-Id X-Organization-Id X-Organisation X-Customer-Id X-Account-Id X-Workspace
		X-Shard X-Shard-Id Shard X-Sharding-Key X-Subset Subset X-Epoch Epoch X-Directory-Epoch X-Cell X-Cell-Id X-Hop X-Hop-Count X-Hops
		X-Amzn-Oidc-Data X-Amzn-Oidc-Identity X-Amzn-Oidc-Accesstoken X-Amzn-Mtls-Clientcert X-Amzn-Request-Context X-Amzn-Lambda-Context
		X-Amzn-Apigateway-Api-Id X-Amz-Security-Token X-Amz-Source-Account X-Amz-Source-Arn
		X-Forwarded X-Forwarded-Host X-Forwarded-User X-Forwarded-Email X-Forwarded-Access-Token X-Forwarded-Prefix X-Forwarded-Path X-Forwarded-Client-Cert
		X-Forwarded-Server X-Forwarded-Uri X-Forwarded-Method X-Forwarded-Ssl X-Forwarded-Scheme X-Forwarded-For-Original
		X-Apigateway-Event X-Apigateway-Context X-Goog-Authenticated-User-Id X-Goog-Iap-Jwt-Assertion X-Ms-Client-Principal-Id Cf-Access-Authenticated-User-Email
		X-Webauth-User X-Pomerium-Claim-Sub Tailscale-User-Login X-Company-Id X-CompanyId X-Merchant-Id
		X-Auth-Request-User X-Authenticated-Userid X-Consumer-Custom-Id X-Credential-Identifier X-Anonymous-Consumer X-Jwt-Claim-Sub X-Claim-Tid X-Remote-User Remote-User
		X-Client-Cert Client-Cert Client-Cert-Chain X-Ssl-Client-Dn Ssl-Client-Verify X-Client-Verify
		X-Original-Url X-Original-Uri X-Rewrite-Url X-Original-Method X-Http-Method-Override X-Http-Method X-Method-Override Script-Name X-Script-Name Path-Info
		X-Real-Ip X-Client-Ip Client-Ip True-Client-Ip X-Cluster-Client-Ip Cf-Connecting-Ip Fastly-Client-Ip Forwarded Via Max-Forwards
		X-Envoy-Original-Path X-Envoy-Internal X-Istio-Attributes Proxy Baggage Jaeger-Baggage Uberctx-Tenant Uberctx-Any
		x_tenant_id tenant_id Content_Length Idempotency_Key X_Forwarded_For a_b`)
	clientKeeps = strings.Fields(`Accept Accept-Encoding Accept-Language Authorization Cache-Control Content-Encoding Content-Language Content-Type Cookie Date Dnt
		Host If-Match If-Modified-Since If-None-Match If-Range Idempotency-Key Origin Prefer Priority Range Referer Sec-Fetch-Mode User-Agent
		X-Request-Id X-Correlation-Id Traceparent Tracestate X-B3-Traceid X-Amzn-Trace-Id X-Amz-Date X-Amz-Content-Sha256 X-Amz-Cf-Id X-Api-Key X-Csrf-Token
		X-Requested-With X-Hub-Signature-256 Stripe-Signature X-Hope X-Accounting X-Excellent X-Organic Sec-Ch-Ua Save-Data Digest Signature Signature-Input`)
)

// TestClientHeadersThatCouldNameWhatTheRouterDecides holds the header rules, name by name and in any case.
func TestClientHeadersThatCouldNameWhatTheRouterDecides(t *testing.T) {
	for _, spelling := range []func(string) string{func(s string) string { return s }, strings.ToLower, strings.ToUpper, http.CanonicalHeaderKey} {
		client := http.Header{}
		for _, name := range clientDrops {
			client[spelling(name)] = []string{"mallory"}
		}
		got := forShard(client, Call{Tenant: "acme", Epoch: 1, Shard: "s01"})
		if want := (http.Header{HeaderTenant: {"acme"}, HeaderEpoch: {"1"}, HeaderShard: {"s01"}}); !cmp.Equal(want, got) {
			t.Errorf("at the shard (-want +got):\n%s", cmp.Diff(want, got))
		}
		for _, name := range clientKeeps {
			got := forShard(http.Header{spelling(name): {"v"}}, Call{Tenant: "acme", Epoch: 1, Shard: "s01"})
			if got.Get(name) != "v" {
				t.Errorf("%s is lost", spelling(name))
			}
		}
	}
}

// TestForwardedFamily: of the chain a shard gets what the ingress wrote, at its end.
func TestForwardedFamily(t *testing.T) {
	tests := []struct {
		name         string
		client, want http.Header
	}{
		{"the ingress's address alone", http.Header{"X-Forwarded-For": {"192.0.2.7"}}, http.Header{"X-Forwarded-For": {"192.0.2.7"}}},
		{"a forged beginning", http.Header{"X-Forwarded-For": {"127.0.0.1, 10.0.0.1,198.51.100.3"}}, http.Header{"X-Forwarded-For": {"198.51.100.3"}}},
		{"several lines", http.Header{"X-Forwarded-For": {"10.0.0.1", "198.51.100.3"}}, http.Header{"X-Forwarded-For": {"198.51.100.3"}}},
		{"IPv6", http.Header{"x-forwarded-for": {"x, 2001:DB8::1"}}, http.Header{"X-Forwarded-For": {"2001:db8::1"}}},
		{"a zone", http.Header{"X-Forwarded-For": {"fe80::1%eth0"}}, http.Header{"X-Forwarded-For": {"fe80::1"}}},
		{"named by Connection", http.Header{"X-Forwarded-For": {"198.51.100.3"}, "Connection": {"x-forwarded-for"}}, http.Header{"X-Forwarded-For": {"198.51.100.3"}}},
		{"no address", http.Header{"X-Forwarded-For": {"198.51.100.3, localhost"}}, http.Header{}},
		{"an empty end", http.Header{"X-Forwarded-For": {"198.51.100.3,"}}, http.Header{}},
		{"two spellings", http.Header{"X-Forwarded-For": {"198.51.100.3"}, "x-forwarded-for": {"10.0.0.1"}}, http.Header{}},
		{"an underscore", http.Header{"X_Forwarded_For": {"10.0.0.1"}}, http.Header{}},
		{"scheme and port", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"}}, http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"}}},
		{"no scheme, no port", http.Header{"X-Forwarded-Proto": {"gopher"}, "X-Forwarded-Port": {"65536"}}, http.Header{}},
		{"port zero", http.Header{"X-Forwarded-Port": {"0"}}, http.Header{}},
		{"a list of schemes", http.Header{"X-Forwarded-Proto": {"https,http"}}, http.Header{}},
	}
	for _, test := range tests {
		got := forShard(test.client, Call{Tenant: "acme", Epoch: 1, Shard: "s01"})
		for _, own := range []string{HeaderTenant, HeaderEpoch, HeaderShard} {
			got.Del(own)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestAnswersTellNoPlace: what a shard's answer says of its place does not reach the client.
func TestAnswersTellNoPlace(t *testing.T) {
	for _, name := range strings.Fields(`Cellwall-Shard cellwall_epoch X-Shard X-Shard-Id Shard X-Sharded-By X-Cell X-Subset X-Epoch Via X-Served-By X-Backend X-Backend-Server
		X-Upstream-Addr X-Upstream X-Hostname X-Instance-Id X-Pod X-Host X-Server X-Node Alt-Svc X-Envoy-Upstream-Service-Time X-Amz-Executed-Version
		X-Amz-Function-Error X-Amz-Log-Result X-Accel-Redirect X_Shard x-forwarded-host Connection Transfer-Encoding`) {
		if got := forClient(http.Header{name: {"s01"}}, "GET", 200); len(got) > 0 {
			t.Errorf("%s reaches the client as %v", name, got)
		}
	}
	for _, name := range strings.Fields(`Content-Type Etag Location Set-Cookie Cache-Control Vary Server X-Request-Id Idempotency-Key Retry-After Www-Authenticate
		Access-Control-Allow-Origin Strict-Transport-Security X-Ratelimit-Remaining Server-Timing Link X-Tenant-Id X-Excellent`) {
		if got := forClient(http.Header{name: {"v"}}, "GET", 200); got.Get(name) != "v" {
			t.Errorf("%s is lost", name)
		}
	}
}

// TestHeaderValuesAreNotWrittenTo: the client's headers stay what they are, whatever is added to a shard's.
func TestHeaderValuesAreNotWrittenTo(t *testing.T) {
	values := append(make([]string, 0, 4), "a")
	client := http.Header{"Accept": values}
	forShard(client, Call{Tenant: "acme", Epoch: 1, Shard: "s01"}).Add("Accept", "b")
	if got := values[:2][1]; got != "" || len(client) != 1 {
		t.Errorf("the client's headers became %v, with %q behind", client, got)
	}
}

// FuzzHeaderFromClient holds that no name passes which a service could read as one of the router's.
func FuzzHeaderFromClient(f *testing.F) {
	for _, name := range append(slices.Clone(clientDrops), clientKeeps...) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := forShard(http.Header{name: {"mallory"}}, Call{Tenant: "acme", Epoch: 1, Shard: "s01"})
		for header, values := range got {
			lower := strings.ToLower(header)
			if slices.Contains(values, "mallory") && (strings.Contains(lower, "tenant") || strings.Contains(lower, "shard") ||
				strings.Contains(lower, "cellwall") || strings.Contains(lower, "_")) {
				t.Fatalf("%q arrived as %q", name, header)
			}
		}
		if got.Get(HeaderTenant) != "acme" || got.Get(HeaderShard) != "s01" || got.Get(HeaderEpoch) != "1" {
			t.Fatalf("%q changed the router's own: %v", name, got)
		}
	})
}

// BenchmarkHeadersForShard is what a browser's request costs.
func BenchmarkHeadersForShard(b *testing.B) {
	client := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Type", "Host", "User-Agent", "X-Request-Id", "Traceparent", "X-Forwarded-For", "X-Forwarded-Proto", "Cookie"} {
		client.Set(name, "192.0.2.1")
	}
	b.ReportAllocs()
	for b.Loop() {
		forShard(client, Call{Tenant: "acme", Epoch: 7, Shard: "s01"})
	}
}

// TestCommonHeadersPassTheRules: the short cut is one.
func TestCommonHeadersPassTheRules(t *testing.T) {
	for name := range common {
		if !HeaderFromClient(strings.ToUpper(name)) || common[strings.ToUpper(name)] {
			t.Errorf("%s is dropped by the rules", name)
		}
	}
	for name := range commonOfShards {
		if !HeaderFromShard(strings.ToUpper(name)) || commonOfShards[strings.ToUpper(name)] {
			t.Errorf("%s of a shard is dropped by the rules", name)
		}
	}
}
