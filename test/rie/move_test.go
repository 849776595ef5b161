//go:build linux

package rie

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/handler/handlertest"
)

// TestChangeOfCellOnLambda: tenants go from one cell to the other and back, while two front door environments and the
// cells' routers go by what they remember, which is for a minute. No request fails, none misses what was written before
// it, and 421 reaches nobody.
func TestChangeOfCellOnLambda(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 8 environments")
	}
	const role, account = "arn:aws:iam::111111111111:role/orders-global-frontdoor-role-eu-west-1", "111111111111"
	a, login := newAWS(t), newLogin(t)
	a.secret = fmt.Sprintf(`{"1":%q}`, strings.Repeat("5a", 32))
	auth := fmt.Sprintf(`{"source":"verify","issuer":%q,"audience":"orders","claim":"tenant_id"`, login.URL)
	regions := map[string]string{"eu-1": "eu-west-1", "us-1": "us-east-1"}
	shards := []string{"s01", "s02"}
	for name, region := range regions {
		at := names.ForFleet("orders").Cell(name)
		top := topology(1, "1", shards...)
		top.Cell = name
		a.publish(top)
		for _, shard := range shards {
			a.functions[at.Shard(shard).WorkerAlias()] = start(t, "worker", a.environment(map[string]string{
				"CELLWALL_SERVICE": "orders", "CELLWALL_CELL": name, "CELLWALL_SHARD": shard,
				"CELLWALL_TABLE": "orders-both", "CELLWALL_SHARD_TABLE": at.Shard(shard).Table(), // nothing needs to be copied
			}))
		}
		variables := a.environment(routerVariables())
		maps.Copy(variables, map[string]string{
			"CELLWALL_CELL": name, "CELLWALL_KEY_SECRET": at.PlacementKey(), "CELLWALL_AUTH": auth + fmt.Sprintf(`,"frontDoors":[%q]}`, role),
		})
		a.functions["arn:aws:lambda:"+region+":"+account+":function:"+at.RouterAlias()] = start(t, "router", variables)
	}
	var doors []*environment
	for range 2 {
		doors = append(doors, start(t, "frontdoor", a.environment(map[string]string{
			"CELLWALL_SERVICE": "orders", "CELLWALL_ROLE": role, "CELLWALL_AUTH": auth + "}",
			"CELLWALL_DIRECTORY": names.ForFleet("orders").DirectoryTable(), "CELLWALL_DIRECTORY_REGION": "eu-west-1", "CELLWALL_DIRECTORY_HOME_REGION": "eu-west-1",
			"CELLWALL_CELLS": fmt.Sprintf(`{"eu-1":"eu-west-1/%[1]s","us-1":"us-east-1/%[1]s"}`, account),
		})))
	}

	sent := 0
	send := func(tenant, method, body string, status int, want string) {
		t.Helper()
		door := doors[sent%len(doors)]
		sent++
		request := bytes.Replace(event(t, "", method, "/orders/1", body), []byte(`"authorization":"`+handlertest.Bearer("")), []byte(`"authorization":"Bearer `+login.token(t, tenant)), 1)
		code, answer, err := door.invoke(t.Context(), request)
		resp, parseErr := awsevent.ParseAnswer(answer)
		if err != nil || parseErr != nil || code != http.StatusOK {
			t.Fatalf("%s of %s: %d %s, %v\n%s", method, tenant, code, answer, err, door.output)
		}
		if resp.Status != status || string(resp.Body) != want {
			t.Errorf("%s of %s was answered %d %s, want %d %s", method, tenant, resp.Status, resp.Body, status, want)
		}
	}
	holds := func(e directory.Entry, epoch uint64) {
		for _, shard := range shards {
			key := directory.HoldingKey(e.Tenant)
			table := names.ForFleet("orders").Cell(e.Cell).Shard(shard).Table()
			if epoch > 0 {
				a.put(table, key.Part, key.Sort, fmt.Sprintf(`,%q:{"N":"%d"}`, directory.HoldingEpoch, epoch))
			} else {
				a.remove(table, key.Part, key.Sort)
			}
		}
	}
	tenants := map[string]directory.Entry{}
	for n := range 4 {
		e := directory.Entry{Tenant: fmt.Sprintf("tenant-%d", n), Cell: "eu-1", State: directory.Active, Epoch: 1, Topology: 1}
		holds(e, 1)
		a.enter(e)
		tenants[e.Tenant] = e
		send(e.Tenant, "PUT", "before", http.StatusNoContent, "")
	}
	for round := range 6 {
		for tenant, e := range tenants {
			e.State = directory.Moving
			e.Epoch++
			a.enter(e)
			send(tenant, "GET", "", http.StatusOK, map[bool]string{true: "before", false: fmt.Sprint(round - 1)}[round == 0])
			to := e
			to.State, to.Cell = directory.Active, map[string]string{"eu-1": "us-1", "us-1": "eu-1"}[e.Cell]
			to.Epoch++
			holds(to, to.Epoch)
			a.enter(to)
			holds(e, 0)
			tenants[tenant] = to
			for range len(doors) { // once by each, which both remember the other cell
				send(tenant, "PUT", fmt.Sprint(round), http.StatusNoContent, "")
				send(tenant, "GET", "", http.StatusOK, fmt.Sprint(round))
			}
			send(tenant, "GET", "", http.StatusOK, fmt.Sprint(round)) // the doors change over
		}
	}
	t.Logf("%d requests while 4 tenants changed their cell 6 times", sent)
}
