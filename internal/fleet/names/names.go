// Package names derives every physical name that cellwall uses on AWS: stacks, functions, aliases,
// queues, tables, load balancers, parameters, tags. Nothing else may put a name together, so that the
// router, the CDK app, the audit and the commands find the same resource without asking each other.
//
// Names are joined with hyphens, which the parts may contain too. The fleet's validation therefore
// refuses a fleet in which two derived names are equal.
package names

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// Tag keys that every resource of a fleet carries, as far as it belongs to the thing named.
const (
	TagService = "cellwall:service"
	TagCell    = "cellwall:cell"
	TagShard   = "cellwall:shard"
	// TagRole says what a shared resource is there for, where that is not plain from its type.
	TagRole = "cellwall:role"
)

// PartitionKey and SortKey are the attributes, both strings, that make up the key of every table.
const (
	PartitionKey = "pk"
	SortKey      = "sk"
)

// Expires is the attribute of a shard's items, a number of Unix seconds, after which DynamoDB deletes them.
const Expires = "expires"

// FirstIndex and SecondIndex are the two global secondary indexes of the directory's table, and
// FirstIndexKey and SecondIndexKey the attributes, both strings, that are their partition keys. Their
// sort key is PartitionKey.
const (
	FirstIndex     = "first"
	SecondIndex    = "second"
	FirstIndexKey  = "i1"
	SecondIndexKey = "i2"
)

// Alias is the alias through which every function is invoked, and EarAlias that through which a keeper hears from
// the router's log.
const (
	Alias    = "live"
	EarAlias = "ear"
)

// maxELB is the longest name of a load balancer or target group, in characters (Elastic Load
// Balancing API, CreateLoadBalancer and CreateTargetGroup).
const maxELB = 32

// maxBucket is the longest name of a bucket, in characters (Amazon S3, bucket naming rules).
const maxBucket = 63

// Fleet derives the names that a whole service shares.
type Fleet struct{ service string }

// ForFleet derives the names of one service.
func ForFleet(service string) Fleet { return Fleet{service} }

// Stack is the global stack, which holds the directory.
func (f Fleet) Stack() string { return f.service + "-global" }

// DirectoryTable is the tenant directory's table.
func (f Fleet) DirectoryTable() string { return f.service + "-directory" }

// FrontDoorStack is the stack of a region's front door.
func (f Fleet) FrontDoorStack() string { return f.service + "-global-frontdoor" }

// FrontDoor is the function that sends a tenant to its cell.
func (f Fleet) FrontDoor() string { return f.service + "-global-frontdoor" }

// FrontDoorRole is that function's role in a region. At most 64 characters, as IAM wants.
func (f Fleet) FrontDoorRole(region string) string {
	return f.service + "-global-frontdoor-role-" + region
}

// Global stands in the place of a cell's name in what is the whole fleet's. No cell may be called so, and thus
// these names meet no cell's.
const Global = "global"

// FrontDoorCell stands in the place of a cell's name in the metrics of front doors and of their keepers. No cell may
// be called so either.
const FrontDoorCell = "frontdoor"

// FrontDoorKeeper is the function that writes the front door's snapshot, and FrontDoorKeeperSchedule the rule of
// EventBridge that has it write.
func (f Fleet) FrontDoorKeeper() string         { return f.Cell(Global).Keeper() }
func (f Fleet) FrontDoorKeeperSchedule() string { return f.Cell(Global).KeeperSchedule() }

// FrontDoorKeeperRole is that function's role in a region. At most 64 characters, as IAM wants.
func (f Fleet) FrontDoorKeeperRole(region string) string {
	return f.Cell(Global).KeeperRole() + "-" + region
}

// FrontDoorSnapshotBucket is the bucket of a front door's snapshot; see Cell.SnapshotBucket.
func (f Fleet) FrontDoorSnapshotBucket(account, region string) string {
	return f.Cell(Global).SnapshotBucket(account, region)
}

// FrontDoorSnapshotKey and FrontDoorSnapshotMAC are the aliases of the KMS keys by which it is encrypted and
// signed.
func (f Fleet) FrontDoorSnapshotKey() string { return f.Cell(Global).SnapshotKey() }
func (f Fleet) FrontDoorSnapshotMAC() string { return f.Cell(Global).SnapshotMAC() }

// FrontDoorAPI is the front door's HTTP API.
func (f Fleet) FrontDoorAPI() string { return f.service + "-global-frontdoor" }

// AccessLog is the log group of the front door's HTTP API.
func (f Fleet) AccessLog() string { return vended + f.LogGroup("ingress") }

// WatchStack is the stack of the alarms on a replica of the directory's table, in its region.
func (f Fleet) WatchStack() string { return f.Cell(Global).WatchStack() }

// Alarm is one of the alarms of a front door or of the directory, by its kind. Alarms are their region's.
func (f Fleet) Alarm(kind string) string { return f.Cell(Global).Alarm(kind) }

// Health is the alarm over everything that a front door serves by, as Cell.Health; Faults that over its own faults.
func (f Fleet) Health() string { return f.Cell(Global).Health() }
func (f Fleet) Faults() string { return f.Cell(Global).Faults() }

// WorstCell is the alarm over the cells, as a front door sees them.
func (f Fleet) WorstCell() string { return f.Alarm("worst-cell") }

// CellAlarm is the alarm of one cell, as a front door sees it.
func (f Fleet) CellAlarm(cell string) string { return f.Alarm("cell-" + cell) }

// FrontDoorDashboard is a front door's dashboard. An account's dashboards are those of all regions, hence its own.
func (f Fleet) FrontDoorDashboard(region string) string {
	return f.service + "-global-frontdoor-" + region
}

// LogGroup is the log group of the service's own function fn.
func (f Fleet) LogGroup(fn string) string { return "/cellwall/" + f.service + "/global/" + fn }

// Cell derives the names of one cell.
type Cell struct {
	service, cell string
	generation    int
}

// Cell derives the names of one cell of the service, in generation 0.
func (f Fleet) Cell(cell string) Cell { return Cell{service: f.service, cell: cell} }

// Generation derives the names of the cell's generation n, 0 to 999. What keeps data stays when the cell's stacks
// go, and so does its name: it is another one in each generation. All other names are the same.
func (c Cell) Generation(n int) Cell {
	c.generation = n
	return c
}

// kept is the name of something that keeps data. The generation stands at its end, since what stands there
// otherwise is one of our own words, or a region: no cell or shard can be called so that two names become one.
func (c Cell) kept(name string) string {
	if c.generation == 0 {
		return name
	}
	return name + "-g" + strconv.Itoa(c.generation)
}

var generation = regexp.MustCompile(`-g[1-9][0-9]{0,2}$`)

// AnyGeneration is the name that something which keeps data has in generation 0, by its name in any other.
func AnyGeneration(name string) string { return generation.ReplaceAllString(name, "") }

func (c Cell) join(parts ...string) string {
	return c.service + "-" + c.cell + "-" + strings.Join(parts, "-")
}

// Stack is the cell's core stack.
func (c Cell) Stack() string { return c.join("core") }

// Router is the routing function.
func (c Cell) Router() string { return c.join("router") }

// RouterRole is the routing function's role. At most 64 characters, as IAM wants.
func (c Cell) RouterRole() string { return c.join("router-role") }

// RouterAlias is the routing function with its alias, as Invoke takes it.
func (c Cell) RouterAlias() string { return c.Router() + ":" + Alias }

// KeeperRole is the keeper's role. At most 64 characters, as IAM wants.
func (c Cell) KeeperRole() string { return c.join("keeper-role") }

// Keeper is the function that writes the cell's snapshot.
func (c Cell) Keeper() string { return c.join("keeper") }

// KeeperSchedule is the rule of EventBridge that has it write.
func (c Cell) KeeperSchedule() string { return c.join("keeper") }

// SnapshotBucket is the bucket of the cell's snapshot; bucket names are global, hence account and region.
// Its digit keeps it apart from the bucket of a shard, whose id begins with a letter.
func (c Cell) SnapshotBucket(account, region string) string {
	return Short(c.kept(c.join("0snap", account, region)), maxBucket)
}

// SnapshotPurpose is what the snapshot's encryption context says that it is for.
const SnapshotPurpose = "snapshot"

// SnapshotObject is the key of the snapshot in that bucket.
const SnapshotObject = "snapshot"

// SnapshotKey and SnapshotMAC are the aliases of the KMS keys by which the cell's snapshot is encrypted and
// signed.
func (c Cell) SnapshotKey() string { return "alias/" + c.kept(c.join("snapshot")) }
func (c Cell) SnapshotMAC() string { return "alias/" + c.kept(c.join("snapshot-mac")) }

// Dispatch is the queue of jobs that are to be placed again, and DispatchDeadLetters is what becomes of
// those for which no shard was found.
func (c Cell) Dispatch() string            { return c.kept(c.join("dispatch")) }
func (c Cell) DispatchDeadLetters() string { return c.kept(c.join("dispatch-dead")) }

// vended is what the names of log groups begin with that a service of AWS writes to by itself. CloudWatch Logs lets
// such services in by one policy for all of these; others add to a policy of the account's, which many cells would fill
// (Amazon CloudWatch Logs User Guide, "Enable logging from AWS services").
const vended = "/aws/vendedlogs"

// AccessLog is the log group of the cell's HTTP API.
func (c Cell) AccessLog() string { return vended + c.LogGroup("ingress") }

// API is the cell's HTTP API.
func (c Cell) API() string { return c.join("ingress") }

// Store is the table that the members of a subset share in state.mode: cell.
func (c Cell) Store() string { return c.kept(c.join("store")) }

// PlacementKey is the secret that holds the cell's placement keys as {version: hex64}.
func (c Cell) PlacementKey() string {
	return c.kept("cellwall/" + c.service + "/" + c.cell + "/placement-key")
}

// KeyVersion is the version of the cell's placement key with the number n, from 1: the generation is in it, so
// that a topology of one generation never finds a key of another under the version that it names.
func (c Cell) KeyVersion(n int) string {
	if c.generation == 0 {
		return strconv.Itoa(n)
	}
	return "g" + strconv.Itoa(c.generation) + "-" + strconv.Itoa(n)
}

var keyVersion = regexp.MustCompile(`^(?:g([1-9][0-9]{0,2})-)?([1-9][0-9]{0,8})$`)

// ParseKeyVersion is the generation and the number of a version that KeyVersion made; not ok for others, which
// people may have written.
func ParseKeyVersion(version string) (generation, n int, ok bool) {
	m := keyVersion.FindStringSubmatch(version)
	if m == nil {
		return 0, 0, false
	}
	generation, _ = strconv.Atoi(m[1]) // "" is 0
	n, _ = strconv.Atoi(m[2])
	return generation, n, true
}

// Param is the SSM parameter under the cell's own path.
func (c Cell) Param(path string) string {
	return "/cellwall/" + c.service + "/" + c.cell + "/" + path
}

// Zone is the cell's private DNS zone.
func (c Cell) Zone() string { return c.cell + "." + c.service + ".internal" }

// LogGroup is the log group of the cell's own function fn.
func (c Cell) LogGroup(fn string) string { return "/cellwall/" + c.service + "/" + c.cell + "/" + fn }

// WatchStack is the stack of the cell's own alarms and its dashboard. It is deployed last: an alarm over
// others must not name one that is not there.
func (c Cell) WatchStack() string { return c.join("watch") }

// alarmPrefix is what the names of a cell's alarms begin with. Alarms alone have slashes, which no part can
// contain, so that no two of them are alike.
func (c Cell) alarmPrefix() string { return c.service + "/" + c.cell + "/" }

// Alarm is one of the cell's own alarms, by its kind.
func (c Cell) Alarm(kind string) string { return c.alarmPrefix() + kind }

// Health is the alarm over everything that serves in the cell. Rollouts watch it, and beside it what Lasting names.
func (c Cell) Health() string { return c.Alarm("health") }

// Faults is the alarm over the cell's own faults, those of its shards not included.
func (c Cell) Faults() string { return c.Alarm("faults") }

// WorstShard is the alarm over the shards: it rings when any of them is not well.
func (c Cell) WorstShard() string { return c.Alarm("worst-shard") }

// Lasting are the cell's own alarms that may ring for long while everybody is served, so that Health is not over
// them. A rollout reads each by itself, against how it was before. One of what the cell has not is not there.
func (c Cell) Lasting() []string {
	return alarms(c.Alarm, "directory-age", "dispatch-dead-letters", "keeper-errors", "load-variation", "snapshot-age", "stale-health")
}

func alarms(name func(kind string) string, kinds ...string) []string {
	for i, kind := range kinds {
		kinds[i] = name(kind)
	}
	return kinds
}

// Dashboard is the cell's dashboard.
func (c Cell) Dashboard() string { return c.join("watch") }

// Tenants and FailingTenants are the rules of Contributor Insights that count the requests of each tenant, and
// those that failed.
func (c Cell) Tenants() string        { return c.join("tenants") }
func (c Cell) FailingTenants() string { return c.join("failing-tenants") }

// GroupLoadBalancer is the load balancer that several shards stand behind: "shared", or "g01" and on.
func (c Cell) GroupLoadBalancer(group string) string { return Short(c.join("lb", group), maxELB) }

// Shard derives the names of one shard.
type Shard struct {
	Cell
	shard string
}

// Shard derives the names of one shard of the cell.
func (c Cell) Shard(shard string) Shard { return Shard{c, shard} }

func (s Shard) join(parts ...string) string {
	return s.Cell.join(append([]string{s.shard}, parts...)...)
}

// Stack is the shard's stack.
func (s Shard) Stack() string { return s.Cell.join("shard", s.shard) }

// Worker is the Lambda slice.
func (s Shard) Worker() string { return s.join("worker") }

// WorkerAlias is the slice with its alias, as Invoke takes it.
func (s Shard) WorkerAlias() string { return s.Worker() + ":" + Alias }

// Queue and DeadLetters are the shard's queues.
func (s Shard) Queue() string       { return s.kept(s.join("work")) }
func (s Shard) DeadLetters() string { return s.kept(s.join("dead")) }

// Table is the shard's own table.
func (s Shard) Table() string { return s.kept(s.join("state")) }

// Bucket is the shard's own bucket; bucket names are global, hence account and region. It stays
// within S3's 63 characters while service, cell and shard stay within 33 together; a generation's may be shortened.
func (s Shard) Bucket(account, region string) string {
	return Short(s.kept(s.join(account, region)), maxBucket)
}

// Schedule is the rule of EventBridge that invokes the slice by a schedule of the fleet. At most 64 characters, as
// EventBridge wants.
func (s Shard) Schedule(schedule string) string { return s.join("tick", schedule) }

// Key is the alias of the shard's own KMS key.
func (s Shard) Key() string { return "alias/" + s.kept(s.join("key")) }

// Group is the Auto Scaling group.
func (s Shard) Group() string { return s.join("asg") }

// LoadBalancer is the shard's own load balancer.
func (s Shard) LoadBalancer() string { return Short(s.join("lb"), maxELB) }

// OwnBalancer stands for the shard's own load balancer where a group's name could stand.
const OwnBalancer = "own"

// TargetGroup is the shard's target group for a port, behind a balancer: OwnBalancer, or the name of a
// group. A target group keeps its port and its balancer for life, so another port or balancer means
// another target group, which stands beside the first until the change is through: hence another name.
func (s Shard) TargetGroup(port int, balancer string) string {
	return Short(s.join("tg", strconv.Itoa(port), balancer), maxELB)
}

// Alarm is one of the shard's alarms, by its kind.
func (s Shard) Alarm(kind string) string { return s.alarmPrefix() + s.shard + "/" + kind }

// Health is the alarm over everything that serves in the shard. Cell.Health is over it.
func (s Shard) Health() string { return s.Alarm("health") }

// Lasting are the shard's alarms that Health is not over, as Cell.Lasting.
func (s Shard) Lasting() []string {
	return alarms(s.Alarm, "dead-letters", "queue-age", "sick-targets")
}

// Host is the DNS name of the shard's load balancer in the cell's private zone.
func (s Shard) Host() string { return s.shard + "." + s.Zone() }

// LogGroup is the log group of the shard's own function fn, or of its instances' service.
func (s Shard) LogGroup(fn string) string { return s.Cell.LogGroup(s.shard + "/" + fn) }

// Short returns name when it has at most max characters; else its beginning and eight hexadecimal
// digits of its SHA-256, max characters in all. max must be at least 10.
func Short(name string, max int) string {
	if len(name) <= max {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:max-9], "-") + "-" + hex.EncodeToString(sum[:4])
}

// Tenant is the name used for a tenant where AWS allows less than its id may hold (message groups,
// tags, dimensions, key prefixes): lower-case base32 of SHA-256, 52 characters.
func Tenant(id string) string {
	sum := sha256.Sum256([]byte(id))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}
