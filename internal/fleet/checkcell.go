package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/fleet/names"
)

// ingressOf sees that what stands before the router can tell who asks.
func (c *checker) ingressOf() {
	r := c.f.Router
	// Lambda refuses more than the reservation, and with all of it has no room for what is not started yet: while a
	// version's environments start, its requests would be throttled (AWS Lambda developer guide, "Configuring
	// provisioned concurrency for a function").
	if c.known("router.provisionedConcurrency", "router.reservedConcurrency") && r.ProvisionedConcurrency > 0 && r.ProvisionedConcurrency >= r.ReservedConcurrency {
		c.wrong("router.provisionedConcurrency", fmt.Sprintf("router.provisionedConcurrency is %d", r.ProvisionedConcurrency),
			fmt.Sprintf("router.reservedConcurrency is %d, which bounds it, and must leave room for requests while a new version's environments start", r.ReservedConcurrency),
			"write less than that, or a larger router.reservedConcurrency")
	}
	if !c.known("router.ingress") {
		return
	}
	if source := c.f.Auth.Source; r.Ingress == IngressURL && c.known("auth.source") && c.set("auth") && source != AuthIAM && source != AuthVerify {
		c.wrong("router.ingress", "router.ingress is url", fmt.Sprintf("a Function URL has no authorizer for auth.source: %s", source), "write source: verify or iam, or ingress: api")
	}
	if r.Stream && r.Ingress != IngressURL {
		c.wrong("router.stream", "router.stream is true", "an HTTP API waits for the whole answer", "remove it, or write ingress: url")
	}
}

// schedules sees that each can be told by its name, and fires at the same minutes every day.
func (c *checker) schedules() {
	if !c.set("shard.schedules") {
		return
	}
	if c.set("shard") && !c.set("shard.lambda") {
		c.wrong("shard.schedules", "shard.schedules is set", "they invoke the Lambda slice, and shards have none", "add a lambda block, or remove them")
	}
	seen := map[string]pos{}
	for i, s := range c.f.Shard.Schedules {
		path := fmt.Sprintf("shard.schedules[%d]", i)
		if c.known(path + ".name") {
			c.once(seen, path+".name", s.Name, "no two schedules may have one name")
		}
		if !c.within(path+".every", s.Every, time.Minute, 24*time.Hour) {
			continue
		}
		if minutes, rest := s.Every/time.Minute, s.Every%time.Minute; rest != 0 || minutes < 60 && 60%minutes != 0 || minutes >= 60 && (minutes%60 != 0 || 24%(minutes/60) != 0) {
			c.wrong(path+".every", fmt.Sprintf("%s.every is %v", path, s.Every), "it must fire at the same minutes every day", "write minutes that divide an hour, such as 15m, or hours that divide a day, such as 6h")
		}
	}
}

// rules are the names that a shard's schedules have, each once: what is there twice is told of already.
func (c *checker) rules(shard names.Shard) []names.Named {
	var all []names.Named
	for i, s := range c.f.Shard.Schedules {
		n := names.Named{Space: "rule", Name: shard.Schedule(s.Name)}
		if c.known(fmt.Sprintf("shard.schedules[%d].name", i)) && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// egress sees that nobody's network gets ways out from here.
func (c *checker) egress(i int) {
	if path := cellPath(i, "egress"); c.set(path) && c.known(path) && c.set(cellPath(i, "vpc")) {
		c.wrong(path, path+" is set", "the ways out of an imported vpc are its owner's", "remove it")
	}
}

// alerts sees that every topic serves one region.
func (c *checker) alerts() {
	a := c.f.Alerts
	if a == nil || !c.known("alerts") {
		return
	}
	if c.known("alerts.topicArn", "alerts.topics") && a.TopicARN == "" && len(a.Topics) == 0 {
		c.wrong("alerts", "alerts has neither topicArn nor topics", "nobody would be told", "add topicArn, or remove alerts")
	}
	if c.known("alerts.topicArn") && a.TopicARN != "" {
		c.partition("alerts.topicArn", a.TopicARN)
	}
	for _, region := range slices.Sorted(maps.Keys(a.Topics)) {
		path := entry("alerts.topics", region)
		topic := a.Topics[region]
		switch {
		case !c.known(path):
		case topicRegion(topic) != region:
			c.wrong(path, fmt.Sprintf("%s is a topic of %s", path, topicRegion(topic)), "alarms tell topics of their own region alone", "write one of "+region)
		case topicRegion(a.TopicARN) == region && c.known("alerts.topicArn"):
			c.wrong(path, path+" is set", "topicArn is of that region already", "remove one of the two")
		default:
			c.partition(path, topic)
		}
	}
}

// partition sees that a topic's ARN is of the partition of its region: no alarm reaches into another one.
func (c *checker) partition(path, topic string) {
	_, rest, _ := strings.Cut(topic, ":")
	got, _, _ := strings.Cut(rest, ":")
	region := topicRegion(topic)
	if want := names.Partition(region); got != want {
		c.wrong(path, fmt.Sprintf("%s is of the partition %s", path, got), fmt.Sprintf("region %s is in %s, so that there is no such topic", region, want), "write arn:"+want+": at its beginning")
	}
}

// tags sees that nobody's tags stand in the way of others.
func (c *checker) tags() {
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(c.f.Deploy.Tags)) {
		low := strings.ToLower(key)
		switch path := entry("deploy.tags", key); {
		case !c.known(path):
		case strings.HasPrefix(low, "aws:") || strings.HasPrefix(low, "cellwall:"):
			c.wrong(path, fmt.Sprintf("deploy.tags has %s", key), "the prefix is reserved", "write another")
		case seen[low] != "":
			c.wrong(path, fmt.Sprintf("deploy.tags has %s beside %s", key, seen[low]), "to IAM, whose roles have them too, they are one key", "remove one of the two")
		}
		seen[low] = key
	}
	const most = 40 // of the 50 that AWS allows a resource; the rest are cellwall's and the services' own
	if n := len(c.f.Deploy.Tags); n > most && c.known("deploy.tags") {
		c.wrong("deploy.tags", fmt.Sprintf("deploy.tags has %d tags", n), fmt.Sprintf("a resource has 50 at most, and %d leave room for others", most), "write fewer")
	}
}
