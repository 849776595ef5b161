package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The time that a request may take: an HTTP API gives up after 30 s (API Gateway quotas), and the router
// answers before that.
const (
	// LeastAttempt is the shortest time for an attempt that a fleet may give.
	LeastAttempt = 100 * time.Millisecond
	mostAttempt  = 28 * time.Second
)

// The times between two snapshots of a keeper: EventBridge's schedules have whole minutes, and what is older
// than a quarter of an hour tells little of a shard's health.
const (
	leastEvery = time.Minute
	mostEvery  = 15 * time.Minute
)

// frontDoor sees that cells can verify again who asks there.
func (c *checker) frontDoor() {
	if source := c.f.Auth.Source; c.set("frontDoor") && c.known("frontDoor", "auth") && source != AuthJWT && source != AuthVerify {
		c.wrong("frontDoor", "frontDoor is set", fmt.Sprintf("auth.source is %s, and a front door forwards tokens for the cells to verify again", source), "remove it, or write source: jwt or verify")
	}
}

// auth sees that the source of identities has what it needs, and nothing that only another one reads.
func (c *checker) auth() {
	a := c.f.Auth
	if !c.known("auth.source") || !c.set("auth") {
		return
	}
	for _, need := range []struct {
		key     string
		source  AuthSource
		missing string // what to add, "" where it has a default
	}{
		{"authorizerArn", AuthLambda, "authorizerArn: arn:aws:lambda:…"},
		{"principals", AuthIAM, `principals: {"arn:aws:iam::111111111111:role/acme": acme}`},
		{"algorithms", AuthVerify, ""},
	} {
		path := join("auth", need.key)
		switch set := c.set(path); {
		case set && a.Source != need.source:
			c.wrong(path, path+" is set", fmt.Sprintf("auth.source is %s, which does not read it", a.Source), fmt.Sprintf("remove it, or write source: %s", need.source))
		case !set && a.Source == need.source && need.missing != "":
			c.wrong("auth.source", fmt.Sprintf("auth.source is %s", a.Source), fmt.Sprintf("it needs auth.%s", need.key), "add "+need.missing)
		}
	}
	if c.set("auth.principals") && c.known("auth.principals") && len(a.Principals) == 0 {
		c.wrong("auth.principals", "auth.principals is empty", "nobody could ask", `write "arn:aws:iam::111111111111:role/acme": acme`)
	}
	for _, principal := range slices.Sorted(maps.Keys(a.Principals)) {
		path := join("auth.principals", principal)
		if tenant := a.Principals[principal]; c.known(path) && len(tenant) > 128 {
			c.wrong(path, fmt.Sprintf("%s is a tenant id of %d bytes", path, len(tenant)), "it has at most 128", "write it exactly as in the directory")
		}
	}
}

// The times between two requests of a probe to a cell: as often as it wants no more than a trickle, and as seldom as it still says
// something within a bake of minutes.
const (
	leastProbe = time.Second
	mostProbe  = time.Minute
)

// router sees to the times of an attempt, of a keeper and of a probe, and to who may repeat what.
func (c *checker) router() {
	c.within("router.attemptTimeout", c.f.Router.AttemptTimeout, LeastAttempt, mostAttempt)
	for i, r := range c.f.Routes {
		path := fmt.Sprintf("routes[%d].timeout", i)
		c.within(path, r.Timeout, LeastAttempt, mostAttempt)
	}
	if c.within("keeper.every", c.f.Keeper.Every, leastEvery, mostEvery) && c.f.Keeper.Every%time.Minute != 0 {
		c.wrong("keeper.every", fmt.Sprintf("keeper.every is %v", c.f.Keeper.Every), "schedules have whole minutes", "write it as 1m or 5m")
	}
	if p := c.f.Rollout.Probe; p != nil {
		c.within("rollout.probe.every", p.Every, leastProbe, mostProbe)
	}
	if c.set("router.tenantBurst") && c.known("router.tenantBurst", "router.tenantRate") && c.f.Router.TenantRate == 0 && c.f.Router.TenantBurst > 0 {
		c.wrong("router.tenantBurst", fmt.Sprintf("router.tenantBurst is %d", c.f.Router.TenantBurst), "without router.tenantRate there is no limit that it could pass over", "add tenantRate, or remove it")
	}
	if c.known("shard.state") && c.f.Shard.State.Mode == StateHome && c.f.Shard.State.IdempotencyKeys {
		c.wrong("shard.state.idempotencyKeys", "shard.state.idempotencyKeys is true", "with mode: home no other shard reaches a key's record, so that nothing may be repeated elsewhere", "remove it, or write mode: cell")
	}
}

// within sees that a duration that stands in the file lies in its bounds, and says whether it does.
func (c *checker) within(path string, d, least, most time.Duration) bool {
	if !c.set(path) || !c.known(path) {
		return false
	}
	if d < least || d > most {
		whole := strings.NewReplacer("h0m0s", "h", "m0s", "m")
		short := func(d time.Duration) string { return whole.Replace(d.String()) }
		c.wrong(path, fmt.Sprintf("%s is %v", path, d), fmt.Sprintf("it must be %s to %s", short(least), short(most)), "write one between them")
		return false
	}
	return true
}

// quarantine sees that the shards of a quarantine are the cell's own, and leave others.
func (c *checker) quarantine(i int) {
	cell, path := c.f.Cells[i], cellPath(i, "quarantine")
	if !c.set(path) || !c.counted(i) {
		return
	}
	seen := map[string]pos{}
	for j, id := range cell.Quarantine {
		at := fmt.Sprintf("%s[%d]", path, j)
		if !c.known(at) || !c.known(cellPath(i, "shards")) {
			continue
		}
		if !slices.Contains(cell.Shards.IDs(), id) {
			c.wrong(at, fmt.Sprintf("%s is %s", at, quote(id)), fmt.Sprintf("cell %s has no such shard", c.called(i)), "write the id of one of its shards")
			continue
		}
		c.once(seen, at, id, "each shard stands there once")
	}
	if !c.known(path, cellPath(i, "shards"), "placement") {
		return
	}
	left, most := len(cell.Shards)-len(seen), c.mostPerTenant()
	switch {
	case left == 0:
		c.wrong(path, fmt.Sprintf("%s has every shard of the cell", path), "a tenant would not be kept from anybody", "leave some out")
	case left < most && most <= len(cell.Shards):
		c.wrong(path, fmt.Sprintf("%s leaves %d %s of the cell", path, left, plural(left, "shard")), fmt.Sprintf("nobody is placed in quarantine, and a tenant may have %d shards", most), "leave more out")
	}
}
