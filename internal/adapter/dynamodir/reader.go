package dynamodir

import "cellwall.dev/cellwall/internal/directory"

// Tables are the directory as a router reads it: the table of its own region, and the one in the home region.
type Tables struct {
	Name, Region string // of the table that is read
	HomeRegion   string // where the directory is written
	Home         string // the table there, where the one that is read is a replica; "" where there is no way to it
}

// Reader returns the directory and, where the table that is read is a replica, that; nil otherwise. Nothing is read
// yet. Reading an entry or a topology is one GetItem. client makes a client of a region; its options are best those
// of ForRequests.
func (t Tables) Reader(client func(region string) Client) (*directory.Directory, *directory.Nearby) {
	local := New(client(t.Region), t.Name)
	if t.Region == t.HomeRegion {
		return directory.Later(local), nil
	}
	var home *Table
	if t.Home != "" {
		home = New(client(t.HomeRegion), t.Home)
	}
	d := directory.Later(NewReplica(home, local))
	nearby := d.Nearby()
	return d, &nearby
}
