package stamp

import (
	"fmt"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// When a front door, or the directory, is not well.
const (
	// doorRequests is how many requests a minute must have brought, for one failure more than shardErrors among them to
	// count; of fewer, all must have failed. It is that of a shard, for the same reason.
	doorRequests = shardRequests
	// slowShare is the part of a front door's time-out, in percent, which a request that comes near it has taken.
	slowShare = 90
	// replicaLag is the age, in milliseconds, of what arrives at a replica that is old: it takes a second or two as a
	// rule (Amazon DynamoDB developer guide, "Monitoring global tables").
	replicaLag = 60_000
)

// newDoorAlarms are a front door's alarms, in its own stack: its function's, its API's and its keeper's, and one for
// each cell as the front door sees it, over which is the worst of them. A cell may be well and yet be out of reach.
func newDoorAlarms(st awscdk.Stack, f *fleet.Fleet, region string, apiID *string) {
	n, topics := f.Names(), topicsOf(f, region)
	own := newAlarms(st, n.Alarm, topics, doorAlarms(f, region, apiID)...)
	faults := newComposite(st, "Faults", composite{
		name: n.Faults(), topics: topics, children: own[together],
		about: "The front door of " + f.Service + " in " + region + " is not well, whatever the cells are: the alarms under " + n.Alarm("") + " say in what, and the dashboard " +
			n.FrontDoorDashboard(region) + " shows it. Tenants may be sent to another region's, or to their cells' own APIs.",
	})
	worst := newWorst(st, "WorstCell", "cells", composite{
		name: n.WorstCell(), children: newAlarms(st, n.Alarm, topics, seenCells(f, region)...)[alone],
		about: "A cell of " + f.Service + " does not answer the front door in " + region + " as it should, whatever the others do. It tells nobody: the alarm of that cell does.",
	}, n.Alarm, fmt.Sprintf("One of up to %d cells of %s does not answer the front door in %s. It tells nobody: the alarm of that cell does.", maxChildren, f.Service, region))
	newComposite(st, "Health", composite{
		name: n.Health(), children: append([]child{worst, faults}, own[alone]...),
		about: "Something that the front door of " + f.Service + " in " + region + " serves by is not well: a cell as it sees it, or what is its own. It tells nobody: those below it do.",
	})
	newDashboard(st, n.FrontDoorDashboard(region), doorBoard(f, region))
}

// doorAlarms are those of what is the front door's own.
func doorAlarms(f *fleet.Fleet, region string, apiID *string) []alarm {
	n := f.Names()
	api := func(name string) metric { return metric{"AWS/ApiGateway", name, "Sum", []dimension{{"ApiId", *apiID}}} }
	share, counted := failingShare(doorRequests, api("Count"), api("5xx"))
	all := []alarm{{
		kind: "errors",
		about: "The front door in " + region + " crashes or runs into its time-out. Every tenant who comes by it depends on it: " +
			"look at its log, and deploy its stack as it was before when this began with a deployment.",
		metrics: ofFunction(n.FrontDoor(), "Errors", "Sum"),
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}, {
		kind: "throttles",
		about: "The front door in " + region + " turns requests away: its reserved concurrency is used up. " +
			"Look whether a cell hangs (latency by cell), which holds the front door for as long as a request may take; else raise frontDoor.reservedConcurrency.",
		metrics: ofFunction(n.FrontDoor(), "Throttles", "Sum"),
		period:  minute, compare: atLeast, threshold: 1, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
	}, {
		// It tells by itself: a cell that hangs may do so for hours, and what else breaks would not be heard.
		kind: "out-of-time",
		about: fmt.Sprintf("Requests take the front door in %s more than %d %% of its %d s, after which they are cut off. "+
			"Look which cell is slow (the dashboard's slowest cells), and at that cell's alarms.", region, slowShare, routerTimeout),
		metrics: ofFunction(n.FrontDoor(), "Duration", "Maximum"),
		period:  minute, compare: above, threshold: routerTimeout * 1000 * slowShare / 100, of: 5, bad: 3,
		missing: missingIsGood, // nobody invoked it
		tells:   alone,
	}, {
		// So may a large cell fail.
		kind: "api-errors",
		about: fmt.Sprintf("More than %d %% of the requests to the front door's API in %s were answered by a 5xx, its own or a cell's. "+
			"Look at the alarms of the cells, and at those of the front door's function; where all are well, at the API's authorizer.", shardErrors, region),
		expression: share, metrics: counted,
		period: minute, compare: above, threshold: shardErrors, of: 10, bad: 3,
		missing: missingIsGood, // nobody asked it
		tells:   alone,
	}}
	return append(all, keeperAlarms(watchedKeeper{
		of: "the front door in " + region, whom: "environments", every: int(f.Keeper.Every.Seconds()), service: f.Service, cell: names.FrontDoorCell,
		function: n.FrontDoorKeeper(), schedule: n.FrontDoorKeeperSchedule(), directory: region,
	})...)
}

// seenCells are an alarm for each cell. What a front door's metrics call shards are cells.
func seenCells(f *fleet.Fleet, region string) []alarm {
	var all []alarm
	for _, c := range f.Cells {
		seen := func(name string) metric {
			return metric{metricNamespace, name, "Sum", []dimension{{"service", f.Service}, {"cell", names.FrontDoorCell}, {"shard", c.Name}}}
		}
		share, counted := failingShare(doorRequests, seen("Requests"), seen("Errors"))
		all = append(all, alarm{
			kind: "cell-" + c.Name,
			about: fmt.Sprintf("More than %d %% of the requests that the front door in %s sent to cell %s failed: no answer, a 5xx or a 421. "+
				"Look at the cell's own alarms under %s; where these are well, whether the front door's role may still invoke the cell's router.", shardErrors, region, c.Name, f.NamesOf(c).Alarm("")),
			expression: share, metrics: counted,
			period: minute, compare: above, threshold: shardErrors, of: 10, bad: 3,
			missing: missingIsGood, // nobody asked it
			tells:   alone,         // whoever mends one cell would not hear of another
		})
	}
	return all
}

// newDirectoryAlarms are those of the directory's table in a region. Cells and front doors serve on without it by what
// they know, so that nothing is over them.
func newDirectoryAlarms(st awscdk.Stack, f *fleet.Fleet, region string) {
	newAlarms(st, f.Names().Alarm, topicsOf(f, region), directoryAlarms(f, region)...)
}

func directoryAlarms(f *fleet.Fleet, region string) []alarm {
	all := []alarm{{
		kind: "directory-throttles",
		about: "The directory's table in " + region + " turns requests away, for five minutes on end: more is asked at once than a table on demand takes so fast, or than one partition does. " +
			"Sign-ups and moves fail or wait; tenants are served by what routers know. Look who asks so much: a migration, an import, or routers without a snapshot.",
		expression: ofDirectory(f, "ThrottledRequests"),
		period:     minute, compare: atLeast, threshold: 1, of: 5, bad: 5,
		missing: missingIsGood, // DynamoDB tells it when there are some
		tells:   lasting,
	}, {
		kind: "directory-errors",
		about: "DynamoDB fails at the directory's table in " + region + ", for five minutes on end. Tenants are served by what routers know; leave sign-ups and moves until it is over. " +
			"Look at AWS's health dashboard for the region.",
		expression: ofDirectory(f, "SystemErrors"),
		period:     minute, compare: atLeast, threshold: 1, of: 5, bad: 5,
		missing: missingIsGood, // DynamoDB tells it when there are some
		tells:   lasting,
	}}
	if region != f.Directory.Region { // replication is told where is written
		return all
	}
	for _, replica := range slices.Sorted(slices.Values(f.Directory.Replicas)) {
		all = append(all, alarm{
			kind: "replica-lag-" + replica,
			about: fmt.Sprintf("What is written to the directory arrives in %s after more than %d s. Routers and front doors there ask %s for whom they do not know; "+
				"a tenant who moved is sent the long way, by its old cell. Look at AWS's health dashboard for both regions.", replica, replicaLag/1000, region),
			metrics: single("AWS/DynamoDB", "ReplicationLatency", "Average", dimension{"TableName", f.Names().DirectoryTable()}, dimension{"ReceivingRegion", replica}),
			period:  minute, compare: above, threshold: replicaLag, of: 10, bad: 10,
			missing: missingIsGood, // nobody wrote anything
			tells:   lasting,
		})
	}
	return all
}

// ofDirectory sums a metric that DynamoDB tells by operation, and only when there is something to tell.
func ofDirectory(f *fleet.Fleet, name string) string {
	return fmt.Sprintf(`SELECT SUM(%s) FROM SCHEMA("AWS/DynamoDB", Operation, TableName) WHERE TableName = '%s'`, name, f.Names().DirectoryTable())
}
