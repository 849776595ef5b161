package stamp

import (
	"fmt"
	"math"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

// When a cell is not well.
const (
	// failingTenants is the share of the tenants that asked for something, in percent, of which more must not have met
	// a failure within five minutes: with 5, the tenant at the 95th percentile is served without one.
	failingTenants = 5
	// fewTenants is how many tenants must have met one at least. One may ask for what always fails, and so may another
	// that has the same client; where few ask, each is already more than 5 % of them.
	fewTenants = 3
	// fewRequests is how many requests there must have been from all tenants: one failure among fewer is more than 5 %
	// of them, too, and a night's single failures would wake somebody.
	fewRequests = 20
	// evenLoad is the coefficient of variation of the shards' loads, in percent, that is too uneven in a large cell:
	// some shard then carries much more than its part, and its tenants meet its limits while others idle.
	evenLoad = 100
	// knowledge is the age, in seconds, at which what routers know is old. They serve on by it for hours.
	knowledge = 600
	// healthAge is the same of what is known of the shards' health, by which requests are ordered.
	healthAge = 300
	// missedRuns is how many runs of the keeper in a row may miss something.
	missedRuns = 5
	// keyDays is the age at which the placement key is to be rotated.
	keyDays = 365
)

// loadVariation is the coefficient of variation, in percent, above which the loads of so many shards are too uneven.
// That of n loads, none below nought, is 100·√(n-1) at most, when one shard has everything (Katsnelson and Kotz, "On
// the upper limits of some measures of variability", 1957), and 100·(f-1)/√(n-1) when one carries f times its part
// while the others are even. Of few shards half of the most is too uneven: of two, when one carries 1.5 times its part,
// three quarters of everything. From five on that is more than evenLoad.
func loadVariation(shards int) float64 {
	return min(evenLoad, math.Floor(50*math.Sqrt(float64(shards-1))))
}

// unevenFor is for how long loads must be uneven, in seconds, where keepers tell of them often enough.
const unevenFor = 30 * minute

// variationPeriods are the periods by which a keeper's word on the loads is looked at, and how many. A period takes two
// runs, so that one of them is in it, however late either is: a period without would count as good. Where that is long,
// two periods are enough.
func variationPeriods(every int) (period, of int) {
	period = max(5*minute, 2*every)
	return period, max(2, unevenFor/period)
}

// cellAlarms are those of what is the cell's own. Nothing that tells of the keeper, of knowledge, of leftovers or of load
// is below another alarm: routers serve on for hours meanwhile. The rules of Contributor Insights by which tenants are counted are made before the alarm that asks them.
func cellAlarms(p *plan, rules ...awscdk.CfnResource) []alarm {
	all := append([]alarm{tenantAlarm(p, rules)}, routerAlarms(p)...)
	if n := len(p.shards) - len(p.cell.Quarantine); n > 1 { // there is no variation of fewer
		all = append(all, variationAlarm(p, n))
	}
	if p.fleet.Shard.Queue != nil {
		all = append(all, deadLetters("dispatch-dead-letters", p.names.DispatchDeadLetters(), "cell "+p.cell.Name+" for which no shard was found"))
	}
	return append(append(all, keeperAlarms(watchedKeeper{
		of: "cell " + p.cell.Name, whom: "routers", every: int(p.fleet.Keeper.Every.Seconds()), cell: p.cell.Name, service: p.fleet.Service,
		function: p.names.Keeper(), schedule: p.names.KeeperSchedule(), directory: p.directoryRegion(), health: true,
	})...), keyAge(p))
}

// tenantAlarm tells by itself: tenants may go on failing by what they ask for, and the router fail next to that.
func tenantAlarm(p *plan, rules []awscdk.CfnResource) alarm {
	return alarm{
		kind: "failing-tenants",
		about: fmt.Sprintf("More than %d %% of cell %s's tenants met a 5xx within five minutes, and at least %d of them: this is no single tenant's matter. "+
			"Look at what the tenants have in common: the rule %s of Contributor Insights names them, and the router's log their shards.", failingTenants, p.cell.Name, fewTenants, p.names.FailingTenants()),
		expression: fmt.Sprintf("IF(failing >= %d AND requests >= %d, 100 * failing / asking, 0)", fewTenants, fewRequests),
		metrics: []queried{{id: "failing", fetch: insight(p.names.FailingTenants(), contributors)},
			{id: "asking", fetch: insight(p.names.Tenants(), contributors)}, {id: "requests", fetch: insight(p.names.Tenants(), "Sum")}},
		period: 5 * minute, compare: above, threshold: failingTenants, of: 3, bad: 2,
		missing: missingIsGood, // no tenant asked for anything, or none met a failure
		tells:   alone,
		after:   rules, // it names them by text alone
	}
}

func variationAlarm(p *plan, shards int) alarm {
	bound := loadVariation(shards)
	period, of := variationPeriods(int(p.fleet.Keeper.Every.Seconds()))
	return alarm{
		kind: "load-variation",
		about: fmt.Sprintf("The shards of cell %s carry very different loads for their weights: their standard deviation is more than %g %% of their mean, which hides it. "+
			"See which shard has most (the dashboard's load), and pin its largest tenant to shards of its own, or raise k for its size class.", p.cell.Name, bound),
		metrics: []queried{{metric: p.told("LoadVariation", "Maximum")}},
		period:  period, compare: above, threshold: bound, of: of, bad: of,
		missing: missingIsGood, // too few requests to tell
		tells:   lasting,
	}
}

func routerAlarms(p *plan) []alarm {
	return []alarm{{
		kind: "router-errors",
		about: "The router of cell " + p.cell.Name + " crashes or runs into its time-out. Every tenant of the cell depends on it: " +
			"look at its log, and deploy the cell's core as it was before when this began with a deployment.",
		metrics: ofFunction(p.names.Router(), "Errors", "Sum"),
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}, {
		kind: "router-throttles",
		about: "The router of cell " + p.cell.Name + " turns requests away: its reserved concurrency is used up. " +
			"Look whether a shard hangs (latency by shard), which holds the router for as long as an attempt may take; else raise router.reservedConcurrency.",
		metrics: ofFunction(p.names.Router(), "Throttles", "Sum"),
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}}
}

// watchedKeeper is a keeper of which alarms tell, a cell's or a front door's.
type watchedKeeper struct {
	of, whom           string // whose it is, and who lives by what it writes
	service, cell      string // by which it tells its metrics
	function, schedule string
	every              int    // seconds
	directory          string // region of the table that it reads
	health             bool   // of shards is in what it writes
}

// keeperAlarms are of what routers know, as the keeper tells it at each run.
func keeperAlarms(k watchedKeeper) []alarm {
	old := func(least int) float64 { return float64(max(least, missedRuns*k.every)) }
	told := func(name string) []queried { return []queried{{metric: told(k.service, k.cell, name, "Maximum")}} }
	all := []alarm{{
		kind: "directory-age",
		about: "What " + k.whom + " of " + k.of + " know of tenants is old: the keeper cannot read the directory. Tenants are served by what was true then; " +
			"sign-ups and moves since are not known to new environments. Look at the directory's table in " + k.directory + ", and at the keeper's log.",
		metrics: told("DirectoryAge"), period: k.every, compare: above, threshold: old(knowledge), of: 1, bad: 1,
		missing: missingIsGood, // snapshot-age says that the keeper is silent
		tells:   lasting,
	}, {
		kind: "snapshot-age",
		about: "The snapshot of " + k.of + " is old, or its keeper says nothing any more (INSUFFICIENT_DATA): what starts now begins with old knowledge. " +
			"Look at the keeper's log, and whether its schedule " + k.schedule + " is enabled; nothing is lost while the directory answers.",
		metrics: told("SnapshotAge"), period: k.every, compare: above, threshold: old(knowledge), of: missedRuns, bad: missedRuns,
		missing: missingTells, // once one stands, the keeper tells it at each run, also at those that fail
		tells:   lasting,
	}, {
		kind: "keeper-errors",
		about: "The keeper of " + k.of + " fails again and again: it wrote no snapshot, one with an old part, or does not look after suspects. " +
			"Its log says what did not answer.",
		metrics: ofFunction(k.function, "Errors", "Sum"),
		period:  k.every, compare: atLeast, threshold: 1, of: missedRuns, bad: 3,
		missing: missingIsGood, // it did not run, which is snapshot-age's business once there is a snapshot
		tells:   lasting,
	}}
	if k.health {
		all = append(all, alarm{
			kind: "stale-health",
			about: "What " + k.whom + " of " + k.of + " are told of the shards' health is old: they order requests by what they meet themselves. " +
				"The keeper's log says which source does not answer: load balancers, CloudWatch, or the directory's drains.",
			metrics: told("HealthAge"), period: k.every, compare: above, threshold: old(healthAge), of: 1, bad: 1,
			missing: missingIsGood, // snapshot-age says that the keeper is silent
			tells:   lasting,
		})
	}
	return all
}

func keyAge(p *plan) alarm {
	return alarm{
		kind: "key-age",
		about: fmt.Sprintf("The placement key of cell %s is more than %d days old. Add a version (cellwall cell rotate-key %s) and take tenants to it by a topology migration, when it suits.",
			p.cell.Name, keyDays, p.cell.Name),
		metrics: []queried{{metric: p.told("KeyAge", "Maximum")}},
		period:  60 * minute, compare: above, threshold: keyDays, of: 1, bad: 1,
		missing: missingIsSame, // a silent keeper makes no key younger
		tells:   lasting,       // a chore, for which no rollout has to wait
	}
}

// told is a metric that the cell's functions tell of the cell.
func (p *plan) told(name, stat string) metric { return told(p.fleet.Service, p.cell.Name, name, stat) }

func told(service, cell, name, stat string) metric {
	return metric{metricNamespace, name, stat, []dimension{{"service", service}, {"cell", cell}}}
}

// contributors is what a rule of Contributor Insights tells of how many tenants it counted.
const contributors = "UniqueContributors"

// insight fetches what a rule tells.
func insight(rule, what string) string { return fmt.Sprintf("INSIGHT_RULE_METRIC(%q, %q)", rule, what) }
