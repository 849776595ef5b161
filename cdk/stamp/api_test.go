package stamp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// TestIngress: the API verifies tokens on every route and hands them to the router's alias.
func TestIngress(t *testing.T) {
	core := shape(t, "per-shard")["eu-canary/core"]
	checkIngress(t, core, "orders-eu-canary-ingress", "JWT", "RouterLive07757374")
	authorizer := core.one(t, "AWS::ApiGatewayV2::Authorizer")
	if got := text(authorizer.at("JwtConfiguration")); got != `{"Audience":["orders"],"Issuer":"https://login.example.com/"}` {
		t.Errorf("tokens are verified against %s", got)
	}
	if got := text(authorizer.at("IdentitySource")); got != `["$request.header.Authorization"]` {
		t.Errorf("tokens are read from %s", got)
	}
}

// checkIngress: one route for everything, with an authorizer of that kind, to a function's alias that the API may
// invoke.
func checkIngress(t *testing.T, s stack, name, kind, alias string) {
	t.Helper()
	if api := s.one(t, "AWS::ApiGatewayV2::Api"); api.at("Name") != name {
		t.Errorf("the API is %v", api.at("Name"))
	}
	route := s.one(t, "AWS::ApiGatewayV2::Route")
	if route.at("RouteKey") != "$default" || route.at("AuthorizationType") != kind {
		t.Errorf("route %v is open to %v, want %s", route.at("RouteKey"), route.at("AuthorizationType"), kind)
	}
	if own := kind == "JWT" || kind == "CUSTOM"; own != (route.at("AuthorizerId") != nil) || own != (len(s.of("AWS::ApiGatewayV2::Authorizer")) == 1) {
		t.Errorf("the route's authorizer is %s, of %d", text(route.at("AuthorizerId")), len(s.of("AWS::ApiGatewayV2::Authorizer")))
	}
	integration := s.one(t, "AWS::ApiGatewayV2::Integration")
	if got := text(integration.at("IntegrationUri")); got != `{"Ref":"`+alias+`"}` || integration.at("PayloadFormatVersion") != "2.0" {
		t.Errorf("requests go to %s in format %v", got, integration.at("PayloadFormatVersion"))
	}
	if live := s.Template.Resources[alias]; live.Type != "AWS::Lambda::Alias" || live.at("Name") != "live" {
		t.Errorf("%s is %s", alias, text(live))
	}
	checkAccessLog(t, s)
	allowed := 0
	for _, p := range s.of("AWS::Lambda::Permission") {
		if p.at("Principal") == "apigateway.amazonaws.com" && text(p.at("FunctionName")) == `{"Ref":"`+alias+`"}` && strings.Contains(text(p.at("SourceArn")), "execute-api") {
			allowed++
		}
	}
	if allowed != 1 {
		t.Errorf("%d permissions for the API to invoke %s", allowed, alias)
	}
}

// checkAccessLog: the stage writes lines of JSON to a log group that is there first, with nothing of a request's headers,
// path or query in them.
func checkAccessLog(t *testing.T, s stack) {
	t.Helper()
	stage := s.one(t, "AWS::ApiGatewayV2::Stage")
	arn, _ := stage.at("AccessLogSettings", "DestinationArn").(string)
	format, _ := stage.at("AccessLogSettings", "Format").(string)
	_, name, _ := strings.Cut(arn, ":log-group:")
	s.named(t, "AWS::Logs::LogGroup", "LogGroupName", name)
	if !strings.HasPrefix(name, "/aws/vendedlogs/") || !slices.ContainsFunc(stage.DependsOn, func(id string) bool { return s.Template.Resources[id].at("LogGroupName") == name }) {
		t.Errorf("%s is logged to %s after %v", s.Name, arn, stage.DependsOn)
	}
	var line map[string]string
	if err := json.Unmarshal([]byte(format), &line); err != nil {
		t.Fatalf("the format is no JSON: %v: %s", err, format)
	}
	for _, variable := range line {
		if !strings.HasPrefix(variable, "$context.") || strings.ContainsAny(strings.TrimPrefix(variable, "$"), " $") {
			t.Errorf("%s is no single variable", variable)
		}
		for _, tells := range []string{"header", "path", "query", "routeKey", "claims", "authorizer.principalId", "userAgent"} {
			if strings.Contains(strings.ToLower(variable), strings.ToLower(tells)) {
				t.Errorf("%s is logged", variable)
			}
		}
	}
	if line["requestId"] != "$context.requestId" || line["status"] != "$context.status" {
		t.Errorf("a line is %s", format)
	}
}

// TestURL: a Function URL of the router's alias in place of the API, for whom it is open, and how answers travel.
func TestURL(t *testing.T) {
	const near, far = "arn:aws:iam::111111111111:role/acme", "arn:aws:iam::333333333333:role/partners/zenith"
	byIAM := func(stream bool) func(*fleet.Fleet) {
		return func(f *fleet.Fleet) {
			f.Auth.Source, f.Auth.Principals = fleet.AuthIAM, map[string]string{near: "acme", far: "zenith", far + "-2": "zenith"}
			f.Router.Ingress, f.Router.Stream = fleet.IngressURL, stream
			f.Cells[0].Shards = f.Cells[0].Shards[:1]
		}
	}
	for name, c := range map[string]struct {
		core       stack
		kind, mode string
		open       map[string]string // principal to its actions with what narrows them
	}{
		"verify": {shape(t, "everything")["eu-canary/core"], "NONE", "RESPONSE_STREAM", map[string]string{
			"*": "lambda:InvokeFunction by URL, lambda:InvokeFunctionUrl of NONE"}},
		"iam": {synth(t, sample(t, shapes["lambda-only"], byIAM(false)))["eu-canary/core"], "AWS_IAM", "BUFFERED", map[string]string{
			"333333333333": "lambda:InvokeFunction by URL, lambda:InvokeFunctionUrl of AWS_IAM"}},
	} {
		t.Run(name, func(t *testing.T) {
			if n := len(c.core.of("AWS::ApiGatewayV2::Api")); n > 0 {
				t.Errorf("%d APIs beside the URL", n)
			}
			url := c.core.one(t, "AWS::Lambda::Url")
			if url.at("AuthType") != c.kind || url.at("InvokeMode") != c.mode || url.at("Qualifier") != "live" || url.at("Cors") != nil ||
				text(url.at("TargetFunctionArn")) != `{"Fn::GetAtt":["Router16807C72","Arn"]}` || !slices.Contains(url.DependsOn, "RouterLive07757374") {
				t.Errorf("the URL is %s", text(url))
			}
			env := c.core.environment(t, "orders-eu-canary-router")
			if stream := env("CELLWALL_STREAM"); (stream == "1") != (c.mode == "RESPONSE_STREAM") {
				t.Errorf("CELLWALL_STREAM is %q, and the URL's mode %s", stream, c.mode)
			}
			allowed := map[string][]string{}
			for _, p := range c.core.of("AWS::Lambda::Permission") {
				who := p.at("Principal").(string)
				if text(p.at("FunctionName")) != `{"Ref":"RouterLive07757374"}` || strings.Contains(who, "-frontdoor-role-") {
					continue
				}
				what := p.at("Action").(string)
				if p.at("InvokedViaFunctionUrl") == true {
					what += " by URL"
				}
				if kind := p.at("FunctionUrlAuthType"); kind != nil {
					what += " of " + kind.(string)
				}
				allowed[who] = append(allowed[who], what)
			}
			got := map[string]string{}
			for who, what := range allowed {
				slices.Sort(what)
				got[who] = strings.Join(what, ", ")
			}
			if d := cmp.Diff(c.open, got); d != "" {
				t.Errorf("who may call (-want +got):\n%s", d)
			}
		})
	}
}

// TestProvisioned: as many environments of the alias's version are kept started as the fleet says, and none by default.
func TestProvisioned(t *testing.T) {
	for name, want := range map[string]any{"everything": 10.0, "per-shard": nil} {
		core := shape(t, name)["eu-canary/core"]
		if got := core.Template.Resources["RouterLive07757374"].at("ProvisionedConcurrencyConfig", "ProvisionedConcurrentExecutions"); got != want {
			t.Errorf("%s: %v environments are kept started, want %v", name, got, want)
		}
	}
}

// TestSources: who verifies the caller, by each source that a fleet may name, and whom the API may ask.
func TestSources(t *testing.T) {
	const function = "function:authorizer:live"
	for name, c := range map[string]struct {
		auth    fleet.Auth
		kind    string
		allowed bool // to invoke the authorizer, by the cell's own stack
	}{
		"iam":                           {fleet.Auth{Source: fleet.AuthIAM, Principals: map[string]string{"arn:aws:iam::111111111111:role/acme": "acme"}}, "AWS_IAM", false},
		"verify":                        {fleet.Auth{Source: fleet.AuthVerify}, "NONE", false},
		"lambda":                        {fleet.Auth{Source: fleet.AuthLambda, AuthorizerARN: "arn:aws:lambda:eu-west-1:111111111111:" + function}, "CUSTOM", true},
		"lambda of another account":     {fleet.Auth{Source: fleet.AuthLambda, AuthorizerARN: "arn:aws:lambda:eu-west-1:222222222222:" + function}, "CUSTOM", false},
		"lambda of another region":      {fleet.Auth{Source: fleet.AuthLambda, AuthorizerARN: "arn:aws:lambda:us-east-1:111111111111:" + function}, "CUSTOM", false},
		"lambda of a region's namesake": {fleet.Auth{Source: fleet.AuthLambda, AuthorizerARN: "arn:aws:lambda:eu-west-1:111111111111:function:eu-west-1:live"}, "CUSTOM", true},
	} {
		t.Run(name, func(t *testing.T) {
			core := synth(t, sample(t, shapes["lambda-only"], func(f *fleet.Fleet) {
				c.auth.Issuer, c.auth.Audience, c.auth.Claim = f.Auth.Issuer, f.Auth.Audience, f.Auth.Claim
				f.Auth = c.auth
				f.Cells[0].Shards = f.Cells[0].Shards[:1]
			}))["eu-canary/core"]
			checkIngress(t, core, "orders-eu-canary-ingress", c.kind, "RouterLive07757374")
			var allowed []resource
			for _, p := range core.of("AWS::Lambda::Permission") {
				if p.at("FunctionName") == c.auth.AuthorizerARN {
					allowed = append(allowed, p)
				}
			}
			if len(allowed) > 1 || len(allowed) == 1 != c.allowed {
				t.Errorf("%d permissions to invoke the authorizer", len(allowed))
			}
			if c.allowed && (allowed[0].at("Principal") != "apigateway.amazonaws.com" || !strings.Contains(text(allowed[0].at("SourceArn")), "/authorizers/")) {
				t.Errorf("the authorizer is invoked by %s", text(allowed[0].Properties))
			}
			if c.kind != "CUSTOM" {
				return
			}
			a := core.one(t, "AWS::ApiGatewayV2::Authorizer")
			if a.at("AuthorizerType") != "REQUEST" || a.at("AuthorizerPayloadFormatVersion") != "2.0" || a.at("EnableSimpleResponses") != true ||
				text(a.at("IdentitySource")) != `["$request.header.Authorization"]` || !strings.Contains(text(a.at("AuthorizerUri")), c.auth.AuthorizerARN+"/invocations") {
				t.Errorf("the authorizer is %s", text(a.Properties))
			}
		})
	}
}
