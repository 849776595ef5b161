package stamp

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
)

// buildWatch fills the stack that watches the cell: the alarms of what is the cell's own, those over its shards'
// and over everything, who its tenants are, and the dashboard. It is the cell's last stack, and nothing that serves
// a request is in it.
func buildWatch(st awscdk.Stack, p *plan) {
	rules := newTenantRules(st, p)
	topics := topicsOf(p.fleet, p.cell.Region)
	own := newAlarms(st, p.names.Alarm, topics, cellAlarms(p, rules...)...)
	faults := newComposite(st, "Faults", composite{
		name: p.names.Faults(), topics: topics, children: own[together],
		about: "The router of cell " + p.cell.Name + " of " + p.fleet.Service + ", which is no single shard's, is not well: the alarms under " +
			p.names.Alarm("") + " say in what, and the dashboard " + p.names.Dashboard() + " shows it.",
	})
	newComposite(st, "Health", composite{
		name: p.names.Health(), children: append([]child{newWorstShard(st, p), faults}, own[alone]...),
		about: "Something in cell " + p.cell.Name + " of " + p.fleet.Service + " does not serve as it should: a shard, or what is the cell's own. " +
			"Rollouts watch this alarm. It tells nobody: those below it do.",
	})
	newDashboard(st, p.names.Dashboard(), cellBoard(p))
}

// newWorstShard is the alarm over all shards.
func newWorstShard(st awscdk.Stack, p *plan) child {
	var shards []child
	for _, s := range p.shards {
		shards = append(shards, child{name: s.names.Health()})
	}
	return newWorst(st, "WorstShard", "shards", composite{
		name: p.names.WorstShard(), children: shards,
		about: "A shard of cell " + p.cell.Name + " of " + p.fleet.Service + " is not well, whatever the others are. It tells nobody: the shard's own alarm does.",
	}, p.names.Alarm, fmt.Sprintf("One of up to %d shards of cell %s of %s is not well. It tells nobody: the shard's own alarm does.", maxChildren, p.cell.Name, p.fleet.Service))
}

// newTenantRules are the two rules of Contributor Insights over the router's log, one line of which is one request
// (internal/telemetry): how often each tenant asked, and how often it was answered by a 5xx. A rule has four filters
// at most.
func newTenantRules(st awscdk.Stack, p *plan) []awscdk.CfnResource {
	asked := []filter{{Match: "$.msg", In: []string{"request"}}, {Match: "$.tenant", IsPresent: yes}, {Match: "$.left", IsPresent: no}}
	return []awscdk.CfnResource{
		newTenantRule(st, "Tenants", p, p.names.Tenants(), asked),
		newTenantRule(st, "FailingTenants", p, p.names.FailingTenants(), append(asked, filter{Match: "$.status", GreaterThan: 499})),
	}
}

// filter is one condition on a line (CloudWatch User Guide, "Contributor Insights rule syntax").
type filter struct {
	Match       string
	In          []string `json:",omitempty"`
	GreaterThan int      `json:",omitempty"`
	IsPresent   *bool    `json:",omitempty"`
}

func newTenantRule(st awscdk.Stack, id string, p *plan, name string, filters []filter) awscdk.CfnResource {
	type schema struct {
		Name    string
		Version int
	}
	type contribution struct {
		Keys    []string
		Filters []filter
	}
	return awscloudwatch.NewCfnInsightRule(st, str(id), &awscloudwatch.CfnInsightRuleProps{
		RuleName: str(name), RuleState: str("ENABLED"),
		RuleBody: str(document(struct {
			Schema        schema
			LogGroupNames []string
			LogFormat     string
			Contribution  contribution
			AggregateOn   string
		}{schema{"CloudWatchLogRule", 1}, []string{p.names.LogGroup("router")}, "JSON", contribution{[]string{"$.tenant"}, filters}, "Count"}))})
}
