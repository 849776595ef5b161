package routerenv

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

var variables = map[string]string{
	"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1",
	"CELLWALL_KEY_SECRET": "cellwall/orders/eu-1/placement-key",
	"CELLWALL_DIRECTORY":  "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory", "CELLWALL_DIRECTORY_REGION": "eu-west-1",
	"CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
	"CELLWALL_AUTH":                  `{"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id","frontDoors":["arn:aws:iam::111111111111:role/door"]}`,
	"CELLWALL_RULES":                 `{"attemptTimeout":"1.5s","reserved":100,"tenantRate":50,"state":"cell","idempotencyKeys":true}`,
	"CELLWALL_ROUTES":                `[{"path":"/jobs/*","via":"queue"},{"path":"/*","via":"lambda"}]`,
}

func getenv(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestParse(t *testing.T) {
	all := maps.Clone(variables)
	all["CELLWALL_SNAPSHOT_BUCKET"], all["CELLWALL_GENERATION"] = "orders-eu-1-0snap", "2"
	got, err := Parse(getenv(all))
	if err != nil {
		t.Fatal(err)
	}
	want := Environment{
		Service: "orders", Cell: "eu-1", Generation: 2, KeySecret: "cellwall/orders/eu-1/placement-key",
		Directory: "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory", DirectoryRegion: "eu-west-1", HomeRegion: "eu-west-1",
		Snapshots: "orders-eu-1-0snap",
		Auth:      Auth{Source: identity.SourceJWT, Issuer: "https://login.example.com/", Audience: "orders", Claim: "tenant_id", FrontDoors: []string{"arn:aws:iam::111111111111:role/door"}},
		Rules:     Rules{AttemptTimeout: Duration(1500 * time.Millisecond), Reserved: 100, TenantRate: 50, State: routing.StateCell, IdempotencyKeys: true},
		Routes:    []routing.Route{{Path: "/jobs/*", Via: "queue"}, {Path: "/*", Via: "lambda"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestReplicas: which table is read, and which is asked when that will not do.
func TestReplicas(t *testing.T) {
	const home = "arn:aws:dynamodb:eu-west-1:111111111111:table/orders-directory"
	for name, test := range map[string]struct {
		region, home string
		replica, ok  bool
	}{
		"in the home region":                {"eu-west-1", "", false, true},
		"beside a replica":                  {"us-east-1", home, true, true},
		"beside a replica, with no way out": {"us-east-1", "", true, true},
		"home twice":                        {"eu-west-1", home, false, false},
	} {
		m := maps.Clone(variables)
		m["CELLWALL_DIRECTORY_REGION"], m["CELLWALL_DIRECTORY_HOME"] = test.region, test.home
		e, err := Parse(getenv(m))
		if !test.ok {
			if err == nil || !strings.HasPrefix(err.Error(), "CELLWALL_DIRECTORY_HOME ") {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
			continue
		}
		if err != nil || e.Replica() != test.replica || e.Home != test.home {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestEveryMissingVariableIsNamed(t *testing.T) {
	_, err := Parse(getenv(nil))
	if err == nil {
		t.Fatal("an empty environment is accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(variables) {
		t.Errorf("%d faults for %d variables:\n%v", len(lines), len(variables), err)
	}
	for name := range variables {
		if !strings.Contains(err.Error()+"\n", name+" is not set\n") {
			t.Errorf("%s is not named:\n%v", name, err)
		}
		one := maps.Clone(variables)
		one[name] = ""
		if _, err := Parse(getenv(one)); err == nil || err.Error() != name+" is not set" {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestWrongVariables(t *testing.T) {
	tests := []struct{ name, value, says string }{
		{"CELLWALL_ROUTES", `{}`, "a list"},
		{"CELLWALL_ROUTES", `[] []`, "something follows"},
		{"CELLWALL_ROUTES", `[{"path":"/*","via":"lambda","fan":true}]`, "fan"},
		{"CELLWALL_ROUTES", `[{"path":"/*","via":"lambda","timeout":"soon"}]`, "timeout"},
		{"CELLWALL_AUTH", `{"source":"saml","issuer":"i","audience":"a","claim":"c"}`, `the source is "saml"`},
		{"CELLWALL_AUTH", `{"source":"jwt","issuer":"i","audience":"a"}`, "a claim is missing"},
		{"CELLWALL_AUTH", `{"source":"jwt","issuer":"i","audience":"a","claim":"c","secret":"x"}`, "secret"},
		{"CELLWALL_RULES", `{"attemptTimeout":"0s","reserved":100}`, "attemptTimeout"},
		{"CELLWALL_RULES", `{"attemptTimeout":"5s"}`, "reserved"},
		{"CELLWALL_RULES", `{"attemptTimeout":5,"reserved":100}`, "string"},
	}
	for _, test := range tests {
		m := maps.Clone(variables)
		m[test.name] = test.value
		e, err := Parse(getenv(m))
		if err == nil {
			t.Errorf("%s=%s is read as %+v", test.name, test.value, e)
			continue
		}
		if !strings.HasPrefix(err.Error(), test.name+" ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s=%s: %v; want it to say %q", test.name, test.value, err, test.says)
		}
	}
}
