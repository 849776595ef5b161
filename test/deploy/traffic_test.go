package deploy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"cellwall.dev/cellwall/internal/adapter/itemdynamo"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler/handlertest"
)

// answer is what a function behind an HTTP API returns.
type answer struct {
	Status  int               `json:"statusCode"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Encoded bool              `json:"isBase64Encoded"`
}

// request sends an event as API Gateway's HTTP API does to the deployed router, through its alias.
// claims are those of the verified token; nil when the route had no authorizer.
func (w *world) request(t *testing.T, method, path, body string, claims map[string]string) answer {
	t.Helper()
	token := ""
	if claims != nil {
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		token = handlertest.Bearer(string(text))
	}
	return w.ask(t, w.of(canary).RouterAlias(), event(t, method, path, body, token, claims))
}

// event is one of an HTTP API.
func event(t *testing.T, method, path, body, token string, claims map[string]string) []byte {
	t.Helper()
	context := map[string]any{
		"http":      map[string]string{"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "test"},
		"requestId": "test", "routeKey": "$default", "stage": "$default", "domainName": "api.example.com",
	}
	headers := map[string]string{"content-type": "text/plain", "host": "api.example.com"}
	if claims != nil {
		headers["authorization"] = token
		context["authorizer"] = map[string]any{"jwt": map[string]any{"claims": claims, "scopes": nil}}
	}
	event, err := json.Marshal(map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "", "isBase64Encoded": false,
		"headers": headers, "requestContext": context, "body": body,
	})
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// ask sends an event to a function, NAME:QUALIFIER, which must answer as behind an HTTP API.
func (w *world) ask(t *testing.T, function string, event []byte) answer {
	t.Helper()
	a, err := try(t.Context(), w.aws.Config(t, homeAccount, homeRegion), function, event)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// try is ask without the home account, and for what is no test's own goroutine.
func try(ctx context.Context, config aws.Config, function string, event []byte) (a answer, err error) {
	payload, failure, err := invoke(ctx, config, function, event)
	if err != nil {
		return a, err
	}
	if failure != "" {
		return a, fmt.Errorf("%s failed: %s: %s", function, failure, payload)
	}
	if err := json.Unmarshal(payload, &a); err != nil {
		return a, fmt.Errorf("%w: %s", err, payload)
	}
	return a, nil
}

func invoke(ctx context.Context, config aws.Config, function string, payload []byte) (answer []byte, failure string, err error) {
	name, qualifier, _ := strings.Cut(function, ":")
	out, err := lambda.NewFromConfig(config).Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Qualifier: &qualifier, Payload: payload})
	if err != nil {
		return nil, "", err
	}
	return out.Payload, aws.ToString(out.FunctionError), nil
}

// text is the answer's body.
func (a answer) text() string {
	if a.Encoded {
		if decoded, err := base64.StdEncoding.DecodeString(a.Body); err == nil {
			return string(decoded)
		}
	}
	return a.Body
}

// traffic sends requests of a tenant through the deployed router to a deployed slice.
func (w *world) traffic(t *testing.T) {
	const tenant = "acme"
	claim := w.fleet.Auth.Claim
	r := w.residence(t)
	w.open(t, r, canary)
	w.signUp(t, r, tenant)
	store, err := itemdynamo.New(dynamodb.NewFromConfig(w.aws.Config(t, homeAccount, homeRegion)), itemdynamo.Tables{State: w.of(canary).Store(), Shard: "any"})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a slice of the tenant's subset answers", func(t *testing.T) {
		before := w.slices(t)
		if a := w.request(t, "PUT", "/orders/1", "two crates", map[string]string{claim: tenant}); a.Status/100 != 2 {
			t.Fatalf("PUT is answered %d: %s", a.Status, a.Body)
		}
		a := w.request(t, "GET", "/orders/1", "", map[string]string{claim: tenant})
		if a.Status != http.StatusOK || a.text() != "two crates" {
			t.Errorf("GET is answered %d: %s", a.Status, a.Body)
		}
		body, found, err := store.Get(t.Context(), tenant, "ORDER#1")
		if err != nil || !found || string(body) != "two crates" {
			t.Errorf("the cell's store has %q, %v, %v", body, found, err)
		}
		subset := w.subset(t, r, tenant)
		calls := 0
		for shard, n := range w.slices(t) {
			if n -= before[shard]; n > 0 && !slices.Contains(subset, shard) {
				t.Errorf("shard %s was called, which is not in the subset %v", shard, subset)
			}
			calls += n
		}
		if calls != 2 {
			t.Errorf("slices were called %d times for two requests", calls)
		}
	})
	t.Run("a job goes through the shard's queue", func(t *testing.T) {
		if a := w.request(t, "POST", "/jobs/x", "pack", map[string]string{claim: tenant}); a.Status != http.StatusAccepted {
			t.Fatalf("POST is answered %d: %s", a.Status, a.Body)
		}
		eventually(t, "the job's result is in the cell's store", func() bool {
			body, found, err := store.Get(t.Context(), tenant, "JOB#x")
			return err == nil && found && string(body) == "pack"
		})
		for _, id := range w.cell(t, canary).Shards.IDs() {
			if n := w.attributes(t, w.of(canary).Shard(id).DeadLetters())["ApproximateNumberOfMessages"]; n != "0" {
				t.Errorf("shard %s has %s dead letters", id, n)
			}
		}
	})
	t.Run("two topologies side by side", func(t *testing.T) { w.twoTopologies(t, r, tenant) })
	t.Run("strangers are refused before any slice", func(t *testing.T) {
		before := w.slices(t)
		refused := map[string]struct {
			claims map[string]string
			status int
		}{
			"unknown tenant":     {map[string]string{claim: "stranger"}, http.StatusNotFound},
			"no token":           {nil, http.StatusUnauthorized},
			"token of nobody":    {map[string]string{"sub": tenant}, http.StatusUnauthorized},
			"token of no tenant": {map[string]string{claim: ""}, http.StatusUnauthorized},
		}
		for name, r := range refused {
			if a := w.request(t, "GET", "/orders/1", "", r.claims); a.Status != r.status {
				t.Errorf("%s: answered %d, want %d: %s", name, a.Status, r.status, a.Body)
			}
		}
		for shard, n := range w.slices(t) {
			if n != before[shard] {
				t.Errorf("shard %s was called", shard)
			}
		}
	})
}

// slices is how often the slice of each of the canary's shards was invoked.
func (w *world) slices(t *testing.T) map[string]int {
	t.Helper()
	return w.slicesOf(t, canary)
}

func (w *world) slicesOf(t *testing.T, cell string) map[string]int {
	t.Helper()
	calls := map[string]int{}
	all := w.aws.Invocations(t)
	for _, id := range w.cell(t, cell).Shards.IDs() {
		for arn, n := range all {
			if strings.HasSuffix(arn, ":function:"+w.of(cell).Shard(id).Worker()) {
				calls[id] = n
			}
		}
	}
	return calls
}

// twoTopologies publishes a version that places nobody on a shard of the tenant's: a newcomer gets it, the
// tenant is served by the old one until it is migrated, and both by the router that was running.
func (w *world) twoTopologies(t *testing.T, r *directory.Residence, tenant string) {
	const newcomer = "newcomer"
	old := w.subset(t, r, tenant)
	next, err := r.Topology(t.Context(), canary, 1)
	if err != nil {
		t.Fatal(err)
	}
	next.Version = 2
	for i := range next.Shards {
		if next.Shards[i].ID == old[0] {
			next.Shards[i].State = directory.Drained
		}
	}
	if _, err := r.Publish(t.Context(), next, change("publish 2")); err != nil {
		t.Fatal(err)
	}
	w.signUp(t, r, newcomer)
	served := func(tenant string, version uint64) []string {
		t.Helper()
		e, err := r.Get(t.Context(), tenant)
		if err != nil || e.Topology != version {
			t.Fatalf("%s is on topology %d, %v; want %d", tenant, e.Topology, err, version)
		}
		subset, before := w.subset(t, r, tenant), w.slices(t)
		for n := range 6 {
			path := fmt.Sprintf("/orders/%d-%d", version, n)
			if a := w.request(t, "PUT", path, "x", map[string]string{w.fleet.Auth.Claim: tenant}); a.Status/100 != 2 {
				t.Errorf("%s: PUT %s is answered %d: %s", tenant, path, a.Status, a.Body)
			}
		}
		elsewhere := map[string]int{}
		for shard, n := range w.slices(t) {
			if n != before[shard] && !slices.Contains(subset, shard) {
				elsewhere[shard] = n - before[shard]
			}
		}
		// The router that was running remembers where the tenant was, until that shard has refused it once.
		for shard, n := range elsewhere {
			if n > 1 || shard != old[0] || tenant == newcomer || version == 1 {
				t.Errorf("%s: calls outside of the subset %v of topology %d: %v", tenant, subset, version, elsewhere)
			}
		}
		return subset
	}
	if got := served(tenant, 1); !slices.Equal(got, old) {
		t.Errorf("the tenant moved from %v to %v before it was migrated", old, got)
	}
	if slices.Contains(served(newcomer, 2), old[0]) {
		t.Errorf("the newcomer is on shard %s, which is drained", old[0])
	}
	done, err := r.Migrate(t.Context(), directory.Migration{Cell: canary, To: 2}, "", 100, change("migrate"))
	if err != nil || len(done.Skipped) > 0 {
		t.Fatalf("migrated %+v, %v", done, err)
	}
	if slices.Contains(served(tenant, 2), old[0]) {
		t.Errorf("the tenant is still on shard %s, which is drained", old[0])
	}
	if _, err := r.Retire(t.Context(), canary, 1, change("retire")); err != nil {
		t.Error(err)
	}
}

// signUp adds a tenant to the canary.
func (w *world) signUp(t *testing.T, r *directory.Residence, tenant string) {
	t.Helper()
	if _, err := r.SignUp(t.Context(), directory.SignUp{Tenant: tenant, Load: 1000, Internal: true}, change("sign up "+tenant)); err != nil {
		t.Fatal(err)
	}
}

// subset is the tenant's subset by its entry and the deployed key.
func (w *world) subset(t *testing.T, r *directory.Residence, tenant string) []string {
	t.Helper()
	e, err := r.Get(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	members, err := r.Subset(t.Context(), e)
	if err != nil || len(members) != w.fleet.Placement.PerTenant {
		t.Fatalf("the subset of %s is %v, %v", tenant, members, err)
	}
	return members
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 30 s it does not hold that %s", what)
		}
	}
}
