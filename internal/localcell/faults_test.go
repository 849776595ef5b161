package localcell

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestShardName(t *testing.T) {
	one := []string{"s01", "s07", "s10", "blue-3"}
	two := []string{"eu-1/s01", "eu-1/s07", "us-1/s07", "us-1/s08"}
	for _, c := range []struct {
		names      []string
		word, want string // "" for an error
	}{
		{one, "s07", "s07"}, {one, "7", "s07"}, {one, "07", "s07"}, {one, "eu-1/7", "s07"}, {one, "eu-1/s10", "s10"}, {one, "3", "blue-3"},
		{one, "1", "s01"}, {one, "10", "s10"}, {one, "70", ""}, {one, "", ""}, {one, "s7", ""}, {one, "eu-1/", ""},
		{two, "eu-1/7", "eu-1/s07"}, {two, "us-1/s07", "us-1/s07"}, {two, "8", "us-1/s08"}, {two, "7", ""}, {two, "ap-1/7", ""},
	} {
		if got, err := ShardName(c.names, c.word); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q of %q: %q, %v; want %q", c.word, c.names, got, err, c.want)
		}
	}
}

func TestFaultsAreChecked(t *testing.T) {
	for _, c := range []struct {
		f      Fault
		worker bool
		want   string // "" for an error
	}{
		{Fault{How: HowKill}, true, "kill"}, {Fault{How: HowHang}, false, "hang"}, {Fault{How: HowSlow}, true, "slow (10 times)"},
		{Fault{How: HowSlow, Factor: 2.5}, true, "slow (2.5 times)"}, {Fault{How: HowErrors}, true, "errors (500)"},
		{Fault{How: HowErrors, Status: 599}, true, "errors (599)"}, {Fault{How: HowThrottle}, true, "throttle"},
		{Fault{How: HowSlow}, false, ""}, {Fault{How: HowErrors}, false, ""}, {Fault{}, true, ""}, {Fault{How: "smash"}, true, ""},
		{Fault{How: HowSlow, Factor: 1}, true, ""}, {Fault{How: HowSlow, Factor: -1}, true, ""}, {Fault{How: HowErrors, Status: 404}, true, ""},
		{Fault{How: HowKill, Factor: 2}, true, ""}, {Fault{How: HowSlow, Status: 500}, true, ""}, {Fault{How: HowErrors, Factor: 2}, true, ""},
	} {
		got, err := c.f.checked(c.worker)
		if (err == nil) != (c.want != "") || err == nil && (got.String() != c.want || got.Since.IsZero()) {
			t.Errorf("%+v of a worker %t: %+v, %v; want %q", c.f, c.worker, got, err, c.want)
		}
	}
}

// TestFaults breaks one cell's processes in every way and heals them.
func TestFaults(t *testing.T) {
	c := up(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cell)
	}{
		{"Refuses", failRefuses}, {"Kill", aKilledShardStaysDown}, {"Hang", aHungShardStaysStopped}, {"Gates", gatesComeAndGo},
		{"Poison", aPoisonousTenantKillsOnlyWhatServesIt}, {"Store", aStoreThatIsDownIsRefused},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, &cell{c.Running, t, c.dir}) })
		if healed, err := c.Heal(t.Context(), ""); err != nil || len(healed.Processes)+len(healed.Tenants) > 0 {
			t.Fatalf("%s left %+v, %v", test.name, healed, err)
		}
		for _, p := range must(c.Status(t.Context()))(t) {
			if p.State != string(childReady) || p.Fault != nil || strings.HasSuffix(p.Name, gateSuffix) {
				t.Fatalf("%s left %+v", test.name, p)
			}
		}
	}
}

// TestACellGoesDownWithItsFaults: what is stopped, killed or gated ends with the cell, and none of it comes back
// with the next one.
func TestACellGoesDownWithItsFaults(t *testing.T) {
	c := up(t)
	for process, how := range map[string]string{"s01": HowHang, "s02": HowSlow, "s03": HowKill, nameDirectory: HowHang, nameStore: HowKill, nameIssuer: HowHang, nameKeeper: HowHang} {
		c.fails(process, Fault{How: how})
	}
	now, err := c.dir.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.dir.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	allGone(t, now.processes())
	c = upIn(t, c.dir, testPlan(t))
	for _, p := range must(c.Status(t.Context()))(t) {
		if p.State != string(childReady) || p.Fault != nil {
			t.Errorf("after another up: %+v", p)
		}
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (c *cell) fails(process string, f Fault) {
	c.t.Helper()
	for i, want := range []bool{true, false} { // the second time it is broken so already
		if changed, err := c.Fail(c.t.Context(), process, f); err != nil || changed != want {
			c.t.Fatalf("fail %s by %s, %d: changed %t, %v", process, f.How, i, changed, err)
		}
	}
	if got := c.statusOf(process).Fault; got == nil || got.How != f.How {
		c.t.Fatalf("%s fails by %+v, want %s", process, got, f.How)
	}
}

func (c *cell) heals(process string) {
	c.t.Helper()
	healed, err := c.Heal(c.t.Context(), process)
	if err != nil || !slices.Equal(healed.Processes, []string{process}) {
		c.t.Fatalf("healed %+v, %v", healed, err)
	}
	if got := c.statusOf(process); got.Fault != nil || got.State != string(childReady) {
		c.t.Fatalf("after heal: %+v", got)
	}
}

func failRefuses(t *testing.T, c *cell) {
	for _, f := range []struct {
		process string
		Fault
	}{{"s99", Fault{How: HowKill}}, {"router", Fault{How: HowKill}}, {"", Fault{How: HowKill}}, {"store", Fault{How: HowSlow}}, {"s01", Fault{How: "x"}}} {
		if _, err := c.Fail(t.Context(), f.process, f.Fault); !Refused(err) {
			t.Errorf("%+v: %v, want a refusal", f, err)
		}
	}
	if _, err := c.Heal(t.Context(), "s99"); !Refused(err) {
		t.Errorf("heal s99: %v, want a refusal", err)
	}
	if _, err := c.Poison(t.Context(), "ap-1", "acme"); !Refused(err) {
		t.Errorf("poison in a cell that is not here: %v, want a refusal", err)
	}
}

func aKilledShardStaysDown(t *testing.T, c *cell) {
	starts := c.statusOf("s02").Starts
	c.fails("s02", Fault{How: HowKill})
	for _, tenant := range testTenants {
		c.wants(http.StatusNoContent, c.token(tenant), "PUT", "/orders/1", "while s02 is down")
	}
	if err := c.Restore(t.Context(), "s02"); err != nil { // of a break, which this is not
		t.Fatal(err)
	}
	if now := c.statusOf("s02"); now.State != string(childHeld) || now.Starts != starts || now.PID != 0 {
		t.Errorf("a killed shard: %+v", now)
	}
	c.heals("s02")
}

func aHungShardStaysStopped(t *testing.T, c *cell) {
	c.fails("s02", Fault{How: HowHang})
	hung := c.statusOf("s02")
	if hung.State != string(childFrozen) {
		t.Errorf("a hung shard: %+v", hung)
	}
	// A signal has been sent when it returns, and not yet been taken by every thread.
	eventually(t, "it answers nobody", func() bool { return probe(t.Context(), hung.Address+"/healthz") != nil })
	// Whatever comes after it hangs, too.
	if err := hung.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its successor is stopped", func() bool {
		now := c.statusOf("s02")
		return now.PID != hung.PID && now.State == string(childFrozen)
	})
	c.heals("s02")
}

func gatesComeAndGo(t *testing.T, c *cell) {
	token := c.token("acme")
	address := c.statusOf("s01").Address
	for _, f := range []Fault{{How: HowSlow, Factor: 3}, {How: HowErrors, Status: 503}, {How: HowThrottle}} {
		c.fails("s01", f)
		if now := c.statusOf("s01"); now.Address != address {
			t.Errorf("%s: the router would have to look at %s", f.How, now.Address)
		}
		for range 6 {
			c.wants(http.StatusNoContent, token, "PUT", "/orders/1", f.How)
		}
		if gate := c.statusOf("s01" + gateSuffix); gate.State != string(childReady) {
			t.Errorf("the gate: %+v", gate)
		}
	}
	// It survives the worker, and the gate itself.
	for _, name := range []string{"s01", "s01" + gateSuffix} {
		was := c.statusOf(name)
		if err := was.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" is back", func() bool {
			now := c.statusOf(name)
			return now.PID != was.PID && now.State == string(childReady)
		})
	}
	c.heals("s01")
	c.wants(http.StatusNoContent, token, "PUT", "/orders/1", "whole")
}

func aPoisonousTenantKillsOnlyWhatServesIt(t *testing.T, c *cell) {
	for _, want := range []bool{true, false} {
		if changed, err := c.Poison(t.Context(), "eu-1", "acme"); err != nil || changed != want {
			t.Fatalf("poison: changed %t, %v", changed, err)
		}
	}
	subset := c.subsets()["acme"]
	before := map[string]int{}
	for _, id := range []string{"s01", "s02", "s03"} {
		before[id] = c.statusOf(id).Starts
	}
	if status, _ := c.ask(c.token("acme"), "GET", "/orders/1", ""); status < 500 {
		t.Errorf("a request that kills whoever serves it was answered %d", status)
	}
	eventually(t, "a worker was killed and is back", func() bool {
		died := 0
		for id, n := range before {
			now := c.statusOf(id)
			switch {
			case now.State != string(childReady):
				return false
			case now.Starts > n && !slices.Contains(subset, id):
				t.Fatalf("%s died, which does not serve acme (%v)", id, subset)
			case now.Starts > n:
				died++
			}
		}
		return died > 0
	})
	c.wants(http.StatusNoContent, c.token("globex"), "PUT", "/orders/1", "beside it")
	for _, want := range []bool{true, false} {
		if changed, err := c.Antidote(t.Context(), "acme"); err != nil || changed != want {
			t.Fatalf("antidote: changed %t, %v", changed, err)
		}
	}
	// The router may not have forgotten yet.
	eventually(t, "acme is served", func() bool {
		status, _ := c.ask(c.token("acme"), "PUT", "/orders/1", "healed")
		return status == http.StatusNoContent
	})
}

// aStoreThatIsDownIsRefused: its address stays the supervisor's, and nobody waits there.
func aStoreThatIsDownIsRefused(t *testing.T, c *cell) {
	c.fails(nameStore, Fault{How: HowKill})
	if err := probe(t.Context(), c.Store+"/healthz"); err == nil || os.IsTimeout(err) {
		t.Errorf("a killed store: %v, want a connection that ends", err)
	}
	c.heals(nameStore)
	c.wants(http.StatusNoContent, c.token("acme"), "PUT", "/orders/1", "again")
}
