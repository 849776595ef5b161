package handler

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/routing"
)

// attempt is one try of tenant acme's to be somebody else, to choose its shard, or to learn of it.
type attempt struct {
	name  string
	only  string // the doors whose names have this; "" for all
	want  int    // 0: served, as acme; else the status, and no shard is asked
	token func(t *testing.T, s *stage) string
	event func(event map[string]any) // what somebody could have put into the event, of which a client writes only a part

	client awseventtest.Client
}

func header(pairs ...string) awseventtest.Client {
	c := awseventtest.Client{Method: "GET", Path: "/orders/1"}
	for i := 0; i < len(pairs); i += 2 {
		c.Header = append(c.Header, [2]string{pairs[i], pairs[i+1]})
	}
	return c
}

func at(path string) awseventtest.Client { return awseventtest.Client{Method: "GET", Path: path} }

func put(contentType, body string) awseventtest.Client {
	c := header("Content-Type", contentType)
	c.Method, c.Body = "PUT", []byte(body)
	return c
}

// signed is a token of acme's issuer with these claims in place of the tenant.
func signed(tenant, more string) func(*testing.T, *stage) string {
	return func(t *testing.T, s *stage) string {
		return s.sign(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, jose.RS256, s.claims(tenant, more))
	}
}

const (
	authorizer = "authorizer"
	tokensHere = "verified here"
	iam        = "IAM"
)

// attempts by header, path and body reach every door; those by token and event, the doors that know such.
var attempts = []attempt{
	// Headers of the router.
	{name: "the tenant's header", client: header("Cellwall-Tenant", "beta")},
	{name: "the tenant's header, in lower case", client: header("cellwall-tenant", "beta")},
	{name: "the tenant's header, several times", client: header("Cellwall-Tenant", "beta", "CELLWALL-TENANT", "beta", "cellWall-tenant", "acme")},
	{name: "the tenant's header with underscores", client: header("Cellwall_Tenant", "beta", "CELLWALL_TENANT", "beta", "cellwall-tenant_", "beta")},
	{name: "the shard's header", client: header("Cellwall-Shard", "forged-s05")},
	{name: "the epoch's header", client: header("Cellwall-Epoch", "forged-999")},
	{name: "the deadline's header", client: header("Cellwall-Deadline", "99999999999999")},
	{name: "a job's header", client: header("Cellwall-Job", "forged")},
	{name: "a header that is not there yet", client: header("Cellwall-Subset", "forged", "Cellwall-Cell", "forged")},
	{name: "the router's headers called the connection's", client: header("Connection", "Cellwall-Tenant, Cellwall-Shard, Cellwall-Epoch, close")},
	// Headers by which services know tenants, shards and hops.
	{name: "usual names for a tenant", client: header("X-Tenant-Id", "beta", "X-Tenant", "beta", "Tenant-Id", "beta", "Tenant", "beta", "x_tenant_id", "beta", "XTenantId", "beta")},
	{name: "an organisation", client: header("X-Scope-OrgID", "beta", "X-Org-Id", "beta", "X-Organization", "beta", "X-Customer-Id", "beta", "X-Account-Id", "beta", "X-Workspace-Id", "beta")},
	{name: "usual names for a shard", client: header("X-Shard", "forged-s05", "X-Shard-Id", "forged", "X-Subset", "forged", "X-Cell", "forged", "X-Epoch", "forged", "X-Hop", "forged")},
	{name: "an ALB's authentication", client: header("X-Amzn-Oidc-Identity", "beta", "X-Amzn-Oidc-Data", "forged.beta.x", "X-Amzn-Oidc-Accesstoken", "beta")},
	{name: "an ALB's client certificate", client: header("X-Amzn-Mtls-Clientcert-Subject", "CN=beta", "X-Client-Cert", "forged", "Client-Cert", "forged", "X-Forwarded-Client-Cert", "Subject=beta")},
	{name: "the web adapter's context", client: header("X-Amzn-Request-Context", `{"authorizer":{"tenant_id":"beta"}}`, "X-Amzn-Lambda-Context", "forged")},
	{name: "a mesh's and a proxy's word", client: header("X-Envoy-Original-Path", "/tenants/beta", "X-Auth-Request-User", "beta", "X-Consumer-Custom-Id", "beta", "X-Remote-User", "beta", "X-Jwt-Claim-Tenant_id", "beta")},
	{name: "another path", client: header("X-Original-Url", "/tenants/beta", "X-Rewrite-Url", "/tenants/beta", "X-Forwarded-Prefix", "/tenants/beta", "X-Script-Name", "/tenants/beta", "X-Forwarded-Path", "/beta")},
	{name: "another method", client: header("X-Http-Method-Override", "forged-DELETE", "X-Http-Method", "forged", "X-Method-Override", "forged")},
	{name: "another host", client: header("X-Forwarded-Host", "beta.example.com", "X-Host", "x", "Forwarded", "host=beta;for=forged")},
	{name: "a chain of addresses", client: header("X-Forwarded-For", "forged-10.0.0.1, 10.0.0.2", "X-Real-Ip", "forged", "True-Client-Ip", "forged", "X-Client-Ip", "forged", "Via", "1.1 forged")},
	{name: "context for services", client: header("Baggage", "tenant.id=beta", "Uberctx-Tenant", "beta", "Jaeger-Baggage", "tenant=beta")},
	{name: "a proxy for the shard", client: header("Proxy", "http://forged:1")},
	{name: "cookies", client: header("Cookie", "tenant_id=beta; cellwall-tenant=beta; shard=s05")},
	{name: "the query", client: awseventtest.Client{Method: "GET", Path: "/orders/1", Query: "tenant_id=beta&cellwall-tenant=beta&shard=s05&access_token=x"}},
	{name: "a request line with a host of its own", only: "HTTP, verified", client: at("http://s05.orders/orders/1")},
	{name: "a request line with a host and another's path", only: "HTTP, verified", client: at("http://s05.orders/tenants/beta"), want: 403},
	// A front door's headers.
	{name: "a front door's token without proof", client: header()},
	{name: "a front door's secret, guessed", client: header("Cellwall-Secret", doorSecret+"x")},
	{name: "a front door's secret with underscores", client: header("Cellwall_Secret", doorSecret)},
	// Methods.
	{name: "TRACE, to see what the shard is told", client: awseventtest.Client{Method: "TRACE", Path: "/orders/1"}, want: 501},
	// Paths.
	{name: "another tenant's path", client: at("/tenants/beta/orders"), want: 403},
	{name: "another tenant's path in capitals", client: at("/TENANTS/beta/orders"), want: 403},
	{name: "another tenant's path, encoded", client: at("/%74enants/%62eta/orders"), want: 403},
	{name: "another tenant's path, encoded twice", client: at("/%2574enants/%2562eta/orders"), want: 403},
	{name: "another tenant's path by dots", client: at("/tenants/acme/../beta/orders"), want: 403},
	{name: "another tenant's path by encoded dots", client: at("/tenants/acme/%2e%2e/beta/orders"), want: 403},
	{name: "another tenant's path by an encoded slash", client: at("/tenants/acme%2F..%2Fbeta/orders"), want: 403},
	{name: "another tenant's path by doubled slashes", client: at("//tenants//beta/orders"), want: 403},
	{name: "another tenant's path by a backslash", client: at("/tenants%5Cbeta/orders"), want: 403},
	{name: "another tenant's path by parameters", client: at("/tenants;v=1/beta;acme/orders"), want: 403},
	{name: "its own name in capitals", client: at("/tenants/ACME/orders"), want: 403},
	{name: "its own path", client: at("/tenants/acme/orders")},
	// Bodies.
	{name: "another tenant's body", client: put("application/json", `{"tenant_id":"beta"}`), want: 403},
	{name: "another tenant's body, second", client: put("application/json", `{"tenant_id":"acme","tenant_id":"beta"}`), want: 403},
	{name: "another tenant's body, first", client: put("application/json", `{"tenant_id":"beta","tenant_id":"acme"}`), want: 403},
	{name: "another tenant's body in another case", client: put("application/json", `{"tenant_id":"acme","Tenant_ID":"beta"}`), want: 403},
	{name: "another tenant's body, escaped", client: put("application/json", `{"tenant\u005fid":"bet\u0061"}`), want: 403},
	{name: "another tenant's body as text", client: put("text/plain", `{"tenant_id":"beta"}`), want: 403},
	{name: "another tenant's body as bytes", client: put("application/octet-stream", ` {"tenant_id":"beta"}`), want: 403},
	{name: "another tenant's body, later", client: put("application/json", "{\"tenant_id\":\"acme\"}\n{\"tenant_id\":\"beta\"}"), want: 403},
	{name: "its own body", client: put("application/json", `{"tenant_id":"acme","x":1}`)},

	// Tokens, where this project verifies them.
	{name: "no token", only: tokensHere, want: 401, token: func(*testing.T, *stage) string { return "" }},
	{name: "a token that nobody signed", only: tokensHere, want: 401, token: func(_ *testing.T, s *stage) string {
		return encoded(`{"alg":"none"}`) + "." + encoded(s.claims(`"beta"`, "")) + "."
	}},
	{name: "a token with another's claims", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		parts := strings.Split(s.token(t, "acme"), ".")
		return parts[0] + "." + encoded(s.claims(`"beta"`, "")) + "." + parts[2]
	}},
	{name: "a token signed by a key of one's own", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		key := good(rsa.GenerateKey(rand.Reader, 2048))(t)
		return s.sign(t, jose.JSONWebKey{Key: key, KeyID: "k1"}, jose.RS256, s.claims(`"beta"`, ""))
	}},
	{name: "a token whose HMAC key is the public key", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		der := good(x509.MarshalPKIXPublicKey(&s.key.PublicKey))(t)
		text := encoded(`{"alg":"HS256","kid":"k1"}`) + "." + encoded(s.claims(`"beta"`, ""))
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}},
	{name: "a token for another audience", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		return s.sign(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, jose.RS256, strings.Replace(s.claims(`"beta"`, ""), `"orders"`, `"other"`, 1))
	}},
	{name: "a token of another issuer", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		return s.sign(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, jose.RS256, strings.Replace(s.claims(`"beta"`, ""), s.issuer.URL, "https://evil.example.com", 1))
	}},
	{name: "a token of long ago", only: tokensHere, want: 401, token: func(t *testing.T, s *stage) string {
		return s.sign(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, jose.RS256, fmt.Sprintf(`{"iss":%q,"aud":"orders","exp":%d,"tenant_id":"beta"}`, s.issuer.URL, time.Now().Add(-time.Hour).Unix()))
	}},
	// Tokens that the issuer signed, wherever they are verified.
	{name: "a token of several tenants", only: "HTTP API, JWT", want: 401, token: signed(`["acme","beta"]`, "")},
	{name: "a token of a list of one", only: "REST API, Cognito", want: 401, token: signed(`["beta"]`, "")},
	{name: "a token that names two tenants", only: "HTTP API, JWT", want: 401, token: signed(`"acme"`, `,"tenant_id":"beta"`)},
	{name: "a token that names two tenants, escaped", only: tokensHere, want: 401, token: signed(`"acme"`, `,"tenant\u005fid":"beta"`)},
	{name: "a token of a number", only: "REST API, Cognito", want: 401, token: signed(`42`, "")},
	{name: "a token of a list as API Gateway writes it", only: "HTTP API, JWT", want: 401, token: signed(`"[acme beta]"`, "")},
	{name: "two tokens", only: "HTTP, verified", want: 401, client: header("Authorization", "Bearer x")},
	{name: "two tokens in one header", only: "URL, verified", want: 401, client: header("Authorization", "Bearer x")}, // which is what the URL makes of them
	{name: "two tokens in a list", only: "multi-value ALB", want: 401, client: header("Authorization", "Bearer x")},
	{name: "a token beside claims of another", only: "JWT", want: 401, event: claimsOf(`jwt`, "beta")},

	// What authorizers and IAM say.
	{name: "no authorizer", only: "JWT", want: 401, event: without(authorizer)},
	{name: "a Lambda authorizer where a JWT authorizer is meant", only: "JWT", want: 401, event: as(authorizer, map[string]any{"lambda": map[string]any{"tenant_id": "beta"}})},
	{name: "a JWT authorizer where a Lambda authorizer is meant", only: "Lambda authorizer", want: 401, event: claimsOf("jwt", "beta")},
	{name: "a context of several tenants", only: "Lambda authorizer", want: 401, event: as(authorizer, map[string]any{"lambda": map[string]any{"tenant_id": []string{"beta"}}})},
	{name: "a context in another case", only: "Lambda authorizer", want: 401, event: as(authorizer, map[string]any{"lambda": map[string]any{"Tenant_Id": "beta"}})},
	{name: "a signature's own headers", only: iam, client: header("X-Amz-Security-Token", "forged", "X-Amz-Source-Arn", "forged")},
	{name: "a role of the name in another account", only: "URL, IAM", want: 401, event: as(authorizer, map[string]any{"iam": map[string]any{"userArn": "arn:aws:sts::222222222222:assumed-role/beta/session"}})},
	{name: "a session of the name", only: "URL, IAM", want: 401, event: as(authorizer, map[string]any{"iam": map[string]any{"userArn": "arn:aws:sts::111111111111:assumed-role/other/beta"}})},
	{name: "an account's root", only: "URL, IAM", want: 401, event: as(authorizer, map[string]any{"iam": map[string]any{"userArn": "arn:aws:iam::111111111111:root"}})},
	{name: "a federated user of the name", only: "REST API, IAM", want: 401, event: as("identity", map[string]any{"userArn": "arn:aws:sts::111111111111:federated-user/beta"})},
	{name: "an authorizer's word in a load balancer's event", only: "ALB", event: claimsOf("jwt", "beta")},
	{name: "a principal in a load balancer's event", only: "ALB", event: as("identity", map[string]any{"userArn": betaRole})},
	{name: "a front door's role in a load balancer's event", only: "ALB", event: as("identity", map[string]any{"userArn": doorRole})},
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// as puts a value into the event's requestContext.
func as(name string, value any) func(map[string]any) {
	return func(event map[string]any) { event["requestContext"].(map[string]any)[name] = value }
}

func without(name string) func(map[string]any) {
	return func(event map[string]any) { delete(event["requestContext"].(map[string]any), name) }
}

// claimsOf is an authorizer of a kind that found a tenant in a token.
func claimsOf(kind, tenant string) func(map[string]any) {
	return as(authorizer, map[string]any{kind: map[string]any{"claims": map[string]any{"tenant_id": tenant}}})
}

// TestSpoof: whatever a client tries, it is served as the tenant that it is, by a shard of that tenant, or refused
// before any shard is asked; no word of it reaches the shard under a name that the shard trusts; and the answer
// tells nothing of what is inside.
func TestSpoof(t *testing.T) {
	s := newStage(t)
	token, beta := s.token(t, "acme"), s.token(t, "beta")
	tried := 0
	for _, a := range attempts {
		made := 0
		for _, door := range s.doors {
			if !strings.Contains(door.name, a.only) {
				continue
			}
			made++
			try := a
			if try.client.Method == "" {
				try.client = header()
			}
			try.client.Header = append([][2]string{}, a.client.Header...)
			switch {
			case a.token != nil:
				if given := a.token(t, s); given != "" {
					try.client.Header = append(try.client.Header, [2]string{"Authorization", "Bearer " + given})
				}
			case door.tokens:
				try.client.Header = append(try.client.Header, [2]string{"Authorization", "Bearer " + token})
			}
			if strings.HasPrefix(a.name, "a front door's") {
				try.client.Header = append(try.client.Header, [2]string{routing.HeaderToken, beta})
			}
			what := door.name + ": " + a.name
			s.taken()
			answer := door.ask(t, try)
			got := s.taken()
			want := a.want
			if want == 0 {
				want = http.StatusOK
				s.isServed(t, what, got)
			} else if len(got) > 0 {
				t.Errorf("%s: a shard was asked: %+v", what, got)
			}
			if answer.Status != want {
				t.Errorf("%s: answered %d %s, want %d", what, answer.Status, answer.Body, want)
			}
			learns(t, what, answer)
		}
		if made == 0 {
			t.Errorf("no door is called %q, so that %q is not tried", a.only, a.name)
		}
		tried += made
	}
	t.Logf("%d attempts, %d times", len(attempts), tried)
	if len(attempts) < 40 {
		t.Errorf("only %d attempts", len(attempts))
	}
}

// TestStrangersLookAlike: a tenant that is unknown and one of another cell get the same bytes, after the same
// readings of the directory, the first time and when the answer is remembered.
func TestStrangersLookAlike(t *testing.T) {
	for i := range newStage(t).doors {
		s := newStage(t) // with nothing remembered
		door := s.doors[i]
		if !door.tokens {
			continue
		}
		for _, round := range []string{"first", "again"} {
			answers := map[string]awseventtest.Answer{}
			for _, tenant := range []string{"nobody", "elsewhere"} {
				answers[tenant] = door.ask(t, attempt{client: header("Authorization", "Bearer "+s.token(t, tenant))})
				learns(t, door.name, answers[tenant])
				if answers[tenant].Status != 404 {
					t.Errorf("%s, %s: %s is answered %d", door.name, round, tenant, answers[tenant].Status)
				}
			}
			if diff := cmp.Diff(answers["nobody"], answers["elsewhere"]); diff != "" {
				t.Errorf("%s, %s: a tenant of another cell is told from one that is none:\n%s", door.name, round, diff)
			}
			if nobody, elsewhere := s.rows.read("nobody"), s.rows.read("elsewhere"); nobody != elsewhere || nobody == 0 {
				t.Errorf("%s, %s: the directory is read %d and %d times", door.name, round, nobody, elsewhere)
			}
		}
		if got := s.taken(); len(got) > 0 {
			t.Errorf("%s: a shard was asked: %+v", door.name, got)
		}
		// The front door alone is told, and only by its proof.
		told := door.ask(t, attempt{client: header("Authorization", "Bearer "+s.token(t, "elsewhere"), "Cellwall-Secret", doorSecret)})
		if learns(t, door.name, told); told.Status != 421 {
			t.Errorf("%s: the front door is answered %d", door.name, told.Status)
		}
	}
}

// TestFailuresNameNothing: however a shard fails, the client reads nothing of it.
func TestFailuresNameNothing(t *testing.T) {
	s := newStage(t)
	token := s.token(t, "acme")
	failures := map[string]func(routing.Call) (*routing.Response, error){
		"an error": func(c routing.Call) (*routing.Response, error) {
			return nil, fmt.Errorf("invoke %s.eu-1.orders.internal at 10.0.0.7: refused", c.Shard)
		},
		"not sent": func(c routing.Call) (*routing.Response, error) {
			return nil, errors.Join(routing.ErrNotSent, errors.New(c.Shard))
		},
		"throttled": func(c routing.Call) (*routing.Response, error) {
			return nil, fmt.Errorf("shard %s: %w", c.Shard, routing.ErrThrottled)
		},
		"too large": func(c routing.Call) (*routing.Response, error) {
			return nil, fmt.Errorf("shard %s: %w", c.Shard, routing.ErrTooLarge)
		},
		"a panic": func(c routing.Call) (*routing.Response, error) { panic("shard " + c.Shard + " of eu-1") },
		"misdirected": func(c routing.Call) (*routing.Response, error) {
			return &routing.Response{Status: 421, Header: http.Header{"X-Shard": {c.Shard}}, Body: []byte("not on " + c.Shard)}, nil
		},
	}
	for name, fail := range failures {
		s.failAs(fail)
		for _, door := range s.doors {
			for _, method := range []string{"GET", "POST"} {
				client := header()
				if client.Method = method; door.tokens {
					client = header("Authorization", "Bearer "+token)
					client.Method = method
				}
				answer := door.ask(t, attempt{client: client})
				if learns(t, door.name+", "+name, answer); answer.Status < 400 || answer.Status == 421 {
					t.Errorf("%s, %s: answered %d", door.name, name, answer.Status)
				}
			}
		}
	}
}

// TestForwardedFor: a shard reads one address of whoever asked, also behind a front door.
func TestForwardedFor(t *testing.T) {
	s := newStage(t)
	for _, door := range s.doors {
		client := header("X-Forwarded-For", "10.0.0.1")
		if door.tokens {
			client.Header = append(client.Header, [2]string{"Authorization", "Bearer " + s.token(t, "acme")})
		}
		for _, behind := range []bool{false, true} {
			if behind && (!door.tokens || strings.HasPrefix(door.name, "ALB")) { // the model of an ALB forgets the first address
				continue
			}
			want := "192.0.2.7" // by the senders' model
			if strings.HasPrefix(door.name, "HTTP, ") {
				want = "127.0.0.1"
			}
			if behind {
				client.Header = append(client.Header, [2]string{"Cellwall-Secret", doorSecret})
				want = "10.0.0.1"
			}
			s.taken()
			door.ask(t, attempt{client: client})
			if got := s.taken(); len(got) != 1 || !cmp.Equal(got[0].req.Header.Values("X-Forwarded-For"), []string{want}) {
				t.Errorf("%s, behind a front door %v: the shard got %+v, want %s", door.name, behind, got, want)
			}
		}
	}
}
