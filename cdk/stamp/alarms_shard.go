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
	// inService is the group's count of instances that run and are not on their way in or out, healthy or not.
	inService = "GroupInServiceInstances"
	// sickMinutes is for how long a target may be unhealthy: the group starts another one in less.
	sickMinutes = 15
)

// watched is what the load balancer's metrics call a shard's targets. The zero value is of a shard without. What they
// call its group is a derived name.
type watched struct {
	targets, balancer *string
	made              awscdk.CfnResource // the Auto Scaling group that they are in
}

// newShardAlarms are a shard's alarms and the one over those of its service.
func newShardAlarms(st awscdk.Stack, p *plan, s shardPlan, w watched) {
	topics := topicsOf(p.fleet, p.cell.Region)
	made := newAlarms(st, s.names.Alarm, topics, shardAlarms(p, s, w)...)
	newComposite(st, "Health", composite{
		name: s.names.Health(), topics: topics, children: made[together],
		about: "Shard " + s.id + " of cell " + p.cell.Name + " of " + p.fleet.Service + " is not well: " +
			"the alarms under " + s.names.Alarm("") + " say in what. Its tenants are served by their other shards; drain it when it does not recover.",
	})
}

func shardAlarms(p *plan, s shardPlan, w watched) []alarm {
	shard := []dimension{{"service", p.fleet.Service}, {"cell", p.cell.Name}, {"shard", s.id}}
	expression, metrics := failingShare(shardRequests, metric{metricNamespace, "Requests", "Sum", shard}, metric{metricNamespace, "Errors", "Sum", shard})
	all := []alarm{{
		kind: "errors",
		about: fmt.Sprintf("More than %d %% of the requests that routers sent to shard %s failed: no answer, a 5xx or a 421. "+
			"Look at the lines of the router's log with this shard among attempts, then at the shard's own log and last deployment.", shardErrors, s.id),
		expression: expression, metrics: metrics,
		period: minute, compare: above, threshold: shardErrors, of: 10, bad: 3,
		missing: missingIsGood, // nobody asked it
	}}
	if l := p.fleet.Shard.Lambda; l != nil {
		all = append(all, alarm{
			kind: "throttles",
			about: "Shard " + s.id + "'s slice turns invocations away: its reserved concurrency is used up. " +
				"See whether one tenant asks for more than its part (the dashboard's tenants), whether the service has become slow, or give slices more (shard.lambda.reservedConcurrency).",
			metrics: ofFunction(s.names.Worker(), "Throttles", "Sum"),
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

// deadLetters is of a queue in which nothing ought to be. What lies there hurts nobody more by lying longer.
func deadLetters(kind, queue, of string) alarm {
	return alarm{
		kind: kind,
		about: "Jobs of " + of + " were given up, and lie in queue " + queue + " until 14 days after they were sent. " +
			"Look at one for what it died of, mend that, and send them back (SQS, start-message-move-task), or delete them: it rings until the queue is empty.",
		metrics: single("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", dimension{"QueueName", queue}),
		period:  minute, compare: atLeast, threshold: 1, of: 1, bad: 1,
		// SQS stops reporting a queue that nobody touches for six hours, with the letters still in it.
		missing: missingIsSame, tells: lasting,
	}
}

// queueAge lasts: a tenant's great batch takes hours to work off, while requests are served.
func queueAge(s shardPlan, l fleet.Lambda) alarm {
	return alarm{
		kind: "queue-age",
		about: "The oldest job of shard " + s.id + " waits too long: its consumers are too few, throttled, or fail and try again. " +
			"Look at the slice's log and throttles; shard.queue.consumers and shard.lambda.reservedConcurrency give it more.",
		metrics: single("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", dimension{"QueueName", s.names.Queue()}),
		period:  minute, compare: above, threshold: float64(max(queuePatience, 2*6*l.Timeout)), of: 5, bad: 5,
		missing: missingIsGood, // no message
		tells:   lasting,
	}
}

// targetAlarms are of instances as their load balancer and their group see them. A load balancer says nothing of a
// target group without targets, which is so before the first are in use and after the last is gone: no metric of its
// tells a shard that begins from one that has ended. The group counts at any time, and has instances before these alarms
// are made, since a deployment waits for their word first. So a new shard rings neither, and one that has lost its last
// instance rings the second.
func targetAlarms(s shardPlan, w watched) []alarm {
	targets := []dimension{{"TargetGroup", *w.targets}, {"LoadBalancer", *w.balancer}}
	return []alarm{{
		kind: "no-targets",
		about: "No instance of shard " + s.id + " is healthy: what goes to it by HTTP fails. " +
			"Look at the shard's log " + s.names.LogGroup(serviceLog) + ", which has each instance's output, and at the Auto Scaling group's activities; a deployment that is at fault is taken back by deploying what was there before.",
		metrics: single("AWS/ApplicationELB", "HealthyHostCount", "Maximum", targets...),
		period:  minute, compare: below, threshold: 1, of: 3, bad: 2,
		missing: missingIsGood, // no targets: not in use yet, or no-instances' business
		after:   []awscdk.CfnResource{w.made},
	}, {
		kind: "no-instances",
		about: "Shard " + s.id + " has no instance at all: what goes to it by HTTP fails. " +
			"Look at the activities of the Auto Scaling group " + s.names.Group() + ", which say why none starts: no capacity in its zones, a quota, an image that is gone, or suspended processes.",
		metrics: single("AWS/AutoScaling", inService, "Maximum", dimension{"AutoScalingGroupName", s.names.Group()}),
		// The first minutes, in which instances are being launched, may be the latest that are known.
		period: minute, compare: below, threshold: 1, of: 3, bad: 3,
		missing: missingIsGood, // the group has just begun to count: it says 0 of none
		after:   []awscdk.CfnResource{w.made},
	}, {
		kind: "sick-targets",
		about: "An instance of shard " + s.id + " has been unhealthy for a quarter of an hour, in which its Auto Scaling group ought to have replaced it. " +
			"Look at the group's activities: it may have suspended processes, or find no capacity in a zone.",
		metrics: single("AWS/ApplicationELB", "UnHealthyHostCount", "Maximum", targets...),
		period:  minute, compare: atLeast, threshold: 1, of: sickMinutes, bad: sickMinutes,
		missing: missingIsGood, // no targets, which is no-instances' business
		tells:   lasting,       // a zone without capacity stays so for hours, and the other instances serve
	}}
}
