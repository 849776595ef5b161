package routerenv

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Keeper is a keeper function's configuration.
type Keeper struct {
	Service         string // CELLWALL_SERVICE
	Cell            string // CELLWALL_CELL
	Generation      int    // CELLWALL_GENERATION: the cell's, 0 where it is not set
	KeySecret       string // CELLWALL_KEY_SECRET: name of the secret with the placement keys
	Directory       string // CELLWALL_DIRECTORY: name or ARN of the directory's table that the cell's routers read
	DirectoryRegion string // CELLWALL_DIRECTORY_REGION: where that lies
	Snapshots       string // CELLWALL_SNAPSHOT_BUCKET: bucket of the cell's snapshot
	Issuer          string // CELLWALL_ISSUER: address of the token issuer whose keys are kept; "" for none
	Slices          bool   // CELLWALL_SLICES: "1" where shards have a Lambda slice
	Queues          bool   // CELLWALL_QUEUES: "1" where shards have a queue
	// Home and HomeRegion are the directory's table in its home region, where the keeper notes suspects and pins
	// tenants to quarantine: CELLWALL_DIRECTORY_HOME and CELLWALL_DIRECTORY_HOME_REGION, which are the table that is
	// read where they are not set.
	Home, HomeRegion string
	Quarantine       []string // CELLWALL_QUARANTINE: ids of the quarantine's shards with spaces between; none
	// Holdings is where shards keep whom they hold: HoldingsTable in their own tables, HoldingsStore in the cell's
	// store, "" nowhere. CELLWALL_HOLDINGS.
	Holdings    string
	Stateful    bool // CELLWALL_STATEFUL: "1" with state.mode home
	HashTenants bool // CELLWALL_HASH_TENANTS: "1" where the router's log has tenants' hashes
	// Port is that of the shards' target groups, 0 where they have none, and Balancers are the load balancers
	// that they may stand behind, as names.Shard.TargetGroup takes them. CELLWALL_PORT, and CELLWALL_BALANCERS
	// with spaces between: "own", or "g01 g02".
	Port      int
	Balancers []string
}

// The values of Keeper.Holdings beside "".
const (
	HoldingsTable = "table"
	HoldingsStore = "store"
)

// ParseKeeper reads a keeper's environment as Parse reads a router's.
func ParseKeeper(getenv func(string) string) (Keeper, error) {
	p := parser{getenv: getenv}
	k := Keeper{
		Service:         p.text("CELLWALL_SERVICE"),
		Cell:            p.text("CELLWALL_CELL"),
		Generation:      p.generation(),
		KeySecret:       p.text("CELLWALL_KEY_SECRET"),
		Directory:       p.text("CELLWALL_DIRECTORY"),
		DirectoryRegion: p.text("CELLWALL_DIRECTORY_REGION"),
		Snapshots:       p.text("CELLWALL_SNAPSHOT_BUCKET"),
		Issuer:          getenv("CELLWALL_ISSUER"),
		Slices:          p.flag("CELLWALL_SLICES"),
		Queues:          p.flag("CELLWALL_QUEUES"),
		Balancers:       strings.Fields(getenv("CELLWALL_BALANCERS")),
		Home:            getenv("CELLWALL_DIRECTORY_HOME"),
		HomeRegion:      getenv("CELLWALL_DIRECTORY_HOME_REGION"),
		Quarantine:      strings.Fields(getenv("CELLWALL_QUARANTINE")),
		Holdings:        getenv("CELLWALL_HOLDINGS"),
		Stateful:        p.flag("CELLWALL_STATEFUL"),
		HashTenants:     p.flag("CELLWALL_HASH_TENANTS"),
	}
	if (k.Home != "") != (k.HomeRegion != "") {
		p.fault("CELLWALL_DIRECTORY_HOME", "goes with CELLWALL_DIRECTORY_HOME_REGION: set both, or neither")
	}
	if k.Home == "" {
		k.Home, k.HomeRegion = k.Directory, k.DirectoryRegion
	}
	if !slices.Contains([]string{"", HoldingsTable, HoldingsStore}, k.Holdings) {
		p.fault("CELLWALL_HOLDINGS", "is %q: want %s, %s or nothing", k.Holdings, HoldingsTable, HoldingsStore)
	}
	if port := getenv("CELLWALL_PORT"); port != "" {
		var err error
		if k.Port, err = strconv.Atoi(port); err != nil || k.Port < 1 || k.Port > 65_535 {
			p.fault("CELLWALL_PORT", "is %q: want the port of the shards' target groups, 1 to 65535, or nothing", port)
		}
	}
	if (k.Port > 0) != (len(k.Balancers) > 0) {
		p.fault("CELLWALL_BALANCERS", "goes with CELLWALL_PORT: set both, or neither")
	}
	if len(p.faults) > 0 {
		return Keeper{}, errors.Join(p.faults...)
	}
	return k, nil
}

// flag is a variable that is "1" or not set.
func (p *parser) flag(name string) bool {
	value := p.getenv(name)
	if !slices.Contains([]string{"", "1"}, value) {
		p.fault(name, "is %q: want 1, or nothing", value)
	}
	return value == "1"
}
