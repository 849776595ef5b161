package stamp

import (
	"fmt"
	"slices"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// doorView is a front door's dashboard.
type doorView struct {
	view
	fleet *fleet.Fleet
	names names.Fleet
}

// doorBoard is the dashboard of a region's front door, in the order of a cell's. The shards of its metrics are cells.
func doorBoard(f *fleet.Fleet, region string) board {
	v := doorView{view{service: f.Service, cell: names.FrontDoorCell, account: f.Directory.Account, region: region}, f, f.Names()}
	v.worst("cell", "The maximum over the cells, never the mean: a small cell that serves nobody is lost in a mean.")
	v.health()
	v.knowledge()
	v.title("Availability by tenant", "A tenant's availability is the share of its requests that no 5xx answered. Names are hashes with router.hashTenants.")
	v.unlucky(v.names.LogGroup("frontdoor"))
	v.directory()
	v.own()
	return v.board()
}

func (v *doorView) health() {
	v.title("Health by cell", "As the front door sees it, which a cell that is out of reach does not see itself.")
	var cells, alone []string
	for _, a := range seenCells(v.fleet, v.region) {
		cells = append(cells, v.names.Alarm(a.kind))
	}
	api := "" // of no dashboard's concern
	for _, a := range slices.Concat(doorAlarms(v.fleet, v.region, &api), directoryAlarms(v.fleet, v.region)) {
		if a.tells != together {
			alone = append(alone, v.names.Alarm(a.kind))
		}
	}
	v.alarms("Front door", v.names.Health(), v.names.WorstCell(), v.names.Faults())
	v.alarms("Cells", cells...)
	v.alarms("What tells by itself", alone...)
	v.slowest("cells")
	v.graph(12, "Requests by cell (a minute)", "Sum", minute, expression("requests", "", v.shards("Requests", "Sum")))
}

func (v *doorView) knowledge() {
	v.title("Age of knowledge", "The front door serves by what it knows. Its age says since when somebody has been silent.")
	v.graph(12, "At the keeper (s)", "Maximum", minute, line(v.told("DirectoryAge", "Maximum"), "directory"), line(v.told("SnapshotAge", "Maximum"), "snapshot"))
	v.graph(12, "At the front door: oldest entry that was used (ms)", "Maximum", minute, line(v.told("KnowledgeAge", "Maximum"), "entry"))
}

func (v *doorView) directory() {
	v.title("The directory", "Its table in this region. Tenants are served without it by what is known.")
	table := []dimension{{"TableName", v.names.DirectoryTable()}}
	v.graph(8, "Capacity that was used (units a minute)", "Sum", minute,
		line(metric{"AWS/DynamoDB", "ConsumedReadCapacityUnits", "Sum", table}, "reads"), line(metric{"AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", table}, "writes"))
	v.graph(8, "Requests that were turned away, and that failed (a minute)", "Sum", minute,
		expression("throttled", "turned away", ofDirectory(v.fleet, "ThrottledRequests")), expression("failed", "failed", ofDirectory(v.fleet, "SystemErrors")))
	if v.region == v.fleet.Directory.Region && len(v.fleet.Directory.Replicas) > 0 {
		var lines [][]any
		for _, replica := range slices.Sorted(slices.Values(v.fleet.Directory.Replicas)) {
			lines = append(lines, line(metric{"AWS/DynamoDB", "ReplicationLatency", "Average", append(slices.Clone(table), dimension{"ReceivingRegion", replica})}, replica))
		}
		v.graph(8, "Until a write arrives (ms)", "Average", minute, lines...)
	}
}

func (v *doorView) own() {
	v.title("The front door's own", "Its function and its keeper.")
	door, keeper := v.names.FrontDoor(), v.names.FrontDoorKeeper()
	v.graph(8, "Front door (a minute)", "Sum", minute, line(v.function(door, "Invocations", "Sum"), "invocations"),
		line(v.function(door, "Errors", "Sum"), "errors"), line(v.function(door, "Throttles", "Sum"), "throttles"), line(v.told("Refused", "Sum"), "refused"))
	v.graph(4, fmt.Sprintf("Requests under way, of %d", v.fleet.FrontDoor.ReservedConcurrency), "Maximum", minute, line(v.function(door, "ConcurrentExecutions", "Maximum"), "under way"))
	v.graph(4, "Longest (ms)", "Maximum", minute, line(v.function(door, "Duration", "Maximum"), "longest"))
	v.graph(8, "Keeper", "Sum", minute, line(v.function(keeper, "Invocations", "Sum"), "runs"), line(v.function(keeper, "Errors", "Sum"), "errors"))
}
