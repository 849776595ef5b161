package routing

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestHeaders holds rule 5 in both directions.
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
		"Authorization": {"Bearer t"}, "x-lower": {"kept"}, "Xcellwall-Tenant": {"kept"}, "Idempotency-Key": {"k"},
	}
	want := http.Header{
		"X-Two": {"good"}, "Authorization": {"Bearer t"}, "X-Lower": {"kept"}, "Xcellwall-Tenant": {"kept"}, "Idempotency-Key": {"k"},
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
