//go:build linux

package rie

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler/handlertest"
	"cellwall.dev/cellwall/internal/routing"
)

// event is a request as an HTTP API with a JWT authorizer hands it over.
func event(t *testing.T, claims, method, path, body string) []byte {
	t.Helper()
	e := map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
		"headers": map[string]string{
			"accept": "*/*", "content-length": fmt.Sprint(len(body)), "content-type": "text/plain", "host": "abc123.execute-api.eu-west-1.amazonaws.com",
			"authorization": handlertest.Bearer(claims), "x-forwarded-for": "192.0.2.7", "x-forwarded-port": "443", "x-forwarded-proto": "https",
			"x-amzn-trace-id": "Root=1-6921-abc", "user-agent": "curl/8.5.0", "cellwall-tenant": "mallory", "cellwall-shard": "s04", "cellwall-epoch": "99",
		},
		"requestContext": map[string]any{
			"accountId": "111111111111", "apiId": "abc123", "domainName": "abc123.execute-api.eu-west-1.amazonaws.com", "domainPrefix": "abc123",
			"http":      map[string]string{"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7", "userAgent": "curl/8.5.0"},
			"requestId": "J1", "routeKey": "$default", "stage": "$default", "time": "30/Nov/2026:10:00:00 +0000", "timeEpoch": 1796032800000,
		},
		"body": body, "isBase64Encoded": false,
	}
	if claims != "" {
		e["requestContext"].(map[string]any)["authorizer"] = map[string]any{"jwt": map[string]any{"claims": json.RawMessage(claims), "scopes": nil}}
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const acme = `{"tenant_id":"acme","iss":"https://login.example.com/","aud":"orders","exp":"1796036400"}`

// testCell is a cell of four shards whose router and slices are processes.
type testCell struct {
	*aws
	router *environment
}

func newTestCell(t *testing.T) *testCell {
	t.Helper()
	a := newAWS(t)
	a.secret = fmt.Sprintf(`{"1":%q,"2":%q}`, strings.Repeat("5a", 32), strings.Repeat("a5", 32))
	tenant := func(id, cell string, state directory.State, pins ...string) {
		a.enter(directory.Entry{Tenant: id, Cell: cell, State: state, Epoch: 4, Pins: pins, Topology: 1})
	}
	tenant("acme", "eu-1", directory.Active, "s01", "s02")
	tenant("computed", "eu-1", directory.Active)
	tenant("elsewhere", "us-1", directory.Active)
	tenant("suspended", "eu-1", directory.Suspended)
	a.publish(topology(1, "1", "s01", "s02", "s03", "s04"))
	for _, shard := range []string{"s01", "s02", "s03", "s04"} {
		a.functions[cell.Shard(shard).WorkerAlias()] = start(t, "worker", a.environment(map[string]string{
			"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_SHARD": shard, "CELLWALL_TABLE": cell.Store(),
			"CELLWALL_SHARD_TABLE": cell.Shard(shard).Table(), "CELLWALL_SAMPLE_POISON": "1",
		}))
		a.hold(shard, "computed", 2) // whichever shards they are; the entry has changed since
	}
	a.hold("s01", "acme", 4)
	a.hold("s02", "acme", 4)
	return &testCell{a, start(t, "router", a.environment(routerVariables()))}
}

// topology is a version of the cell over these shards.
func topology(version uint64, key string, shards ...string) directory.Topology {
	t := directory.Topology{Cell: "eu-1", Version: version, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: key}
	for _, id := range shards {
		t.Shards = append(t.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	return t
}

func routerVariables() map[string]string {
	return map[string]string{
		"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1",
		"CELLWALL_AUTH":       `{"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`,
		"CELLWALL_RULES":      `{"attemptTimeout":"5s","reserved":10,"queue":true}`,
		"CELLWALL_KEY_SECRET": cell.PlacementKey(),
		"CELLWALL_DIRECTORY":  names.ForFleet("orders").DirectoryTable(), "CELLWALL_DIRECTORY_REGION": "eu-west-1",
		"CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
		"CELLWALL_ROUTES":                `[{"path":"/jobs/*","via":"queue"},{"path":"/*","via":"lambda"}]`,
	}
}

// fresh is the cell with a router that knows nothing yet.
func (c *testCell) fresh(t *testing.T) *testCell {
	t.Helper()
	return &testCell{c.aws, start(t, "router", c.environment(routerVariables()))}
}

// send sends one request through the router.
func (c *testCell) send(t *testing.T, claims, method, path, body string) *routing.Response {
	t.Helper()
	status, answer, err := c.router.invoke(t.Context(), event(t, claims, method, path, body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("router's emulator answered %d %s, %v\n%s", status, answer, err, c.router.output)
	}
	resp, err := awsevent.ParseAnswer(answer)
	if err != nil {
		t.Fatalf("router answered %s: %v\n%s", answer, err, c.router.output)
	}
	return resp
}

func (c *testCell) want(t *testing.T, resp *routing.Response, status int) {
	t.Helper()
	if resp.Status != status {
		t.Errorf("answered %d %s, want %d\nrouter: %s", resp.Status, resp.Body, status, c.router.output)
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Cellwall") {
			t.Errorf("the answer has the header %s", name)
		}
	}
	for _, inside := range []string{"s01", "s02", "eu-1", "worker"} {
		if strings.Contains(string(resp.Body), inside) {
			t.Errorf("the answer names %q: %s", inside, resp.Body)
		}
	}
}

// TestRouter is the data path of a cell, in processes: events in, slices behind.
func TestRouter(t *testing.T) {
	c := newTestCell(t)

	t.Run("a write is acknowledged and read back", func(t *testing.T) {
		c.want(t, c.send(t, acme, "PUT", "/orders/1", "one"), 204)
		resp := c.send(t, acme, "GET", "/orders/1", "")
		c.want(t, resp, 200)
		if string(resp.Body) != "one" {
			t.Errorf("read %q", resp.Body)
		}
		for _, name := range c.takeInvoked() {
			if name != cell.Shard("s01").WorkerAlias() && name != cell.Shard("s02").WorkerAlias() {
				t.Errorf("%s was invoked, which is not in the subset", name)
			}
		}
		if !c.has(cell.Store(), "TENANT#acme", "ORDER#1") {
			t.Error("the order is not under its tenant's key")
		}
	})

	t.Run("a computed subset", func(t *testing.T) {
		placer, err := topology(1, "1", "s01", "s02", "s03", "s04").Placer(bytes.Repeat([]byte{0x5a}, 32))
		if err != nil {
			t.Fatal(err)
		}
		subset, err := placer.Subset(directory.Entry{Tenant: "computed", Cell: "eu-1", State: directory.Active, Epoch: 4, Topology: 1})
		if err != nil || len(subset) != 2 {
			t.Fatalf("the subset is %v, %v", subset, err)
		}
		for n := range 20 {
			c.want(t, c.send(t, `{"tenant_id":"computed"}`, "PUT", fmt.Sprintf("/orders/%d", n), "x"), 204)
		}
		// Of members that are well the quicker is asked: one that is always slower may never be.
		used := c.takeInvoked()
		if len(used) < 20 {
			t.Errorf("20 requests were served by %d invocations", len(used))
		}
		for _, name := range used {
			if name != cell.Shard(subset[0]).WorkerAlias() && name != cell.Shard(subset[1]).WorkerAlias() {
				t.Errorf("%s was invoked; the subset is %v", name, subset)
			}
		}
	})

	t.Run("two topologies side by side", func(t *testing.T) {
		// The router that runs has not read them yet. The later one has another key.
		a := c.aws
		a.publish(topology(2, "1", "s01", "s02"))
		a.publish(topology(3, "2", "s03", "s04"))
		moved := directory.Entry{Tenant: "moved", Cell: "eu-1", State: directory.Active}
		for _, to := range []struct {
			version uint64
			shards  []string
		}{{2, []string{"s01", "s02"}}, {3, []string{"s03", "s04"}}} {
			moved.Topology = to.version
			moved.Epoch++
			a.enter(moved)
			for _, shard := range []string{"s01", "s02", "s03", "s04"} {
				a.hold(shard, "moved", 0)
			}
			for _, shard := range to.shards {
				a.hold(shard, "moved", moved.Epoch)
			}
			for n := range 5 {
				c.want(t, c.send(t, `{"tenant_id":"moved"}`, "PUT", fmt.Sprintf("/orders/%d", n), "x"), 204)
				c.want(t, c.send(t, `{"tenant_id":"computed"}`, "GET", "/orders/1", ""), 200)
			}
		}
		c.takeInvoked()

		moved.Topology = 9
		moved.Epoch++
		a.enter(moved)
		// An environment that has not served the tenant; others go on for a minute with what they know.
		fresh := c.fresh(t)
		resp := fresh.send(t, `{"tenant_id":"moved"}`, "PUT", "/orders/1", "x")
		c.want(t, resp, 503)
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		if invoked := c.takeInvoked(); len(invoked) > 0 {
			t.Errorf("a topology that is not there was served by %v", invoked)
		}
	})

	t.Run("a shard that does not hold the tenant", func(t *testing.T) {
		for epoch, name := range map[uint64]string{0: "let go", 5: "of a later stay"} {
			c.hold("s01", "acme", epoch)
			fresh := c.fresh(t) // by what it knows, the one that is there may prefer the other shard
			for n := range 10 {
				c.want(t, fresh.send(t, acme, "PUT", fmt.Sprintf("/orders/h%d", n), "x"), 204)
				c.want(t, fresh.send(t, acme, "GET", fmt.Sprintf("/orders/h%d", n), ""), 200)
			}
			if invoked := c.takeInvoked(); !slices.Contains(invoked, cell.Shard("s01").WorkerAlias()) {
				t.Errorf("%s: s01 was never asked: %v", name, invoked)
			}
		}
		c.hold("s02", "acme", 0)
		c.want(t, c.send(t, acme, "PUT", "/orders/nowhere", "x"), 503)
		if c.has(cell.Store(), "TENANT#acme", "ORDER#nowhere") {
			t.Error("a shard wrote that does not hold the tenant")
		}
		c.hold("s01", "acme", 0)
		c.hold("s01", "acme", 4)
		c.hold("s02", "acme", 4)
		c.takeInvoked()
	})

	t.Run("strangers", func(t *testing.T) {
		for claims, status := range map[string]int{
			"": 401, `{}`: 401, `{"tenant_id":""}`: 401, `{"tenant_id":"[acme beta]"}`: 401, `{"tenant_id":["acme"]}`: 401, `{"tenant_id":7}`: 401,
			`{"tenant_id":"nobody"}`: 404, `{"tenant_id":"elsewhere"}`: 404, `{"tenant_id":"suspended"}`: 403,
		} {
			c.want(t, c.send(t, claims, "GET", "/orders/1", ""), status)
		}
		if invoked := c.takeInvoked(); len(invoked) > 0 {
			t.Errorf("shards were asked: %v", invoked)
		}
	})

	t.Run("a throttled slice", func(t *testing.T) {
		c.throttle("s01", true)
		defer c.throttle("s01", false)
		fresh := c.fresh(t)
		for n := range 10 {
			// POST too: a throttled invocation did not run. There is no such path, and its 405 comes
			// from the service.
			c.want(t, fresh.send(t, acme, "POST", "/orders/1", ""), 405)
			c.want(t, fresh.send(t, acme, "PUT", fmt.Sprintf("/orders/t%d", n), "x"), 204)
		}
		if invoked := c.takeInvoked(); !slices.Contains(invoked, cell.Shard("s01").WorkerAlias()) {
			t.Errorf("s01 was never tried: %v", invoked)
		}
	})

	t.Run("all slices throttled", func(t *testing.T) {
		for _, shard := range []string{"s01", "s02"} {
			c.throttle(shard, true)
			defer c.throttle(shard, false)
		}
		resp := c.send(t, acme, "GET", "/orders/1", "")
		c.want(t, resp, 503)
		if resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		c.takeInvoked()
	})

	t.Run("a poisoned request kills one process", func(t *testing.T) {
		resp := c.send(t, acme, "POST", "/poison", "")
		c.want(t, resp, 502)
		if !strings.Contains(string(resp.Body), routing.TypeMaybeDone) {
			t.Errorf("answered %s", resp.Body)
		}
		if invoked := c.takeInvoked(); len(invoked) != 1 {
			t.Errorf("a request that may have been executed was sent to %v", invoked)
		}
		c.want(t, c.send(t, acme, "GET", "/orders/1", ""), 200)
		c.takeInvoked()
	})

	t.Run("a job", func(t *testing.T) {
		resp := c.send(t, acme, "POST", "/jobs/7", "work")
		c.want(t, resp, 202)
		queue, message := c.takeMessage(t)
		shard := strings.TrimSuffix(strings.TrimPrefix(queue, "orders-eu-1-"), "-work")
		batch, err := json.Marshal(map[string]any{"Records": []any{
			map[string]string{"messageId": "m1", "eventSource": "aws:sqs", "body": message},
			map[string]string{"messageId": "m2", "eventSource": "aws:sqs", "body": "broken"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		function := c.functions[cell.Shard(shard).WorkerAlias()]
		if function == nil {
			t.Fatalf("queue %q is of no shard", queue)
		}
		_, answer, err := function.invoke(t.Context(), batch)
		if err != nil || string(answer) != `{"batchItemFailures":[{"itemIdentifier":"m2"}]}` {
			t.Errorf("the consumer answered %s, %v", answer, err)
		}
		if !c.has(cell.Store(), "TENANT#acme", "JOB#7") {
			t.Error("the job was not done for its tenant")
		}
		c.takeInvoked()
		if resp := c.send(t, acme, "GET", "/jobs/7", ""); resp.Status != 200 || string(resp.Body) != "work" {
			t.Errorf("the job's result is answered %d %s", resp.Status, resp.Body)
		}
	})

	t.Run("paths", func(t *testing.T) {
		// The gateway decodes %3F. The service must see it in the path, where it refuses such an id, and
		// no query behind the path of order a, which it would take.
		c.want(t, c.send(t, acme, "PUT", "/orders/a?admin=true", "x"), 400)
		c.want(t, c.send(t, acme, "POST", "/orders/../jobs/1", ""), 400)
	})
}

// TestRouterSaysWhyItDoesNotStart: an environment that cannot serve says so at its start.
func TestRouterSaysWhyItDoesNotStart(t *testing.T) {
	variables := routerVariables()
	delete(variables, "CELLWALL_CELL")
	variables["CELLWALL_ROUTES"] = "none"
	router := start(t, "router", newAWS(t).environment(variables))
	status, answer, err := router.invoke(t.Context(), event(t, acme, "GET", "/", ""))
	if err == nil && status == http.StatusOK && strings.Contains(string(answer), "statusCode") {
		t.Errorf("it answers %s", answer)
	}
	for _, says := range []string{"CELLWALL_CELL is not set", "CELLWALL_ROUTES is"} {
		if !strings.Contains(router.output.String(), says) {
			t.Errorf("its log does not say %q:\n%s", says, router.output)
		}
	}
}

// TestRouterSaysWhyItHasNoKey: an environment starts whatever the secret holds, serves who needs no key, and
// tells its log, and no client, what is wrong.
func TestRouterSaysWhyItHasNoKey(t *testing.T) {
	a := newAWS(t)
	a.secret = `{"1":"` + strings.Repeat("5a", 31) + `"}`
	a.publish(topology(1, "1", "s01", "s02"))
	a.enter(directory.Entry{Tenant: "acme", Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1})
	a.enter(directory.Entry{Tenant: "pinned", Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1, Pins: []string{"s01"}})
	a.functions[cell.Shard("s01").WorkerAlias()] = start(t, "worker", a.environment(map[string]string{
		"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": "eu-1", "CELLWALL_SHARD": "s01", "CELLWALL_TABLE": cell.Store(),
		"CELLWALL_SHARD_TABLE": cell.Shard("s01").Table(),
	}))
	a.hold("s01", "pinned", 1)
	c := &testCell{a, start(t, "router", a.environment(routerVariables()))}
	c.want(t, c.send(t, acme, "GET", "/orders/1", ""), 503)
	c.want(t, c.send(t, `{"tenant_id":"pinned"}`, "PUT", "/orders/1", "x"), 204)
	for _, says := range []string{"version 1 is not 64 hexadecimal digits", "there is no snapshot"} {
		if !strings.Contains(c.router.output.String(), says) {
			t.Errorf("its log does not say %q:\n%s", says, c.router.output)
		}
	}
	if strings.Contains(c.router.output.String(), "5a5a") {
		t.Errorf("its log shows the key:\n%s", c.router.output)
	}
}
