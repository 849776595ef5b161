package footnote

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// hows are the ways in which a shard goes bad.
var hows = []string{localcell.HowKill, localcell.HowHang, localcell.HowSlow, localcell.HowThrottle, localcell.HowErrors}

// TestABadShard: with k = 2 of 16 and 2,000 tenants under load, one shard after another goes bad in another way and
// comes back. No idempotent request fails, no acknowledged write is lost or doubled, keyed creates among them, and
// whoever meets the bad shard is served by the second attempt. Two shards then fail at once, and exactly the tenants
// are not served whose subset they are.
func TestABadShard(t *testing.T) {
	c := newCell(t, tenants)
	t.Run("NobodyElseAnswers", func(t *testing.T) { c.in(t).nobodyElse() })
	for n, how := range hows {
		t.Run(how, func(t *testing.T) {
			c := c.in(t)
			c.badShard(fmt.Sprintf("s%02d", 3*n+1), how)
		})
	}
	t.Run("TwoShards", func(t *testing.T) { c.in(t).twoShards(localcell.HowKill, localcell.HowKill) })
	if *soak > 0 {
		t.Run("TwoShardsOtherwise", func(t *testing.T) { c.in(t).twoShards(localcell.HowHang, localcell.HowThrottle) })
	}
}

// in is the cell for a part of its test.
func (c *cell) in(t *testing.T) *cell {
	part := *c
	part.TB = t
	return &part
}

func (c *cell) badShard(shard, how string) {
	l := c.load
	l.For, l.Seed = long(3*time.Second, 20*time.Second), rand.Uint64()
	affected := c.of(func(t traffic.Tenant) bool { return isMember(t, shard) })
	before := c.counters()
	report := c.send(l, func() {
		time.Sleep(l.For / 6)
		c.fail(shard, how)
		for id, status := range c.sweep(c.only(affected)) {
			if status != http.StatusOK {
				c.Errorf("%s, one of whose two shards is bad, was answered %d", id, status)
			}
		}
		time.Sleep(l.For / 3)
		c.heal()
	})
	c.want(report)

	after := c.counters()
	asked, extra := after.Shards[shard].Attempts-before.Shards[shard].Attempts, after.Fallbacks-before.Fallbacks
	c.Logf("%s %s: %d of %d tenants have it; asked %d times, %d requests needed a second attempt", shard, how, len(affected), len(c.all), asked, extra)
	attempts, late := int64(0), int64(0)
	for name, now := range after.Shards {
		was := before.Shards[name]
		attempts += now.Attempts - was.Attempts
		if name == shard {
			continue
		}
		late += now.TimedOut - was.TimedOut
		if now.Failures-was.Failures > now.TimedOut-was.TimedOut {
			c.Errorf("%s failed, and nothing is wrong with it", name)
		}
	}
	if served := after.Requests - before.Requests - (after.Refused - before.Refused); attempts != served+extra {
		c.Errorf("%d attempts for %d requests, of which %d needed another: one of them needed more than two", attempts, served, extra)
	}
	if after.Failures != before.Failures {
		c.Errorf("%d requests were not answered by a shard", after.Failures-before.Failures)
	}
	if asked == 0 || how != localcell.HowSlow && extra == 0 {
		c.Error("nobody met the bad shard: the test shows nothing")
	}
	if late > 0 { // a machine that has too much to do, and says nothing of the promise
		c.Logf("%d attempts at other shards ran out of time", late)
		return
	}
	for tenant, n := range after.FellBack {
		if n > before.FellBack[tenant] && !affected[tenant] {
			c.Errorf("%s needed a second attempt, and %s is not in its subset", tenant, shard)
		}
	}
}

func (c *cell) twoShards(first, second string) {
	pair := c.all[rand.IntN(len(c.all))].Subset
	covered := c.of(func(t traffic.Tenant) bool { return isMember(t, pair[0]) && isMember(t, pair[1]) })
	l := c.load
	l.For, l.Seed = long(2*time.Second, 20*time.Second), rand.Uint64()
	l.Tenants = slices.DeleteFunc(slices.Clone(l.Tenants), func(t traffic.Loaded) bool { return covered[t.ID] })
	report := c.send(l, func() {
		c.fail(pair[0], first)
		c.fail(pair[1], second)
		for id, status := range c.sweep(c.all) {
			switch {
			case !covered[id] && status != http.StatusOK:
				c.Errorf("%s, whose subset is not covered by %v, was answered %d", id, pair, status)
			case covered[id] && (status < 502 || status > 504):
				c.Errorf("%s, whose subset is down, was answered %d", id, status)
			}
		}
		c.heal()
	})
	c.want(report)
	c.Logf("%v: %d of %d tenants were down, as their subsets say", pair, len(covered), len(c.all))

	back := c.only(covered)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		down := 0
		for _, status := range c.sweep(back) {
			if status != http.StatusOK {
				down++
			}
		}
		if down == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d of %d tenants are not served after their shards came back", down, len(back))
		}
	}
}

// nobodyElse has directory, issuer and keeper down during a whole load, each in the long form also alone: every
// tenant is served, those whom the router has never served among them, and the age of what it goes by is told.
func (c *cell) nobodyElse() {
	all := map[string]string{"directory": localcell.HowKill, "issuer": localcell.HowHang, "keeper": localcell.HowKill}
	cases := []map[string]string{all}
	if *soak > 0 {
		for process, how := range all {
			cases = append(cases, map[string]string{process: how})
		}
	}
	for _, down := range cases {
		l := c.load
		l.For, l.Seed = long(3*time.Second, 20*time.Second), rand.Uint64() // the router believes an entry for two
		c.snapshotAge()                                                    // it has one
		for process, how := range down {
			c.fail(process, how)
		}
		silent := time.Now()
		report := c.send(l, func() {
			for id, status := range c.sweep(c.all) {
				if status != http.StatusOK {
					c.Errorf("%s was answered %d without %v", id, status, down)
				}
			}
		})
		c.want(report)
		lasted := time.Since(silent).Seconds()
		age := c.snapshotAge()
		c.Logf("without %v for %.1f s: the snapshot is %.1f s old", down, lasted, age)
		if down["keeper"] != "" && age < lasted {
			c.Error("the snapshot's age does not tell that the keeper is silent")
		}
		c.heal()
	}
}

// snapshotAge is how old the router says that its snapshot is, in seconds. A cell that has just started has none yet.
func (c *cell) snapshotAge() float64 {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if age := c.counters().SnapshotAge; age != nil {
			return *age
		}
		if time.Now().After(deadline) {
			c.Fatal("the age of the snapshot is not told")
		}
	}
}
