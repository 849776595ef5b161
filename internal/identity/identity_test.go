package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// tokens is a TokenVerifier in which a token is the tenant's name.
type tokens struct{ down bool }

func (v tokens) Verify(_ context.Context, token string) (string, error) {
	switch {
	case v.down:
		return "", errors.New("issuer does not answer")
	case token == "bad":
		return "", refuse("signature")
	}
	return token, nil
}

// unsigned is a token with these claims and a signature that nobody here looks at.
func unsigned(claims string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// claimed is an event whose authorizer found these claims in a token with those.
func claimed(verified, token string) *awsevent.Event {
	e := &awsevent.Event{Request: routing.Request{Header: http.Header{}}}
	if json.Unmarshal([]byte(verified), &e.Claims) != nil {
		panic(verified)
	}
	if token != "" {
		e.Request.Header.Set("Authorization", "Bearer "+unsigned(token))
	}
	return e
}

func field(value string) *awsevent.Event {
	return &awsevent.Event{Authorizer: map[string]json.RawMessage{"tenant": json.RawMessage(value), "principalId": json.RawMessage(`"user"`)}}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestOneTenant holds guarantee 1 for every source.
func TestOneTenant(t *testing.T) {
	claims, fields := must[*Claims](t)(NewClaims("tenant_id")), must[*Context](t)(NewContext("tenant"))
	long := strings.Repeat("n", 128)
	for value, want := range map[string]string{
		`"acme"`: "acme", `"\u00e4"`: "ä", `"42"`: "42", `" a "`: " a ", `"` + long + `"`: long,
	} {
		both := `{"tenant_id":` + value + `}`
		if got, err := claims.Caller(t.Context(), claimed(both, both)); err != nil || got != (Caller{Tenant: want}) {
			t.Errorf("claim %s: %+v, %v", value, got, err)
		}
		if got, err := fields.Caller(t.Context(), field(value)); err != nil || got != (Caller{Tenant: want}) {
			t.Errorf("field %s: %+v, %v", value, got, err)
		}
	}
	for _, value := range []string{
		`null`, `""`, `42`, `true`, `{"id":"acme"}`, `["acme"]`, `["acme","beta"]`, `[]`, `"[acme beta]"`, `"[acme]"`, `"` + long + `n"`, `"\ud800"`, "\"a\xff\"",
	} {
		both := `{"tenant_id":` + value + `}`
		if got, err := claims.Caller(t.Context(), claimed(both, both)); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("claim %s: %+v, %v", value, got, err)
		}
		if got, err := fields.Caller(t.Context(), field(value)); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("field %s: %+v, %v", value, got, err)
		}
	}
	for name, e := range map[string]*awsevent.Event{
		"no claims":               {Request: routing.Request{Header: http.Header{"Authorization": {"Bearer " + unsigned(`{"tenant_id":"acme"}`)}}}},
		"no token":                claimed(`{"tenant_id":"acme"}`, ""),
		"another tenant":          claimed(`{"tenant_id":"acme"}`, `{"tenant_id":"beta"}`),
		"a number in the token":   claimed(`{"tenant_id":"42"}`, `{"tenant_id":42}`),
		"a list in the token":     claimed(`{"tenant_id":"acme"}`, `{"tenant_id":["acme"]}`),
		"twice in the token":      claimed(`{"tenant_id":"acme"}`, `{"tenant_id":"beta","tenant_id":"acme"}`),
		"twice, escaped":          claimed(`{"tenant_id":"acme"}`, `{"tenant\u005fid":"beta","tenant_id":"acme"}`),
		"another claim's tenant":  claimed(`{"Tenant_id":"acme"}`, `{"Tenant_id":"acme"}`),
		"a Lambda context beside": field(`"acme"`),
	} {
		if got, err := claims.Caller(t.Context(), e); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, e := range map[string]*awsevent.Event{"no context": {}, "claims beside": claimed(`{"tenant":"acme"}`, `{"tenant":"acme"}`), "another field": {Authorizer: map[string]json.RawMessage{"Tenant": json.RawMessage(`"acme"`)}}} {
		if got, err := fields.Caller(t.Context(), e); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestNotTheClientsWord holds guarantee 2: with everything that a client can write, no source finds a tenant.
func TestNotTheClientsWord(t *testing.T) {
	header := http.Header{}
	for _, name := range []string{"Cellwall-Tenant", "X-Tenant-Id", "Tenant_id", "tenant", "X-Amzn-Oidc-Data", "X-Amzn-Request-Context", "Cookie", "Proxy-Authorization", routing.HeaderToken, HeaderSecret} {
		header[name] = []string{"acme"}
	}
	e := &awsevent.Event{Request: routing.Request{
		Method: "POST", Path: "/tenants/acme/x", RawQuery: "tenant_id=acme&access_token=acme", Header: header, Body: []byte(`{"tenant_id":"acme","access_token":"acme"}`),
	}}
	sources := map[string]Source{
		"claims": must[*Claims](t)(NewClaims("tenant_id")), "context": must[*Context](t)(NewContext("tenant_id")),
		"principals": must[*Principals](t)(NewPrincipals(map[string]string{"arn:aws:iam::111111111111:role/acme": "acme"})),
		"verified":   NewVerified(tokens{}),
	}
	for name, source := range sources {
		behind := must[Source](t)(Behind(source, FrontDoors{Roles: []string{"arn:aws:iam::111111111111:role/door"}, Secret: "0123456789abcdef", Tokens: tokens{}}))
		for form, source := range map[string]Source{"alone": source, "behind a front door": behind} {
			if got, err := source.Caller(t.Context(), e); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
				t.Errorf("%s %s: %+v, %v", name, form, got, err)
			}
		}
	}
}

func TestVerified(t *testing.T) {
	bearer := func(values ...string) *awsevent.Event {
		return &awsevent.Event{Request: routing.Request{Header: http.Header{"Authorization": values}}}
	}
	for _, value := range []string{"Bearer acme", "bearer acme", "BEARER acme"} {
		if got, err := NewVerified(tokens{}).Caller(t.Context(), bearer(value)); err != nil || got != (Caller{Tenant: "acme"}) {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
	for _, values := range [][]string{nil, {""}, {"acme"}, {"Bearer"}, {"Bearer "}, {"Basic acme"}, {"Bearer acme", "Bearer beta"}, {"Bearer bad"}} {
		if got, err := NewVerified(tokens{}).Caller(t.Context(), bearer(values...)); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("%q: %+v, %v", values, got, err)
		}
	}
	if got, err := NewVerified(tokens{down: true}).Caller(t.Context(), bearer("Bearer acme")); got != (Caller{}) || err == nil || errors.Is(err, routing.ErrToken) {
		t.Errorf("the issuer is down: %+v, %v", got, err)
	}
}

func TestPrincipals(t *testing.T) {
	p := must[*Principals](t)(NewPrincipals(map[string]string{
		"arn:aws:iam::111111111111:role/team/Orders":               "acme",
		"arn:aws:iam::222222222222:role/Orders":                    "beta",
		"arn:aws:iam::111111111111:user/jo":                        "gamma",
		"arn:aws:sts::333333333333:assumed-role/Batch/i-012345678": "delta",
		"arn:aws-cn:iam::111111111111:role/Orders":                 "china",
	}))
	for arn, want := range map[string]string{
		"arn:aws:sts::111111111111:assumed-role/Orders/session":     "acme",
		"arn:aws:sts::111111111111:assumed-role/Orders/Batch":       "acme",
		"arn:aws:iam::111111111111:role/team/Orders":                "acme",
		"arn:aws:iam::111111111111:role/Orders":                     "acme",
		"arn:aws:sts::222222222222:assumed-role/Orders/jo@example":  "beta",
		"arn:aws:iam::111111111111:user/jo":                         "gamma",
		"arn:aws:iam::111111111111:user/staff/jo":                   "gamma",
		"arn:aws:sts::333333333333:assumed-role/Batch/another":      "delta",
		"arn:aws-cn:sts::111111111111:assumed-role/Orders/anything": "china",
	} {
		if got, err := p.Caller(t.Context(), &awsevent.Event{Principal: arn}); err != nil || got != (Caller{Tenant: want}) {
			t.Errorf("%s: %+v, %v", arn, got, err)
		}
	}
	for _, arn := range []string{
		"", "acme", "arn", "arn:aws:iam::111111111111:role", "arn:aws:iam::111111111111:role/", "arn:aws:iam::111111111111:role/orders", "arn:aws:iam::111111111111:user/Orders",
		"arn:aws:iam::333333333333:role/Orders", "arn:aws:iam::111111111111:root", "arn:aws:sts::111111111111:federated-user/jo", "arn:aws:iam::111111111111:group/Orders",
		"arn:aws:sts::111111111111:assumed-role/Batch/Orders", "arn:aws:sts::111111111111:assumed-role/x/Orders/session", "arn:aws:sts::111111111111:assumed-role/Orders",
		"arn:aws:sts::111111111111:assumed-role/Orders/", "arn:aws:sts::111111111111:assumed-role//Orders", "arn:aws:s3::111111111111:role/Orders", "arn:aws:iam:eu-west-1:111111111111:role/Orders",
		"arn:aws:iam::11111111111:role/Orders", "arn:aws:iam::11111111111x:role/Orders", "arn::iam::111111111111:role/Orders", "arn:aws-cn:iam::222222222222:role/Orders",
		"arn:aws:iam::111111111111:role/Orders:x", " arn:aws:iam::111111111111:role/Orders", "arn:aws:iam::111111111111:role/Orders ", "AIDAXXXXXXXXXXXXXXXXX", "arn:aws:sts::111111111111:assumed-role/Orders\x00/s",
	} {
		if got, err := p.Caller(t.Context(), &awsevent.Event{Principal: arn}); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("%q: %+v, %v", arn, got, err)
		}
	}
	for name, tenants := range map[string]map[string]string{
		"nobody":           nil,
		"no ARN":           {"orders": "acme"},
		"the root":         {"arn:aws:iam::111111111111:root": "acme"},
		"no tenant":        {"arn:aws:iam::111111111111:role/Orders": ""},
		"a long tenant":    {"arn:aws:iam::111111111111:role/Orders": strings.Repeat("n", 129)},
		"one role twice":   {"arn:aws:iam::111111111111:role/Orders": "acme", "arn:aws:iam::111111111111:role/team/Orders": "beta"},
		"role and session": {"arn:aws:iam::111111111111:role/Orders": "acme", "arn:aws:sts::111111111111:assumed-role/Orders/x": "beta"},
	} {
		if _, err := NewPrincipals(tenants); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// Two spellings of one role that are one tenant say the same.
	must[*Principals](t)(NewPrincipals(map[string]string{"arn:aws:iam::111111111111:role/Orders": "acme", "arn:aws:iam::111111111111:role/team/Orders": "acme"}))
}

func TestBehindFrontDoor(t *testing.T) {
	const secret = "0123456789abcdef"
	direct := must[*Claims](t)(NewClaims("tenant_id"))
	source := must[Source](t)(Behind(direct, FrontDoors{Roles: []string{"arn:aws:iam::111111111111:role/door"}, Secret: secret, Tokens: tokens{}}))
	event := func(principal string, headers ...string) *awsevent.Event {
		e := claimed(`{"tenant_id":"acme"}`, `{"tenant_id":"acme"}`)
		e.Principal = principal
		for i := 0; i < len(headers); i += 2 {
			e.Request.Header.Add(headers[i], headers[i+1])
		}
		return e
	}
	const door = "arn:aws:sts::111111111111:assumed-role/door/function"
	for name, test := range map[string]struct {
		e    *awsevent.Event
		want Caller
	}{
		"a client":                            {event(""), Caller{"acme", false}},
		"a client that forwards":              {event("", routing.HeaderToken, "beta"), Caller{"acme", false}},
		"a client with a wrong secret":        {event("", HeaderSecret, secret+"x", routing.HeaderToken, "beta"), Caller{"acme", false}},
		"a client with the secret twice":      {event("", HeaderSecret, secret, HeaderSecret, secret, routing.HeaderToken, "beta"), Caller{"acme", false}},
		"another role":                        {event("arn:aws:sts::111111111111:assumed-role/other/door", routing.HeaderToken, "beta"), Caller{"acme", false}},
		"the role, in another account":        {event("arn:aws:sts::222222222222:assumed-role/door/function", routing.HeaderToken, "beta"), Caller{"acme", false}},
		"the door by its role":                {event(door, routing.HeaderToken, "beta"), Caller{"beta", true}},
		"the door by its secret":              {event("", HeaderSecret, secret, routing.HeaderToken, "beta"), Caller{"beta", true}},
		"the door with Authorization as sent": {event("", HeaderSecret, secret), Caller{"acme", true}},
	} {
		if got, err := source.Caller(t.Context(), test.e); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	for name, e := range map[string]*awsevent.Event{
		"a bad token": event(door, routing.HeaderToken, "bad"), "two tokens": event(door, routing.HeaderToken, "acme", routing.HeaderToken, "beta"),
	} {
		if got, err := source.Caller(t.Context(), e); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, doors := range map[string]FrontDoors{"no proof": {}, "a short secret": {Secret: "short"}, "no ARN": {Roles: []string{"door"}}} {
		if _, err := Behind(direct, doors); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// Without a verifier what is forwarded is believed of nobody.
	blind := must[Source](t)(Behind(direct, FrontDoors{Secret: secret}))
	if got, err := blind.Caller(t.Context(), event("", HeaderSecret, secret, routing.HeaderToken, "beta")); got != (Caller{}) || !errors.Is(err, routing.ErrToken) {
		t.Errorf("unverified: %+v, %v", got, err)
	}
}

// TestSameAnswer holds guarantee 4: what refuses a request names no tenant, neither the caller's nor the one that it
// tried, and is the same for tenants that exist and those that do not, of which this package cannot know.
func TestSameAnswer(t *testing.T) {
	p := must[*Principals](t)(NewPrincipals(map[string]string{"arn:aws:iam::111111111111:role/Orders": "secret-tenant"}))
	_, err := p.Caller(t.Context(), &awsevent.Event{Principal: "arn:aws:iam::111111111111:role/other"})
	a := must[Agreement](t)(NewAgreement("/tenants/{tenant}/*", "tenant_id"))
	disagrees := a.Check("secret-tenant", &routing.Request{Path: "/tenants/beta/x"})
	for _, err := range []error{err, disagrees, a.Check("secret-tenant", &routing.Request{Path: "/", Body: []byte(`{"tenant_id":"beta"}`)})} {
		if err == nil || strings.Contains(err.Error(), "secret-tenant") || strings.Contains(err.Error(), "beta") {
			t.Errorf("error %v", err)
		}
	}
}

// TestNamed: a fleet's name for a source is that source.
func TestNamed(t *testing.T) {
	all := Named{Claim: "tenant_id", Principals: map[string]string{"arn:aws:iam::111111111111:role/acme": "acme"}, Tokens: tokens{}}
	for name, want := range map[string]string{
		SourceJWT: "*identity.Claims", SourceLambda: "*identity.Context", SourceIAM: "*identity.Principals", SourceVerify: "*identity.Verified",
	} {
		all.Source = name
		if source, err := all.Open(); err != nil || fmt.Sprintf("%T", source) != want {
			t.Errorf("%s is %T, %v; want %s", name, source, err, want)
		}
		if _, err := (Named{Source: name}).Open(); err == nil {
			t.Errorf("%s opens without what it needs", name)
		}
	}
	all.Source = "JWT"
	if _, err := all.Open(); err == nil {
		t.Error("a source of no such name opens")
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := NewClaims(""); err == nil {
		t.Error("a claim without a name is accepted")
	}
	if _, err := NewContext(""); err == nil {
		t.Error("a field without a name is accepted")
	}
}

// FuzzClaims holds that a caller is what both the authorizer and the token say, by a reader of its own.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{`{"tenant_id":"acme"}`, `{"tenant_id":"acme","tenant_id":"beta"}`, `{"tenant_id":["acme"]}`, `{"tenant_id":"\ud800"}`, `{"Tenant_ID":"acme"}`, `{}`, `null`, "\xff"} {
		f.Add(s, s)
	}
	source := must[*Claims](f)(NewClaims("tenant_id"))
	f.Fuzz(func(t *testing.T, verified, token string) {
		e := &awsevent.Event{Request: routing.Request{Header: http.Header{"Authorization": {"Bearer " + unsigned(token)}}}}
		if json.Unmarshal([]byte(verified), &e.Claims) != nil {
			return
		}
		caller, err := source.Caller(t.Context(), e)
		if err != nil {
			if !errors.Is(err, routing.ErrToken) || caller != (Caller{}) {
				t.Fatalf("%q %q: %+v, %v", verified, token, caller, err)
			}
			return
		}
		var read map[string]any
		if json.Unmarshal([]byte(token), &read) != nil || fmt.Sprint(read["tenant_id"]) != caller.Tenant || !directory.ValidTenant(caller.Tenant) {
			t.Fatalf("%q %q: %+v", verified, token, caller)
		}
	})
}
