package awsevent

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/routing"
)

func raw(members ...string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for i := 0; i < len(members); i += 2 {
		out[members[i]] = json.RawMessage(members[i+1])
	}
	return out
}

// TestParse is one event of each kind, with everything in it that is looked at.
func TestParse(t *testing.T) {
	client := awseventtest.Client{
		Method: "PUT", Path: "/orders/42%20x", Query: "q=a%20b&q=c&empty=", Body: []byte("h\xe4llo"),
		Header: [][2]string{{"Accept", "text/html,application/json"}, {"Cookie", "a=1; b=2"}, {"Cellwall-Tenant", "mallory"}},
		Claims: `{"tenant_id":"acme","aud":"[orders other]","roles":["a","b"]}`,
	}
	claims := raw("tenant_id", `"acme"`, "aud", `"[orders other]"`, "roles", `["a","b"]`)
	header := http.Header{
		"Accept": {"text/html,application/json"}, "Cookie": {"a=1; b=2"}, "Cellwall-Tenant": {"mallory"}, "Host": {"api.example.com"},
		"X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"},
		"X-Amzn-Trace-Id": {"Root=1-692c1f00-0123456789abcdef01234567"},
	}
	for _, test := range []struct {
		name    string
		payload []byte
		want    Event
		query   string
	}{
		{"HTTP API", awseventtest.HTTPAPI(client), Event{Kind: HTTPAPI, Claims: claims, RequestID: "J1"}, client.Query},
		{"Function URL", awseventtest.FunctionURL(client), Event{Kind: FunctionURL, Claims: claims, RequestID: "J1"}, client.Query},
		{"REST API", awseventtest.REST(client), Event{Kind: REST, Claims: claims, RequestID: "J1"}, client.Query},
		{"ALB", awseventtest.ALB(client), Event{Kind: ALB, RequestID: header.Get("X-Amzn-Trace-Id")}, "q=c&empty="},
		{"multi-value ALB", awseventtest.ALBMulti(client), Event{Kind: ALBMulti, RequestID: header.Get("X-Amzn-Trace-Id")}, client.Query},
	} {
		test.want.SourceIP = "192.0.2.7"
		test.want.Request = routing.Request{Method: "PUT", Path: client.Path, RawQuery: test.query, Header: header, Body: client.Body}
		got, err := Parse(test.payload)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestSamples: the event samples that aws-lambda-go ships are read as what they are. A request to an authorizer is
// no request to a router, which would answer it with what no gateway understands.
func TestSamples(t *testing.T) {
	for file, want := range map[string]string{
		"alb-lambda-target-request-headers-only":       "alb GET / ?key=hello from 25.12.198.67",
		"alb-lambda-target-request-multivalue-headers": "alb-multi GET / ?key=hello from 72.21.198.67",
		"apigw-request":                          `rest-api POST /hello/world ?name=me from 192.168.196.186 by theUserArn context "admin"`,
		"apigw-restapi-openapi-request":          `rest-api POST /hello/world ?name=me from 192.168.196.186 by theUserArn context "admin"`,
		"apigw-v2-request-iam":                   "http-api GET /my/path ?parameter1=value1&parameter1=value2&parameter2=value from IP by arn:aws:iam::1234567890:user/Admin",
		"apigw-v2-request-jwt-authorizer":        `http-api GET /my/path ?parameter1=value1&parameter1=value2&parameter2=value from IP claim "value1"`,
		"apigw-v2-request-lambda-authorizer":     `http-api GET /my/path ?parameter1=value1&parameter1=value2&parameter2=value from IP context "value"`,
		"apigw-v2-request-no-authorizer":         "http-api GET / ? from 1.2.3.4",
		"lambda-urls-request":                    "function-url POST /my/path ?parameter1=value1&parameter1=value2&parameter2=value from 123.123.123.123 by arn:aws:iam::111122223333:user/example-user",
		"apigw-custom-auth-request-type-request": "refused",
		"apigw-v2-custom-authorizer-v1-request":  "refused",
		"apigw-v2-custom-authorizer-v2-request":  "refused",
	} {
		payload, err := os.ReadFile(filepath.Join("testdata", file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got := "refused"
		if e, err := Parse(payload); err == nil {
			got = e.Kind.String() + " " + e.Request.Method + " " + e.Request.Path + " ?" + e.Request.RawQuery + " from " + e.SourceIP
			if e.Principal != "" {
				got += " by " + e.Principal
			}
			if e.Claims != nil {
				got += " claim " + string(e.Claims["claim1"])
			}
			if e.Authorizer != nil {
				got += " context " + string(e.Authorizer["key"]) + string(e.Authorizer["principalId"])
			}
		}
		if got != want {
			t.Errorf("%s is read as\n\t%s, want\n\t%s", file, got, want)
		}
	}
}

// at is a minimal event of each kind with a path.
func at(path string) map[Kind]string {
	text, _ := json.Marshal(path) // a string always encodes
	return map[Kind]string{
		HTTPAPI:     `{"version":"2.0","rawPath":` + string(text) + `,"requestContext":{"http":{"method":"GET"}}}`,
		FunctionURL: `{"version":"2.0","rawPath":` + string(text) + `,"requestContext":{"domainName":"x.lambda-url.eu-west-1.on.aws","http":{"method":"GET"}}}`,
		REST:        `{"httpMethod":"GET","path":` + string(text) + `,"requestContext":{}}`,
		ALB:         `{"httpMethod":"GET","path":` + string(text) + `,"requestContext":{"elb":{}}}`,
		ALBMulti:    `{"httpMethod":"GET","path":` + string(text) + `,"multiValueHeaders":{},"requestContext":{"elb":{}}}`,
	}
}

// TestDecodedPathIsNoQuery: an HTTP API hands over what it decoded of /users/me%3Fadmin=true. Nor does what any
// other sender might let through become a query, or a percent sign the start of another byte.
func TestDecodedPathIsNoQuery(t *testing.T) {
	for _, test := range []struct{ sent, decoded, encoded string }{
		{"/users/me?admin=true", "/users/me%3Fadmin=true", "/users/me%3Fadmin=true"},
		{"/a#b", "/a%23b", "/a%23b"},
		{"/a%2Fb", "/a%252Fb", "/a%2Fb"},
		{"/a b", "/a%20b", "/a%20b"},
		{"/100%", "/100%25", "/100%25"},
		{"/%zz%4", "/%25zz%254", "/%25zz%254"},
		{"/ü\x00\x7f", "/%C3%BC%00%7F", "/%C3%BC%00%7F"},
		{"/a:b+c;d,e@f", "/a:b+c;d,e@f", "/a:b+c;d,e@f"},
		{"//host/x", "//host/x", "//host/x"},
	} {
		for kind, payload := range at(test.sent) {
			want := test.encoded
			if kind == HTTPAPI {
				want = test.decoded
			}
			got, err := Parse([]byte(payload))
			if err != nil || got.Kind != kind || got.Request.Path != want || got.Request.RawQuery != "" {
				t.Errorf("%v: %q is read as %v %q, query %q, %v; want %q", kind, test.sent, got.Kind, got.Request.Path, got.Request.RawQuery, err, want)
			}
		}
	}
	// Payload format 1.0 is the HTTP API's, too, and decoded.
	got, err := Parse([]byte(`{"version":"1.0","httpMethod":"GET","path":"/a%2Fb?c"}`))
	if err != nil || got.Kind != REST || got.Request.Path != "/a%252Fb%3Fc" || got.Request.RawQuery != "" {
		t.Errorf("format 1.0: %+v, %v", got, err)
	}
}

// TestALBQueryIsNotEncodedAgain: a load balancer hands over %3A as it was sent; encoded, it would be %253A.
func TestALBQueryIsNotEncodedAgain(t *testing.T) {
	for payload, want := range map[string]string{
		`{"httpMethod":"GET","path":"/","queryStringParameters":{"t":"10%3A30","k%5B%5D":"a+b","e":""},"requestContext":{"elb":{}}}`:               "t=10%3A30&k%5B%5D=a+b&e=",
		`{"httpMethod":"GET","path":"/","multiValueHeaders":{},"multiValueQueryStringParameters":{"t":["%3A","%2F"]},"requestContext":{"elb":{}}}`: "t=%3A&t=%2F",
		// What cannot have been sent so stays one parameter.
		`{"httpMethod":"GET","path":"/","queryStringParameters":{"a=b":"c&d=e#f ü"},"requestContext":{"elb":{}}}`: "a%3Db=c%26d=e%23f%20%C3%BC",
		// A REST API decoded it.
		`{"httpMethod":"GET","path":"/","multiValueQueryStringParameters":{"t":["10:30","a b&c"]},"requestContext":{}}`: "t=10%3A30&t=a%20b%26c",
		`{"httpMethod":"GET","path":"/","queryStringParameters":null,"multiValueQueryStringParameters":null}`:           "",
		`{"httpMethod":"GET","path":"/","queryStringParameters":{"b":"1","a":"2","b2":null}}`:                           "b=1&a=2&b2=",
	} {
		got, err := Parse([]byte(payload))
		if err != nil || got.Request.RawQuery != want {
			t.Errorf("%s: query %q, %v; want %q", payload, got.Request.RawQuery, err, want)
		}
	}
}

// TestMultiValueALBWithEmptyHost: a load balancer sends it for a client of HTTP/1.0, and its health checks have none.
func TestMultiValueALBWithEmptyHost(t *testing.T) {
	for _, headers := range []string{`{"host":[""]}`, `{"host":[]}`, `{"host":null}`, `{}`, `{"host":["",""],"Host":[""]}`} {
		got, err := Parse([]byte(`{"httpMethod":"GET","path":"/","multiValueHeaders":` + headers + `,"requestContext":{"elb":{}}}`))
		if err != nil || got.Kind != ALBMulti {
			t.Errorf("%s: %v, %v", headers, got.Kind, err)
		}
		if values, ok := got.Request.Header["Host"]; ok {
			t.Errorf("%s: hosts %q", headers, values)
		}
	}
}

// TestClaimsOfAnyShape: a claim that is a list fails no event, and claims are found where the senders put them.
func TestClaimsOfAnyShape(t *testing.T) {
	claims := `{"tenant_id":"acme","roles":["a","b"],"n":{"x":[1]},"exp":1796036400,"ok":true,"none":null}`
	read := raw("tenant_id", `"acme"`, "roles", `["a","b"]`, "n", `{"x":[1]}`, "exp", "1796036400", "ok", "true", "none", "null")
	const two, rest = `{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"},"authorizer":`, `{"httpMethod":"GET","path":"/","requestContext":{"authorizer":`
	for _, test := range []struct {
		payload            string
		claims, authorizer map[string]json.RawMessage
		principal          string
	}{
		{payload: two + `{"jwt":{"claims":` + claims + `,"scopes":null}}`, claims: read},
		{payload: two + `{"claims":` + claims + `}`, claims: read},
		{payload: two + claims, claims: read}, // flat
		{payload: rest + `{"claims":` + claims + `}`, claims: read},
		{payload: `{"version":"1.0",` + rest[1:] + `{"claims":` + claims + `,"scopes":["x"]}`, claims: read},
		{payload: two + `{"lambda":{"tenant":"acme","list":[1]}}`, authorizer: raw("tenant", `"acme"`, "list", "[1]")},
		{payload: rest + `{"principalId":"p","tenant":"acme","claims":"{}"}`, authorizer: raw("principalId", `"p"`, "tenant", `"acme"`, "claims", `"{}"`)},
		{payload: two + `{"iam":{"userArn":"arn:aws:iam::111111111111:role/x","cognitoIdentity":null}}`, principal: "arn:aws:iam::111111111111:role/x"},
		{payload: two + `{"iam":{"userArn":7}}`},
		{payload: two + `{"jwt":{"claims":[]},"lambda":null}`},
		{payload: two + `{"jwt":null}`}, {payload: two + `{"jwt":{}}`}, {payload: two + `{}`}, {payload: two + `null`}, {payload: two + `"x"`}, {payload: two + `[1]`},
		{payload: two + `{"lambda":{}}`, authorizer: raw()},
	} {
		got, err := Parse([]byte(test.payload + `}}`))
		if err != nil {
			t.Errorf("%s: %v", test.payload, err)
			continue
		}
		if diff := cmp.Diff([]any{test.claims, test.authorizer, test.principal}, []any{got.Claims, got.Authorizer, got.Principal}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.payload, diff)
		}
	}
}

// TestALBKnowsNobody: what a client puts into headers is no word of a load balancer.
func TestALBKnowsNobody(t *testing.T) {
	for _, payload := range []string{
		`{"httpMethod":"GET","path":"/","headers":{"x-amzn-oidc-identity":"acme"},"requestContext":{"elb":{},"authorizer":{"claims":{"tenant_id":"acme"}},"identity":{"userArn":"x"}}}`,
		`{"httpMethod":"GET","path":"/","multiValueHeaders":{},"requestContext":{"elb":{},"authorizer":{"jwt":{"claims":{"tenant_id":"acme"}}}}}`,
	} {
		got, err := Parse([]byte(payload))
		if err != nil || got.Claims != nil || got.Authorizer != nil || got.Principal != "" {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
	}
}

// TestSourceIP: behind a load balancer the address that it saw stands last; what stands before is the client's word.
func TestSourceIP(t *testing.T) {
	for forwarded, want := range map[string]string{
		`["192.0.2.7"]`: "192.0.2.7", `["203.0.113.9, 192.0.2.7"]`: "192.0.2.7", `["203.0.113.9","198.51.100.1,192.0.2.7"]`: "192.0.2.7", `[]`: "", `[""]`: "",
	} {
		got, err := Parse([]byte(`{"httpMethod":"GET","path":"/","multiValueHeaders":{"x-forwarded-for":` + forwarded + `},"requestContext":{"elb":{}}}`))
		if err != nil || got.SourceIP != want {
			t.Errorf("%s: %q, %v", forwarded, got.SourceIP, err)
		}
	}
}

// TestRefuses: what is no request is an error, and the kind is known where it can be, so that the refusal is in the
// shape that the sender wants.
func TestRefuses(t *testing.T) {
	for payload, kind := range map[string]Kind{
		``: 0, `null`: 0, `[]`: 0, `"x"`: 0, `{}`: 0, `{"Records":[]}`: 0, `{"version":"3.0","rawPath":"/","requestContext":{"http":{"method":"GET"}}}`: 0,
		`{"version":"2.0","rawPath":"/","requestContext":{}}`:                                                          0,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{}}}`:                                                 HTTPAPI,
		`{"version":"2.0","rawPath":"x","requestContext":{"http":{"method":"GET"}}}`:                                   HTTPAPI,
		`{"version":"2.0","rawPath":"/","requestContext":{"domainName":"a.lambda-url.eu-west-1.on.aws"}}`:              FunctionURL,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"}},"body":"!","isBase64Encoded":true}`: HTTPAPI,
		`{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"}},"headers":{"a":["b"]}}`:             0,
		`{"httpMethod":"GET","path":"","requestContext":{}}`:                                                           REST,
		`{"httpMethod":"","path":"/","requestContext":{"elb":{}}}`:                                                     ALB,
		`{"httpMethod":"OPTIONS","path":"*","multiValueHeaders":{},"requestContext":{"elb":{}}}`:                       ALBMulti,
		`{"httpMethod":"GET","path":"/","queryStringParameters":{"a":{}},"requestContext":{"elb":{}}}`:                 ALB,
		`{"httpMethod":"GET","path":"/","queryStringParameters":"a=b","requestContext":{"elb":{}}}`:                    ALB,
		`{"type":"REQUEST","methodArn":"x","httpMethod":"GET","path":"/","requestContext":{}}`:                         0,
		strings.Repeat(`{"requestContext":`, 20000) + `{}` + strings.Repeat(`}`, 20000):                                0,
	} {
		got, err := Parse([]byte(payload))
		if err == nil || got == nil || got.Kind != kind || got.Request.Method != "" {
			t.Errorf("%.200s is read as %+v, %v", payload, got, err)
		}
	}
}
