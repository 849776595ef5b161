package names

// Named is a derived name with the space in which it must be unique.
type Named struct {
	Space string // what bears the name, such as "table"
	Name  string
}

// All returns every name that the service's own resources bear.
func (f Fleet) All() []Named {
	return []Named{
		{"stack", f.Stack()},
		{"table", f.DirectoryTable()},
		{"stack", f.FrontDoorStack()},
		{"function", f.FrontDoor()},
		{"API", f.FrontDoorAPI()},
		{"function", f.FrontDoorKeeper()},
		{"rule", f.FrontDoorKeeperSchedule()},
		{"key alias", f.FrontDoorSnapshotKey()},
		{"key alias", f.FrontDoorSnapshotMAC()},
		{"log group", f.LogGroup("frontdoor")},
		{"log group", f.AccessLog()},
		{"log group", f.LogGroup("keeper")},
		{"stack", f.WatchStack()},
		{"alarm", f.Health()},
		{"alarm", f.Faults()},
		{"alarm", f.WorstCell()},
	}
}

// All returns every name that the cell's own resources bear, those of its shards not included.
func (c Cell) All() []Named {
	return []Named{
		{"stack", c.Stack()},
		{"function", c.Router()},
		{"role", c.RouterRole()},
		{"API", c.API()},
		{"table", c.Store()},
		{"secret", c.PlacementKey()},
		{"zone", c.Zone()},
		{"log group", c.LogGroup("router")},
		{"log group", c.AccessLog()},
		{"function", c.Keeper()},
		{"role", c.KeeperRole()},
		{"rule", c.KeeperSchedule()},
		{"log group", c.LogGroup("keeper")},
		{"key alias", c.SnapshotKey()},
		{"key alias", c.SnapshotMAC()},
		{"queue", c.Dispatch()},
		{"queue", c.DispatchDeadLetters()},
		{"stack", c.WatchStack()},
		{"alarm", c.Health()},
		{"alarm", c.Faults()},
		{"alarm", c.WorstShard()},
		{"dashboard", c.Dashboard()},
		{"insight rule", c.Tenants()},
		{"insight rule", c.FailingTenants()},
	}
}

// All returns every name that the shard's resources bear in a cell of that account and region, but for
// its target group's and its schedules', which follow from more than the shard (TargetGroup, Schedule).
func (s Shard) All(account, region string) []Named {
	return []Named{
		{"stack", s.Stack()},
		{"function", s.Worker()},
		{"queue", s.Queue()},
		{"queue", s.DeadLetters()},
		{"table", s.Table()},
		{"bucket", s.Bucket(account, region)},
		{"key alias", s.Key()},
		{"Auto Scaling group", s.Group()},
		{"load balancer", s.LoadBalancer()},
		{"host", s.Host()},
		{"log group", s.LogGroup("worker")},
		{"log group", s.LogGroup("service")},
		{"alarm", s.Health()},
	}
}
