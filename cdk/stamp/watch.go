package stamp

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
)

// buildWatch fills the stack that watches the cell: the alarms of what is the cell's own, those over its shards'
// and over everything, who its tenants are, and the dashboard. It is the cell's last stack, and nothing that serves
// a request is in it.
func buildWatch(st awscdk.Stack, p *plan) {
	newTenantRules(st, p)
	faults := newFaults(st, p)
	worst := newWorstShard(st, p)
	newComposite(st, "Health", composite{
		name: p.names.Health(), children: []string{p.names.WorstShard(), p.names.Faults()},
		about: "Something in cell " + p.cell.Name + " of " + p.fleet.Service + " is not well: a shard, or what is the cell's own. " +
			"Rollouts watch this alarm. It tells nobody: those below it do.",
	}, worst, faults)
	newDashboard(st, p)
}

// newWorstShard is the alarm over all shards: it is as bad as the worst of them, however well the others are. A rule
// takes a hundred alarms, so that those of a larger cell are first put together by the hundred.
func newWorstShard(st awscdk.Stack, p *plan) awscdk.CfnResource {
	var shards []string
	for _, s := range p.shards {
		shards = append(shards, s.names.Health())
	}
	top := composite{
		name: p.names.WorstShard(), children: shards,
		about: "A shard of cell " + p.cell.Name + " of " + p.fleet.Service + " is not well, whatever the others are. It tells nobody: the shard's own alarm does.",
	}
	var groups []awscdk.CfnResource
	if len(shards) > maxChildren {
		top.children = nil
		for part := range slices.Chunk(shards, maxChildren) {
			kind := "shards-" + strconv.Itoa(len(groups)+1)
			groups = append(groups, newComposite(st, "Group-"+kind, composite{
				name: p.names.Alarm(kind), children: part,
				about: fmt.Sprintf("One of up to %d shards of cell %s of %s is not well. It tells nobody: the shard's own alarm does.", maxChildren, p.cell.Name, p.fleet.Service)}))
			top.children = append(top.children, p.names.Alarm(kind))
		}
	}
	return newComposite(st, "WorstShard", top, groups...)
}

// newFaults are the alarms of what is the cell's own, and the one over them. The age of the key is a chore and no
// fault: it tells by itself, and no rollout has to wait for it.
func newFaults(st awscdk.Stack, p *plan) awscdk.CfnResource {
	var own []awscdk.CfnResource
	over := composite{
		name: p.names.Faults(), topics: p.topics(),
		about: "What is cell " + p.cell.Name + "'s own in " + p.fleet.Service + ", and no single shard's, is not well: the alarms under " +
			p.names.Alarm("") + " say in what, and the dashboard " + p.names.Dashboard() + " shows it.",
	}
	for _, a := range cellAlarms(p) {
		over.children, own = append(over.children, p.names.Alarm(a.kind)), append(own, newAlarm(st, p.names.Alarm(a.kind), a))
	}
	key := keyAge(p)
	newAlarm(st, p.names.Alarm(key.kind), key, p.topics()...)
	return newComposite(st, "Faults", over, own...)
}

// When a cell is not well.
const (
	// failingTenants is the share of the tenants that asked for something, in percent, of which more must not have met
	// a failure within five minutes: with 5, the tenant at the 95th percentile is served without one. A single tenant
	// is a matter of that tenant's.
	failingTenants = 5
	// loadVariation is the standard deviation of the shards' loads, in percent of their mean, that is too uneven: some
	// shard then carries much more than its part, and its tenants meet its limits while others idle.
	loadVariation = 100
	// knowledge is the age, in seconds, at which what routers know is old. They serve on by it for hours.
	knowledge = 600
	// healthAge is the same of what is known of the shards' health, by which requests are ordered.
	healthAge = 300
	// missedRuns is how many runs of the keeper in a row may miss something.
	missedRuns = 5
	// keyDays is the age at which the placement key is to be rotated.
	keyDays = 365
)

// cellAlarms are those of the cell's own faults.
func cellAlarms(p *plan) []alarm {
	all := []alarm{tenantAlarm(p), variationAlarm(p)}
	all = append(all, routerAlarms(p)...)
	if p.fleet.Shard.Queue != nil {
		all = append(all, deadLetters("dispatch-dead-letters", p.names.DispatchDeadLetters(), "cell "+p.cell.Name+" for which no shard was found"))
	}
	return append(all, keeperAlarms(p)...)
}

func tenantAlarm(p *plan) alarm {
	return alarm{
		kind: "failing-tenants",
		about: fmt.Sprintf("More than %d %% of cell %s's tenants met a 5xx within five minutes, and more than one did: this is no single tenant's or shard's matter. "+
			"Look at what the tenants have in common: the rule %s of Contributor Insights names them, and the router's log their shards.", failingTenants, p.cell.Name, p.names.FailingTenants()),
		expression: fmt.Sprintf("IF(%s > 1, 100 * %[1]s / %s, 0)", contributors(p.names.FailingTenants()), contributors(p.names.Tenants())),
		period:     5 * minute, compare: above, threshold: failingTenants, of: 3, bad: 2,
		missing: missingIsGood, // no tenant asked for anything, or none met a failure
	}
}

func variationAlarm(p *plan) alarm {
	return alarm{
		kind: "load-variation",
		about: fmt.Sprintf("The shards of cell %s carry very different loads for their weights: the standard deviation is more than their mean. "+
			"The mean over the shards hides this. See which shard has most (the dashboard's load), and pin its largest tenant to shards of its own, or raise k for its size class.", p.cell.Name),
		metrics: []queried{{"", p.told("LoadVariation", "Maximum")}},
		period:  5 * minute, compare: above, threshold: loadVariation, of: 6, bad: 6,
		missing: missingIsGood, // too few requests to tell
	}
}

func routerAlarms(p *plan) []alarm {
	function := []dimension{{"FunctionName", p.names.Router()}}
	return []alarm{{
		kind: "router-errors",
		about: "The router of cell " + p.cell.Name + " crashes or runs into its time-out. Every tenant of the cell depends on it: " +
			"look at its log, and deploy the cell's core as it was before when this began with a deployment.",
		metrics: []queried{{"", metric{"AWS/Lambda", "Errors", "Sum", function}}},
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}, {
		kind: "router-throttles",
		about: "The router of cell " + p.cell.Name + " turns requests away: its reserved concurrency is used up. " +
			"Look whether a shard hangs (latency by shard), which holds the router for as long as an attempt may take; else raise router.reservedConcurrency.",
		metrics: []queried{{"", metric{"AWS/Lambda", "Throttles", "Sum", function}}},
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}}
}

// keeperAlarms are of what routers know, as the keeper tells it at each run.
func keeperAlarms(p *plan) []alarm {
	every := int(p.fleet.Keeper.Every.Seconds())
	old := func(least int) float64 { return float64(max(least, missedRuns*every)) }
	told := func(name string) []queried { return []queried{{"", p.told(name, "Maximum")}} }
	return []alarm{{
		kind: "stale-health",
		about: "What routers of cell " + p.cell.Name + " are told of the shards' health is old: they order requests by what they meet themselves. " +
			"The keeper's log says which source does not answer: load balancers, CloudWatch, or the directory's drains.",
		metrics: told("HealthAge"), period: every, compare: above, threshold: old(healthAge), of: 1, bad: 1,
		missing: missingIsGood, // snapshot-age says that the keeper is silent
	}, {
		kind: "directory-age",
		about: "What routers of cell " + p.cell.Name + " know of tenants is old: the keeper cannot read the directory. Tenants are served by what was true then; " +
			"sign-ups and moves since are not known to new routers. Look at the directory's table in " + p.directoryRegion() + ", and at the keeper's log.",
		metrics: told("DirectoryAge"), period: every, compare: above, threshold: old(knowledge), of: 1, bad: 1,
		missing: missingIsGood, // snapshot-age says that the keeper is silent
	}, {
		kind: "snapshot-age",
		about: "The snapshot of cell " + p.cell.Name + " is old, or its keeper says nothing: a router that starts now begins with old knowledge. " +
			"Look at the keeper's log, and whether its schedule " + p.names.KeeperSchedule() + " is enabled; nothing is lost while the directory answers.",
		metrics: told("SnapshotAge"), period: every, compare: above, threshold: old(knowledge), of: missedRuns, bad: missedRuns,
		missing: missingIsBad, // the keeper tells it at each run, also at those that fail
	}, {
		kind: "keeper-errors",
		about: "The keeper of cell " + p.cell.Name + " fails again and again: it wrote no snapshot, one with an old part, or does not look after suspects. " +
			"Its log says what did not answer.",
		metrics: []queried{{"", metric{"AWS/Lambda", "Errors", "Sum", []dimension{{"FunctionName", p.names.Keeper()}}}}},
		period:  every, compare: atLeast, threshold: 1, of: missedRuns, bad: 3,
		missing: missingIsGood, // it did not run, which is snapshot-age's business
	}}
}

func keyAge(p *plan) alarm {
	return alarm{
		kind: "key-age",
		about: fmt.Sprintf("The placement key of cell %s is more than %d days old. Add a version (cellwall cell rotate-key %s) and take tenants to it by a topology migration, when it suits.",
			p.cell.Name, keyDays, p.cell.Name),
		metrics: []queried{{"", p.told("KeyAge", "Maximum")}},
		period:  60 * minute, compare: above, threshold: keyDays, of: 1, bad: 1,
		missing: missingIsSame, // a silent keeper makes no key younger
	}
}

// told is a metric that the cell's functions tell of the cell.
func (p *plan) told(name, stat string) metric {
	return metric{metricNamespace, name, stat, []dimension{{"service", p.fleet.Service}, {"cell", p.cell.Name}}}
}

// contributors is how many tenants a rule has counted, as metric math has it.
func contributors(rule string) string {
	return fmt.Sprintf("INSIGHT_RULE_METRIC(%q, %q)", rule, "UniqueContributors")
}

// newTenantRules are the two rules of Contributor Insights over the router's log, one line of which is one request
// (internal/telemetry): how often each tenant asked, and how often it was answered by a 5xx. A rule has four filters
// at most.
func newTenantRules(st awscdk.Stack, p *plan) {
	asked := []filter{{Match: "$.msg", In: []string{"request"}}, {Match: "$.tenant", IsPresent: yes}, {Match: "$.left", IsPresent: no}}
	newTenantRule(st, "Tenants", p, p.names.Tenants(), asked)
	newTenantRule(st, "FailingTenants", p, p.names.FailingTenants(), append(asked, filter{Match: "$.status", GreaterThan: 499}))
}

// filter is one condition on a line (CloudWatch User Guide, "Contributor Insights rule syntax").
type filter struct {
	Match       string
	In          []string `json:",omitempty"`
	GreaterThan int      `json:",omitempty"`
	IsPresent   *bool    `json:",omitempty"`
}

func newTenantRule(st awscdk.Stack, id string, p *plan, name string, filters []filter) {
	type schema struct {
		Name    string
		Version int
	}
	type contribution struct {
		Keys    []string
		Filters []filter
	}
	awscloudwatch.NewCfnInsightRule(st, str(id), &awscloudwatch.CfnInsightRuleProps{
		RuleName: str(name), RuleState: str("ENABLED"),
		RuleBody: str(document(struct {
			Schema        schema
			LogGroupNames []string
			LogFormat     string
			Contribution  contribution
			AggregateOn   string
		}{schema{"CloudWatchLogRule", 1}, []string{p.names.LogGroup("router")}, "JSON", contribution{[]string{"$.tenant"}, filters}, "Count"}))})
}
