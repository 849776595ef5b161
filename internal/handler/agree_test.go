package handler

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// TestDisagreementLogsNoTenant: neither the one who asks nor the one who is named, since a fleet may have its tenants
// hashed in logs.
func TestDisagreementLogsNoTenant(t *testing.T) {
	agreement, err := identity.NewAgreement("/tenants/{tenant}/*", "tenant_id")
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*routing.Request{
		{Path: "/tenants/secret-globex/orders", Header: http.Header{}},
		{Path: "/orders", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"tenant_id":"secret-globex"}`)},
	} {
		var log bytes.Buffer
		refusal := agree(agreement, identity.Caller{Tenant: "secret-acme"}, req, "r-1", slog.New(slog.NewJSONHandler(&log, nil)))
		if refusal == nil || refusal.Status != 403 || strings.Contains(string(refusal.Body), "secret") {
			t.Errorf("%s: %+v", req.Path, refusal)
		}
		if text := log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "tenantHash") {
			t.Errorf("%s: logged %s", req.Path, text)
		}
	}
}
