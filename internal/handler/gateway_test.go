package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/handler/handlertest"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// served is a Router made of a function, and lets everybody in.
type served func(ctx context.Context, tenant string, req *routing.Request) *routing.Response

func (s served) Serve(ctx context.Context, tenant string, req *routing.Request) *routing.Response {
	if req.Complete != nil {
		if refusal := req.Complete("test"); refusal != nil {
			return refusal
		}
	}
	return s(ctx, tenant, req)
}

// echo answers with the tenant.
func echo(_ context.Context, tenant string, req *routing.Request) *routing.Response {
	return &routing.Response{Status: 200, Header: http.Header{"X-Path": {req.Path}}, Body: []byte(tenant)}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// tenantID takes the tenant from the claim tenant_id.
func tenantID() identity.Source {
	source, err := identity.NewClaims("tenant_id")
	if err != nil {
		panic(err)
	}
	return source
}

// gateway is a function that takes the tenant from the claim tenant_id.
func gateway(router Router) *Gateway {
	return NewGateway(GatewayConfig{Router: router, Identity: tenantID(), Log: quiet()})
}

// event is a request whose token has these claims, which the authorizer passes on as they are.
func event(claims, headers string) string {
	return eventOf(claims, handlertest.Bearer(claims), headers)
}

// eventOf is a request in which the authorizer found these claims, with an Authorization header beside the
// others.
func eventOf(claims, authorization, headers string) string {
	all := map[string]string{}
	if json.Unmarshal([]byte(headers), &all) != nil || all == nil {
		panic("headers " + headers)
	}
	if authorization != "" {
		all["authorization"] = authorization
	}
	text, _ := json.Marshal(all) // strings always encode
	headers = string(text)
	return fmt.Sprintf(`{"version":"2.0","rawPath":"/orders/1","headers":%s,"requestContext":{"authorizer":{"jwt":{"claims":%s}},"http":{"method":"GET"}}}`, headers, claims)
}

func invoke(t *testing.T, g interface {
	Invoke(context.Context, []byte) ([]byte, error)
}, payload string) *routing.Response {
	t.Helper()
	answer, err := g.Invoke(t.Context(), []byte(payload))
	if err != nil {
		t.Fatalf("invocation failed: %v", err)
	}
	resp, err := awsevent.ParseAnswer(answer)
	if err != nil {
		t.Fatalf("answer %s: %v", answer, err)
	}
	return resp
}

func TestGatewayTakesTenantFromClaim(t *testing.T) {
	g := gateway(served(echo))
	resp := invoke(t, g, event(`{"tenant_id":"acme","sub":"u1"}`, `{"cellwall-tenant":"mallory","x-tenant-id":"mallory","tenant_id":"mallory"}`))
	if resp.Status != 200 || string(resp.Body) != "acme" || resp.Header.Get("X-Path") != "/orders/1" {
		t.Errorf("answered %d %q %v", resp.Status, resp.Body, resp.Header)
	}
}

func TestGatewayRefusesClaims(t *testing.T) {
	g := gateway(served(func(context.Context, string, *routing.Request) *routing.Response {
		t.Error("a request without a tenant was routed")
		return routing.Problem(500, "x")
	}))
	long := strings.Repeat("n", 129)
	for _, claims := range []string{
		`{}`, `null`, `{"tenant_id":null}`, `{"tenant_id":""}`, `{"tenant_id":42}`, `{"tenant_id":true}`, `{"tenant_id":{"id":"acme"}}`,
		`{"tenant_id":["acme"]}`, `{"tenant_id":["acme","beta"]}`, `{"tenant_id":"[acme beta]"}`, `{"tenant_id":"[acme]"}`,
		`{"tenant_id":"` + long + `"}`, "{\"tenant_id\":\"a\xff\"}", `{"tenant_id":"\ud800"}`,
		`{"Tenant_id":"acme"}`, `{"tenant":"acme"}`,
	} {
		if resp := invoke(t, g, event(claims, `{"cellwall-tenant":"acme","tenant_id":"acme"}`)); resp.Status != 401 {
			t.Errorf("claims %s: answered %d", claims, resp.Status)
		}
	}
	for _, authorizer := range []string{``, `"authorizer":null,`, `"authorizer":{"lambda":{"tenant_id":"acme"}},`, `"authorizer":{"iam":{"userArn":"acme"}},`} {
		payload := `{"version":"2.0","rawPath":"/","headers":{"authorization":"Bearer x"},"requestContext":{` + authorizer + `"http":{"method":"GET"}}}`
		if resp := invoke(t, g, payload); resp.Status != 401 {
			t.Errorf("%s: answered %d", authorizer, resp.Status)
		}
	}
}

// TestGatewayReadsTheTokenItself: the authorizer passes on a number as a string, and one of two values of
// a claim that stands twice.
func TestGatewayReadsTheTokenItself(t *testing.T) {
	good := handlertest.Bearer(`{"tenant_id":"acme"}`)
	segment := strings.Split(good, ".")
	refused := map[string]struct{ claim, authorization string }{
		"number":                {"42", handlertest.Bearer(`{"tenant_id":42}`)},
		"boolean":               {"true", handlertest.Bearer(`{"tenant_id":true}`)},
		"null":                  {"null", handlertest.Bearer(`{"tenant_id":null}`)},
		"object":                {"map[id:acme]", handlertest.Bearer(`{"tenant_id":{"id":"acme"}}`)},
		"list":                  {"acme", handlertest.Bearer(`{"tenant_id":["acme"]}`)},
		"twice":                 {"acme", handlertest.Bearer(`{"tenant_id":"beta","tenant_id":"acme"}`)},
		"twice, once escaped":   {"acme", handlertest.Bearer(`{"tenant\u005fid":"beta","tenant_id":"acme"}`)},
		"another claim twice":   {"acme", handlertest.Bearer(`{"iss":"a","iss":"b","tenant_id":"acme"}`)},
		"another tenant":        {"acme", handlertest.Bearer(`{"tenant_id":"beta"}`)},
		"another case":          {"acme", handlertest.Bearer(`{"tenant_id":"Acme"}`)},
		"none in it":            {"acme", handlertest.Bearer(`{}`)},
		"no header":             {"acme", ""},
		"no scheme":             {"acme", strings.TrimPrefix(good, "Bearer ")},
		"another scheme":        {"acme", "Basic" + strings.TrimPrefix(good, "Bearer")},
		"two tokens":            {"acme", good + "," + good},
		"two parts":             {"acme", segment[0] + "." + segment[1]},
		"four parts":            {"acme", good + ".x"},
		"padded":                {"acme", segment[0] + "." + segment[1] + "=." + segment[2]},
		"line break":            {"acme", segment[0] + "." + segment[1] + "\n." + segment[2]},
		"no base64":             {"acme", segment[0] + ".{}." + segment[2]},
		"no JSON":               {"acme", handlertest.Bearer("acme")},
		"not UTF-8":             {"acme", handlertest.Bearer("{\"tenant_id\":\"acme\",\"n\":\"\xff\"}")},
		"more behind the claim": {"acme", handlertest.Bearer(`{"tenant_id":"acme"}{}`)},
	}
	g := gateway(served(echo))
	for name, r := range refused {
		claims, _ := json.Marshal(map[string]string{"tenant_id": r.claim})
		if resp := invoke(t, g, eventOf(string(claims), r.authorization, `{}`)); resp.Status != 401 {
			t.Errorf("%s: answered %d %s", name, resp.Status, resp.Body)
		}
	}
	for _, claims := range []string{`{"tenant_id":"42"}`, `{"tenant_id":"ä\u65e5"}`} {
		if resp := invoke(t, g, event(claims, `{}`)); resp.Status != 200 {
			t.Errorf("%s: answered %d %s", claims, resp.Status, resp.Body)
		}
	}
}

func TestGatewayRefusesOtherEvents(t *testing.T) {
	g := gateway(served(echo))
	for _, payload := range []string{``, `{`, `null`, `{}`, `{"Records":[]}`, `{"version":"1.0","path":"/"}`} {
		if resp := invoke(t, g, payload); resp.Status != 400 {
			t.Errorf("%s: answered %d", payload, resp.Status)
		}
	}
}

func TestGatewayPanicNamesNothing(t *testing.T) {
	var log bytes.Buffer
	g := NewGateway(GatewayConfig{Identity: tenantID(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Router: served(func(context.Context, string, *routing.Request) *routing.Response { panic("shard s01 of eu-1") })})
	resp := invoke(t, g, event(`{"tenant_id":"acme"}`, `{}`))
	if resp.Status != 500 || strings.Contains(string(resp.Body), "s01") || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered %d %s", resp.Status, resp.Body)
	}
	if !strings.Contains(log.String(), "shard s01 of eu-1") || !strings.Contains(log.String(), "gateway_test.go") {
		t.Errorf("operators are not told: %s", log.String())
	}
}

func TestGatewayAnswersBeforeLambdaGivesUp(t *testing.T) {
	var left time.Duration
	deadline := time.Now().Add(time.Hour)
	g := gateway(served(func(ctx context.Context, _ string, _ *routing.Request) *routing.Response {
		at, _ := ctx.Deadline()
		left = deadline.Sub(at)
		return routing.Problem(504, "x")
	}))
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	if _, err := g.Invoke(ctx, []byte(event(`{"tenant_id":"acme"}`, `{}`))); err != nil {
		t.Fatal(err)
	}
	if left != answerMargin {
		t.Errorf("%v are kept for the answer, want %v", left, answerMargin)
	}
}

func TestGatewayAnswerTooLarge(t *testing.T) {
	g := gateway(served(func(context.Context, string, *routing.Request) *routing.Response {
		return &routing.Response{Status: 200, Body: bytes.Repeat([]byte{0xff}, routing.MaxBody)}
	}))
	if resp := invoke(t, g, event(`{"tenant_id":"acme"}`, `{}`)); resp.Status != 500 || !strings.Contains(string(resp.Body), routing.TypeAnswerTooLarge) {
		t.Errorf("answered %d with %d bytes", resp.Status, len(resp.Body))
	}
}

// FuzzGateway holds that whatever arrives is answered with a status, in the shape that its sender wants, and that only
// a verified claim makes a tenant.
func FuzzGateway(f *testing.F) {
	f.Add([]byte(event(`{"tenant_id":"acme"}`, `{"a":"b"}`)))
	f.Add([]byte(event(`{"tenant_id":["a"]}`, `{}`)))
	f.Add([]byte(`{"Records":[{"body":"x"}]}`))
	const claims = `{"tenant_id":"acme"}`
	for _, sender := range awseventtest.Senders() {
		f.Add(sender.Event(awseventtest.Client{Method: "GET", Path: "/a%2Fb", Query: "a=1", Claims: claims, Header: [][2]string{{"Authorization", handlertest.Bearer(claims)}}}))
	}
	g := gateway(served(func(_ context.Context, tenant string, req *routing.Request) *routing.Response {
		if tenant == "" || !strings.HasPrefix(req.Path, "/") {
			panic(fmt.Sprintf("tenant %q, path %q", tenant, req.Path))
		}
		return &routing.Response{Status: 299, Body: []byte(tenant)}
	}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		answer, err := g.Invoke(t.Context(), payload)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := awsevent.Parse(payload) // with an error, its kind
		got, err := awseventtest.Senders()[e.Kind].Answer("GET", answer)
		if err != nil {
			t.Fatal(err)
		}
		switch got.Status {
		case 299:
			if e.Request.Method != "HEAD" && !claimed(payload, string(got.Body)) {
				t.Fatalf("tenant %q of %s", got.Body, payload)
			}
		case 400, 401:
		default:
			t.Fatalf("answered %d", got.Status)
		}
	})
}

// claimed says whether an event's authorizer names the tenant, in one of the places where its claims may stand.
func claimed(payload []byte, tenant string) bool {
	var in struct {
		RequestContext struct {
			Authorizer map[string]any `json:"authorizer"`
		} `json:"requestContext"`
	}
	if json.Unmarshal(payload, &in) != nil {
		return false
	}
	flat := in.RequestContext.Authorizer
	jwt, _ := flat["jwt"].(map[string]any)
	for _, place := range []any{flat, flat["claims"], jwt["claims"]} {
		if claims, ok := place.(map[string]any); ok && claims["tenant_id"] == tenant {
			return true
		}
	}
	return false
}
