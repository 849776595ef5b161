package stamp

import "fmt"

// cellView is a cell's dashboard.
type cellView struct {
	view
	p *plan
}

// cellBoard is the cell's dashboard, in the order in which one looks: is a shard worse than the others, which one,
// does load explain it, do routers know what they ought to, and who of the tenants feels it.
func cellBoard(p *plan) board {
	v := cellView{view{service: p.fleet.Service, cell: p.cell.Name, account: p.cell.Account, region: p.cell.Region}, p}
	v.worst("shard", "The maximum over the shards, never the mean: one shard that serves nobody is no more than a few percent of a mean.")
	v.health()
	v.load()
	v.knowledge()
	v.variance()
	v.tenants()
	v.fallbacks()
	v.own()
	return v.board()
}

// each is a line for each shard by name, of a metric that one of its own resources tells.
func (v *cellView) each(of func(s shardPlan) metric) [][]any {
	var lines [][]any
	for _, s := range v.p.shards[:min(len(v.p.shards), shownShards)] {
		lines = append(lines, line(of(s), s.id))
	}
	return lines
}

func (v *cellView) health() {
	v.title("Health by shard", "A shard's alarm is over those of its service. What may ring for long while everybody is served is below, each by itself.")
	v.alarms("Cell", v.p.names.Health(), v.p.names.WorstShard(), v.p.names.Faults())
	var shards []string
	for _, s := range v.p.shards {
		shards = append(shards, s.names.Health())
	}
	v.alarms("Shards", shards...)
	var alone []string
	for _, a := range cellAlarms(v.p) {
		if a.tells != together {
			alone = append(alone, v.p.names.Alarm(a.kind))
		}
	}
	v.alarms("The cell's own that tell by themselves", alone...)
	v.alarms("Shards: left over", v.leftOver()...)
	v.slowest("shards")
	if v.p.fleet.Shard.Queue != nil {
		v.graph(12, "Oldest job by shard (s)", "Maximum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", []dimension{{"QueueName", s.names.Queue()}}}
		})...)
	}
}

// leftOver are the shards' alarms that tell by themselves.
func (v *cellView) leftOver() []string {
	var all []string
	for _, s := range v.p.shards[:min(len(v.p.shards), shownShards)] {
		for _, a := range shardAlarms(v.p, s, v.targets()) {
			if a.tells != together {
				all = append(all, s.names.Alarm(a.kind))
			}
		}
	}
	return all
}

// targets are some where shards have any: which they are is for their own stacks to know.
func (v *cellView) targets() watched {
	if v.p.service == nil {
		return watched{}
	}
	return watched{targets: str(""), balancer: str("")}
}

func (v *cellView) load() {
	v.title("Load", "What each shard is asked, and how much of itself that uses.")
	v.graph(12, "Requests by shard (a minute)", "Sum", minute, expression("requests", "", v.shards("Requests", "Sum")))
	if v.p.service != nil {
		v.graph(12, "Processors by shard (%)", "Average", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/EC2", "CPUUtilization", "Average", []dimension{{"AutoScalingGroupName", s.names.Group()}}}
		})...)
	}
	if l := v.p.fleet.Shard.Lambda; l != nil {
		v.graph(12, fmt.Sprintf("Invocations under way by slice, of %d", l.ReservedConcurrency), "Maximum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/Lambda", "ConcurrentExecutions", "Maximum", []dimension{{"FunctionName", s.names.Worker()}}}
		})...)
		v.graph(12, "Invocations turned away by slice (a minute)", "Sum", minute, v.each(func(s shardPlan) metric {
			return metric{"AWS/Lambda", "Throttles", "Sum", []dimension{{"FunctionName", s.names.Worker()}}}
		})...)
	}
}

func (v *cellView) knowledge() {
	v.title("Age of knowledge", "Routers serve by what they know. Its age says since when somebody has been silent.")
	v.graph(12, "At the keeper (s)", "Maximum", minute,
		line(v.told("DirectoryAge", "Maximum"), "directory"), line(v.told("HealthAge", "Maximum"), "health"), line(v.told("SnapshotAge", "Maximum"), "snapshot"))
	v.graph(6, "At the routers: oldest entry that was used (ms)", "Maximum", minute, line(v.told("KnowledgeAge", "Maximum"), "entry"))
	v.graph(6, "Placement key (days)", "Maximum", 60*minute, line(v.told("KeyAge", "Maximum"), "key"))
}

func (v *cellView) variance() {
	v.title("Variance across shards", "The standard deviation of the shards' loads, in percent of their mean, quarantine left out. Even shards have 0; one that has all, with fifteen idle ones, 387.")
	v.graph(12, "Variation of load (%)", "Maximum", 5*minute, line(v.told("LoadVariation", "Maximum"), "load"))
	requests := v.shards("Requests", "Sum")
	v.graph(12, "Requests: most and least loaded shard (a minute)", "Sum", minute,
		expression("most", "most", "MAX("+requests+")"), expression("mean", "mean", "AVG("+requests+")"), expression("least", "least", "MIN("+requests+")"))
}

func (v *cellView) tenants() {
	failing, all := v.p.names.FailingTenants(), v.p.names.Tenants()
	v.title("Availability by tenant", "A tenant's availability is the share of its requests that no 5xx answered. Names are hashes with router.hashTenants.")
	v.graph(8, "Tenants that met a failure (%)", "Average", 5*minute,
		hidden("failing", insight(failing, contributors)), hidden("asking", insight(all, contributors)), expression("share", "tenants", "100 * failing / asking"))
	v.graph(8, "The unluckiest tenant: failed requests", "Sum", 5*minute,
		expression("most", "unluckiest", insight(failing, "MaxContributorValue")))
	v.graph(8, "The busiest tenant, and all: requests", "Sum", 5*minute,
		expression("busiest", "busiest", insight(all, "MaxContributorValue")),
		expression("all", "all", insight(all, "Sum")))
	v.unlucky(v.p.names.LogGroup("router"))
}

func (v *cellView) fallbacks() {
	v.title("Fallbacks", "Requests that another member of the tenant's subset had to serve, by the shard that was left; and whom routers hold back.")
	v.graph(12, "Fallbacks by shard (a minute)", "Sum", minute, expression("fallbacks", "", v.shards("Fallbacks", "Sum")))
	v.graph(6, "Suspected tenants", "Maximum", minute,
		line(v.told("Suspects", "Maximum"), "held"), line(v.told("Quarantined", "Maximum"), "in quarantine"), line(v.told("PoisonVerdicts", "Sum"), "verdicts"))
	v.graph(6, "Requests refused, and of suspects (a minute)", "Sum", minute, line(v.told("Refused", "Sum"), "refused"), line(v.told("Poisoned", "Sum"), "of suspects"))
}

// own is what all shards depend on.
func (v *cellView) own() {
	router, keeper := v.p.names.Router(), v.p.names.Keeper()
	v.title("The cell's own", "Router, keeper, and the queue of jobs that are placed again.")
	v.graph(8, "Router (a minute)", "Sum", minute, line(v.function(router, "Invocations", "Sum"), "invocations"),
		line(v.function(router, "Errors", "Sum"), "errors"), line(v.function(router, "Throttles", "Sum"), "throttles"))
	v.graph(8, fmt.Sprintf("Router: requests under way, of %d", v.p.fleet.Router.ReservedConcurrency), "Maximum", minute, line(v.function(router, "ConcurrentExecutions", "Maximum"), "under way"))
	v.graph(8, "Keeper", "Sum", minute, line(v.function(keeper, "Invocations", "Sum"), "runs"), line(v.function(keeper, "Errors", "Sum"), "errors"))
	if v.p.fleet.Shard.Queue != nil {
		v.graph(12, "Jobs that are placed again", "Maximum", minute,
			line(metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", []dimension{{"QueueName", v.p.names.Dispatch()}}}, "waiting"),
			line(metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", []dimension{{"QueueName", v.p.names.DispatchDeadLetters()}}}, "given up"))
	}
}
