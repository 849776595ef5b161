package handler

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/awsevent/awseventtest"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// stage is a cell with everything real but its shards, its directory's table and its clock, and attackers before it.
type stage struct {
	key    *rsa.PrivateKey
	issuer *httptest.Server
	tokens *tokenverify.Verifier
	engine *routing.Engine
	subset []string // of acme, the tenant that every attacker is
	rows   *rows
	doors  []spoofDoor

	mu       sync.Mutex
	received []sent
	answer   func(call routing.Call) (*routing.Response, error)
}

// sent is what reached a shard.
type sent struct {
	call routing.Call
	req  routing.Request
}

// spoofDoor is a way in. ask sends a request; tokens says that its Authorization is what tells who asks.
type spoofDoor struct {
	name   string
	tokens bool
	ask    func(t *testing.T, a attempt) awseventtest.Answer
}

// rows is a directory's table that counts readings.
type rows struct {
	mu      sync.Mutex
	entries map[string]directory.Entry
	reads   map[string]int
}

func (r *rows) Get(_ context.Context, tenant string) (directory.Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads[tenant]++
	e, ok := r.entries[tenant]
	if !ok {
		return directory.Entry{}, fmt.Errorf("tenant %q: %w", tenant, directory.ErrNotFound)
	}
	return e, nil
}

// read is how often a tenant was read.
func (r *rows) read(tenant string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads[tenant]
}

// top is the one topology of the cell.
type top struct{ only directory.Topology }

func (t top) Topology(context.Context, string, uint64) (directory.Topology, error) {
	return t.only, nil
}

const (
	doorSecret = "a secret of the front door"
	acmeRole   = "arn:aws:sts::111111111111:assumed-role/acme/session"
	betaRole   = "arn:aws:sts::111111111111:assumed-role/beta/session"
	doorRole   = "arn:aws:sts::999999999999:assumed-role/door/function"
)

// inside is what no client may read in an answer.
var inside = []string{"s01", "s02", "s03", "s04", "s05", "s06", "s07", "s08", "eu-1", "us-1", "beta", "elsewhere", "internal", "10.0.", "goroutine"}

// issuerKey is one for all tests, as making it takes long.
var issuerKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newStage(t *testing.T) *stage {
	t.Helper()
	key := good(issuerKey())(t)
	s := &stage{key: key, answer: func(call routing.Call) (*routing.Response, error) {
		// A service that says more than it should, in headers.
		return &routing.Response{Status: 200, Header: http.Header{
			"X-Shard": {call.Shard}, "X-Served-By": {call.Shard + ".eu-1.orders.internal"}, "Via": {"1.1 " + call.Shard}, "Alt-Svc": {`h2="10.0.0.7:443"`},
			"Cellwall-Shard": {call.Shard}, "X-Cell": {"eu-1"}, "X-Amz-Executed-Version": {"s07"}, "Content-Type": {"text/plain"},
		}, Body: []byte("done")}, nil
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": s.issuer.URL, "jwks_uri": s.issuer.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Use: "sig"}}})
	})
	s.issuer = httptest.NewServer(mux)
	t.Cleanup(s.issuer.Close)
	s.tokens = good(tokenverify.New(tokenverify.Config{Issuer: s.issuer.URL, Audience: "orders", Claim: "tenant_id"}))(t)
	s.open(t)
	return s
}

// good fails the test for an error.
func good[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// open makes the engine and the doors.
func (s *stage) open(t *testing.T) {
	t.Helper()
	topology := directory.Topology{Cell: "eu-1", Version: 1, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: "1"}
	for n := range 8 {
		topology.Shards = append(topology.Shards, directory.Shard{ID: fmt.Sprintf("s%02d", n+1), Weight: 1, State: directory.InUse})
	}
	entry := func(tenant, cell string) directory.Entry {
		return directory.Entry{Tenant: tenant, Cell: cell, State: directory.Active, Epoch: 7, Topology: 1}
	}
	s.rows = &rows{reads: map[string]int{}, entries: map[string]directory.Entry{
		"acme": entry("acme", "eu-1"), "beta": entry("beta", "eu-1"), "elsewhere": entry("elsewhere", "us-1"),
	}}
	placer := good(topology.Placer([]byte("test key")))(t)
	s.subset = good(placer.Subset(s.rows.entries["acme"]))(t)
	entries := good(dircache.New(dircache.Config{Directory: s.rows, Cell: "eu-1"}))(t)
	s.engine = good(routing.New(routing.Config{
		Cell: "eu-1", Entries: entries, Topologies: top{topology}, Timeout: 5 * time.Second, NewID: func() string { return "request-1" },
		Keys:       func(context.Context, string, string) ([]byte, error) { return []byte("test key"), nil },
		Routes:     []routing.Route{{Path: "/*", Via: routing.ViaLambda}},
		Transports: map[string]routing.Transport{routing.ViaLambda: s},
	}))(t)
	verified := identity.NewVerified(s.tokens)
	claims := good(identity.NewClaims("tenant_id"))(t)
	principals := good(identity.NewPrincipals(map[string]string{"arn:aws:iam::111111111111:role/acme": "acme", "arn:aws:iam::111111111111:role/team/beta": "beta"}))(t)
	fields := good(identity.NewContext("tenant_id"))(t)
	s.doors = []spoofDoor{
		s.gateway(t, "HTTP API, JWT authorizer", true, claims, awseventtest.Senders()[0], s.authorized),
		s.gateway(t, "REST API, Cognito authorizer", true, claims, awseventtest.Senders()[2], s.authorized),
		s.gateway(t, "HTTP API, Lambda authorizer", false, fields, awseventtest.Senders()[0], inContext("authorizer", map[string]any{"lambda": map[string]any{"tenant_id": "acme"}})),
		s.gateway(t, "Function URL, IAM", false, principals, awseventtest.Senders()[1], inContext("authorizer", map[string]any{"iam": map[string]any{"userArn": acmeRole}})),
		s.gateway(t, "REST API, IAM", false, principals, awseventtest.Senders()[2], inContext("identity", map[string]any{"userArn": acmeRole, "sourceIp": "192.0.2.7"})),
		s.gateway(t, "Function URL, verified here", true, verified, awseventtest.Senders()[1], nil),
		s.gateway(t, "ALB, verified here", true, verified, awseventtest.Senders()[3], nil),
		s.gateway(t, "multi-value ALB, verified here", true, verified, awseventtest.Senders()[4], nil),
		s.listener(t, "HTTP, verified here", verified),
	}
}

// Send implements routing.Transport: it writes down what a shard gets.
func (s *stage) Send(_ context.Context, call routing.Call, req *routing.Request) (*routing.Response, error) {
	s.mu.Lock()
	s.received = append(s.received, sent{call, *req})
	answer := s.answer
	s.mu.Unlock()
	return answer(call)
}

// failAs has the shards answer so.
func (s *stage) failAs(answer func(routing.Call) (*routing.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// taken returns what the shards got since it was asked last.
func (s *stage) taken() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.received
	s.received = nil
	return out
}

// sign makes a token of these claims under a header.
func (s *stage) sign(t *testing.T, key any, alg jose.SignatureAlgorithm, claims string) string {
	t.Helper()
	signer := good(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil))(t)
	return good(good(signer.Sign([]byte(claims)))(t).CompactSerialize())(t)
}

// claims are a good token's; more is what stands beside, ", ..." or "".
func (s *stage) claims(tenant, more string) string {
	return fmt.Sprintf(`{"iss":%q,"aud":"orders","exp":%d,"tenant_id":%s%s}`, s.issuer.URL, time.Now().Add(time.Hour).Unix(), tenant, more)
}

func (s *stage) token(t *testing.T, tenant string) string {
	t.Helper()
	return s.sign(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, jose.RS256, s.claims(fmt.Sprintf("%q", tenant), ""))
}

// authorized is what API Gateway adds to an event whose token it verified: the token's claims. A token that it
// would refuse does not come so far.
func (s *stage) authorized(c *awseventtest.Client, _ map[string]any) {
	for _, h := range c.Header {
		if parts := strings.Split(strings.TrimPrefix(h[1], "Bearer "), "."); h[0] == "Authorization" && len(parts) == 3 {
			text, _ := base64.RawURLEncoding.DecodeString(parts[1])
			var flat map[string]any
			if json.Unmarshal(text, &flat) == nil {
				for name, value := range flat {
					flat[name] = fmt.Sprint(value)
				}
				text, _ = json.Marshal(flat)
				c.Claims = string(text)
			}
		}
	}
}

// inContext puts something under a name into an event's requestContext.
func inContext(name string, value any) func(*awseventtest.Client, map[string]any) {
	return func(_ *awseventtest.Client, event map[string]any) {
		if event != nil {
			event["requestContext"].(map[string]any)[name] = value
		}
	}
}

// gateway is a Lambda function's door. prepare is called twice: before the event is made, with nil, and with it.
func (s *stage) gateway(t *testing.T, name string, tokens bool, source identity.Source, sender awseventtest.Sender, prepare func(*awseventtest.Client, map[string]any)) spoofDoor {
	g := NewGateway(GatewayConfig{Router: s.engine, Identity: s.behind(t, source), Agreement: spoofAgreement(t), Log: quiet()})
	return spoofDoor{name, tokens, func(t *testing.T, a attempt) awseventtest.Answer {
		t.Helper()
		client := a.client
		if prepare != nil {
			prepare(&client, nil)
		}
		var event map[string]any
		if err := json.Unmarshal(sender.Event(client), &event); err != nil {
			t.Fatal(err)
		}
		if prepare != nil {
			prepare(&client, event)
		}
		if a.event != nil {
			a.event(event)
		}
		payload, err := g.Invoke(t.Context(), good(json.Marshal(event))(t))
		if err != nil {
			t.Fatal(err)
		}
		return good(sender.Answer(client.Method, payload))(t)
	}}
}

// listener is the local router's door, asked in plain text, as no client library would.
func (s *stage) listener(t *testing.T, name string, source identity.Source) spoofDoor {
	server := httptest.NewServer(NewHTTP(HTTPConfig{Router: s.engine, Identity: s.behind(t, source), Agreement: spoofAgreement(t), Log: quiet()}))
	t.Cleanup(server.Close)
	return spoofDoor{name, true, func(t *testing.T, a attempt) awseventtest.Answer {
		t.Helper()
		var text bytes.Buffer
		target := a.client.Path
		if a.client.Query != "" {
			target += "?" + a.client.Query
		}
		fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: api.example.com\r\n", a.client.Method, target)
		for _, h := range a.client.Header {
			fmt.Fprintf(&text, "%s: %s\r\n", h[0], h[1])
		}
		fmt.Fprintf(&text, "Content-Length: %d\r\n\r\n%s", len(a.client.Body), a.client.Body)
		conn := good(net.Dial("tcp", server.Listener.Addr().String()))(t)
		defer conn.Close()
		if _, err := conn.Write(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		resp := good(http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: a.client.Method}))(t)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		resp.Header.Del("Date")
		return awseventtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
	}}
}

func (s *stage) behind(t *testing.T, source identity.Source) identity.Source {
	return good(identity.Behind(source, identity.FrontDoors{Roles: []string{"arn:aws:iam::999999999999:role/door"}, Secret: doorSecret, Tokens: s.tokens}))(t)
}

func spoofAgreement(t *testing.T) identity.Agreement {
	return good(identity.NewAgreement("/tenants/{tenant}/*", "tenant_id"))(t)
}

// learns fails for what a client could read of the inside in an answer.
func learns(t *testing.T, what string, answer awseventtest.Answer) {
	t.Helper()
	text := string(answer.Body)
	for name, values := range answer.Header {
		text += "\n" + name + ": " + strings.Join(values, ",")
	}
	for _, secret := range inside {
		if strings.Contains(strings.ToLower(text), secret) {
			t.Errorf("%s: the answer tells %q: %d\n%s", what, secret, answer.Status, text)
		}
	}
	if answer.Status >= 400 && answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d is no problem document: %s", what, answer.Status, text)
	}
}

// isServed fails unless exactly one request reached a shard of acme's subset, as acme's and nobody else's.
func (s *stage) isServed(t *testing.T, what string, got []sent) {
	t.Helper()
	if len(got) != 1 {
		t.Errorf("%s: %d requests reached shards", what, len(got))
		return
	}
	call, header := got[0].call, got[0].req.Header
	if call.Tenant != "acme" || call.Epoch != 7 || !slices.Contains(s.subset, call.Shard) {
		t.Errorf("%s: served as %+v, want acme on one of %v", what, call, s.subset)
	}
	for name, want := range map[string]string{routing.HeaderTenant: "acme", routing.HeaderEpoch: "7", routing.HeaderShard: call.Shard} {
		if values := header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: the shard got %s: %q, want %q", what, name, values, want)
		}
	}
	for name, values := range header {
		if folded := strings.ReplaceAll(strings.ToLower(name), "_", "-"); strings.HasPrefix(folded, "cellwall-") &&
			!slices.Contains([]string{routing.HeaderTenant, routing.HeaderEpoch, routing.HeaderShard, routing.HeaderDeadline}, name) {
			t.Errorf("%s: the shard got %s: %q", what, name, values)
		}
		for _, value := range values {
			if name != "Cookie" && (strings.Contains(value, "beta") || strings.Contains(value, "forged")) {
				t.Errorf("%s: the shard got %s: %q", what, name, value)
			}
		}
	}
}
