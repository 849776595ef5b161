package stamp

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/internal/fleet"
)

// metricNamespace is that of the metrics which routers and keepers tell, as internal/telemetry has it.
const metricNamespace = "cellwall"

// When a shard is not well.
const (
	// shardErrors is the share of requests, in percent, of which more must not fail, where there are at least
	// shardRequests in a minute. Of fewer, all must not: routers leave a shard that is down, and each environment then
	// sends it one request in up to two minutes, so that an alarm that wanted more would take back its word in the middle
	// of an outage. Hence also three bad minutes of ten.
	shardErrors   = 5
	shardRequests = 5
	// queuePatience is the age of the oldest message, in seconds, that is well; where a message may be hidden for
	// longer than half of it, twice as long as that.
	queuePatience = 15 * 60
	// sickMinutes is for how long a target may be unhealthy: the group starts another one in less.
	sickMinutes = 15
)

// noTargets is the kind of the alarm that rings without data.
const noTargets = "no-targets"

// watched is what the load balancer's metrics call a shard's targets. The zero value is of a shard without.
type watched struct {
	targets, balancer *string
	made              awscdk.CfnResource // the Auto Scaling group that they are in
}

// newShardAlarms are a shard's alarms and the one over them.
func newShardAlarms(st awscdk.Stack, p *plan, s shardPlan, w watched) {
	var own []awscdk.CfnResource
	over := composite{
		name: s.names.Health(), topics: p.topics(),
		about: "Shard " + s.id + " of cell " + p.cell.Name + " of " + p.fleet.Service + " is not well: " +
			"the alarms under " + s.names.Alarm("") + " say in what. Its tenants are served by their other shards; drain it when it does not recover.",
	}
	for _, a := range shardAlarms(p, s, w) {
		made := newAlarm(st, s.names.Alarm(a.kind), a)
		if a.kind == noTargets {
			made.AddResourceDependency(w.made, str("there are no targets before"))
		}
		over.children, own = append(over.children, s.names.Alarm(a.kind)), append(own, made)
	}
	newComposite(st, "Health", over, own...)
}

func shardAlarms(p *plan, s shardPlan, w watched) []alarm {
	shard := []dimension{{"service", p.fleet.Service}, {"cell", p.cell.Name}, {"shard", s.id}}
	all := []alarm{{
		kind: "errors",
		about: fmt.Sprintf("More than %d %% of the requests that routers sent to shard %s failed: no answer, a 5xx or a 421. "+
			"Look at the lines of the router's log with this shard among attempts, then at the shard's own log and last deployment.", shardErrors, s.id),
		expression: fmt.Sprintf("IF(requests >= %d OR errors == requests, 100 * errors / requests, 0)", shardRequests),
		metrics: []queried{{"requests", metric{metricNamespace, "Requests", "Sum", shard}},
			{"errors", metric{metricNamespace, "Errors", "Sum", shard}}},
		period: minute, compare: above, threshold: shardErrors, of: 10, bad: 3,
		missing: missingIsGood, // nobody asked it
	}}
	if l := p.fleet.Shard.Lambda; l != nil {
		all = append(all, alarm{
			kind: "throttles",
			about: "Shard " + s.id + "'s slice turns invocations away: its reserved concurrency is used up. " +
				"See whether one tenant asks for more than its part (the dashboard's tenants), whether the service has become slow, or give slices more (shard.lambda.reservedConcurrency).",
			metrics: []queried{{"", metric{"AWS/Lambda", "Throttles", "Sum", []dimension{{"FunctionName", s.names.Worker()}}}}},
			period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
			missing: missingIsGood, // nobody invoked it
		})
		if p.fleet.Shard.Queue != nil {
			all = append(all, deadLetters("dead-letters", s.names.DeadLetters(), "shard "+s.id),
				queueAge(s, *l))
		}
	}
	if w.targets != nil {
		all = append(all, targetAlarms(s, w)...)
	}
	return all
}

// deadLetters is of a queue in which nothing ought to be.
func deadLetters(kind, queue, of string) alarm {
	return alarm{
		kind: kind,
		about: "Jobs of " + of + " were given up, and lie in queue " + queue + " for 14 days. " +
			"Look at one for what it died of, mend that, and send them back (SQS, start-message-move-task), or delete them: it rings until the queue is empty.",
		metrics: []queried{{"", metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", []dimension{{"QueueName", queue}}}}},
		period:  minute, compare: atLeast, threshold: 1, of: 1, bad: 1,
		// SQS stops reporting a queue that nobody touches for six hours, with the letters still in it.
		missing: missingIsSame,
	}
}

func queueAge(s shardPlan, l fleet.Lambda) alarm {
	return alarm{
		kind: "queue-age",
		about: "The oldest job of shard " + s.id + " waits too long: its consumers are too few, throttled, or fail and try again. " +
			"Look at the slice's log and throttles; shard.queue.consumers and shard.lambda.reservedConcurrency give it more.",
		metrics: []queried{{"", metric{"AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", []dimension{{"QueueName", s.names.Queue()}}}}},
		period:  minute, compare: above, threshold: float64(max(queuePatience, 2*6*l.Timeout)), of: 5, bad: 5,
		missing: missingIsGood, // no message
	}
}

// targetAlarms are of instances as their load balancer sees them.
func targetAlarms(s shardPlan, w watched) []alarm {
	targets := []dimension{{"TargetGroup", *w.targets}, {"LoadBalancer", *w.balancer}}
	return []alarm{{
		kind: noTargets,
		about: "No instance of shard " + s.id + " is healthy: what goes to it by HTTP fails. " +
			"Look at the Auto Scaling group's activities and at an instance's log; a deployment that is at fault is taken back by deploying what was there before.",
		metrics: []queried{{"", metric{"AWS/ApplicationELB", "HealthyHostCount", "Maximum", targets}}},
		period:  minute, compare: below, threshold: 1, of: 3, bad: 2,
		missing: missingIsBad, // the load balancer counts while there is one target, healthy or not
	}, {
		kind: "sick-targets",
		about: "An instance of shard " + s.id + " has been unhealthy for a quarter of an hour, in which its Auto Scaling group ought to have replaced it. " +
			"Look at the group's activities: it may have suspended processes, or find no capacity in a zone.",
		metrics: []queried{{"", metric{"AWS/ApplicationELB", "UnHealthyHostCount", "Maximum", targets}}},
		period:  minute, compare: atLeast, threshold: 1, of: sickMinutes, bad: sickMinutes,
		missing: missingIsGood, // no targets, which is no-targets' business
	}}
}
