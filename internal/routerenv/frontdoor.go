package routerenv

import "errors"

// FrontDoor is a front door function's configuration.
type FrontDoor struct {
	Service         string // CELLWALL_SERVICE
	Role            string // CELLWALL_ROLE: ARN of the role that the function runs as, which cells know it by
	Auth            Auth   // CELLWALL_AUTH: JSON, who verifies callers; frontDoors stays empty
	Directory       string // CELLWALL_DIRECTORY: name or ARN of the directory's table that is read
	DirectoryRegion string // CELLWALL_DIRECTORY_REGION: where that lies
	HomeRegion      string // CELLWALL_DIRECTORY_HOME_REGION: where the directory is written
	Home            string // CELLWALL_DIRECTORY_HOME: the table there, where the table that is read is a replica
	// Cells are where the cells are, as REGION/ACCOUNT, by cell. CELLWALL_CELLS: JSON.
	Cells       map[string]string
	Snapshots   string // CELLWALL_SNAPSHOT_BUCKET: bucket of the front door's snapshot, "" where there is none
	HashTenants bool   // CELLWALL_HASH_TENANTS: "1", or not set
}

// Replica says whether the table that is read is a replica of the one in the home region.
func (f FrontDoor) Replica() bool { return f.DirectoryRegion != f.HomeRegion }

// ParseFrontDoor reads a front door's environment as Parse reads a router's.
func ParseFrontDoor(getenv func(string) string) (FrontDoor, error) {
	p := parser{getenv: getenv}
	f := FrontDoor{
		Service:         p.text("CELLWALL_SERVICE"),
		Role:            p.text("CELLWALL_ROLE"),
		Directory:       p.text("CELLWALL_DIRECTORY"),
		DirectoryRegion: p.text("CELLWALL_DIRECTORY_REGION"),
		HomeRegion:      p.text("CELLWALL_DIRECTORY_HOME_REGION"),
		Home:            getenv("CELLWALL_DIRECTORY_HOME"),
		Snapshots:       getenv("CELLWALL_SNAPSHOT_BUCKET"),
		HashTenants:     p.flag("CELLWALL_HASH_TENANTS"),
	}
	if (f.Home != "") != f.Replica() {
		p.fault("CELLWALL_DIRECTORY_HOME", "is %q, and the table that is read is in %s: want the table in the home region %s where that is another, or nothing", f.Home, f.DirectoryRegion, f.HomeRegion)
	}
	p.checked("CELLWALL_AUTH", &f.Auth, wantAuth)
	p.json("CELLWALL_CELLS", &f.Cells, wantCells)
	if len(p.faults) > 0 {
		return FrontDoor{}, errors.Join(p.faults...)
	}
	return f, nil
}

const wantCells = `an object such as {"eu-1":"eu-west-1/111111111111"}`

// FrontDoorKeeper is the configuration of a keeper function that is a front door's.
type FrontDoorKeeper struct {
	Service         string            // CELLWALL_SERVICE
	Cells           map[string]string // CELLWALL_CELLS: as the front door has it; it is what tells from a cell's keeper
	Directory       string            // CELLWALL_DIRECTORY: name or ARN of the directory's table that is read
	DirectoryRegion string            // CELLWALL_DIRECTORY_REGION: where that lies
	Snapshots       string            // CELLWALL_SNAPSHOT_BUCKET: bucket of the front door's snapshot
	Issuer          string            // CELLWALL_ISSUER: address of the token issuer whose keys are kept; "" for none
}

// OfFrontDoor says whether a keeper's environment is that of a front door's.
func OfFrontDoor(getenv func(string) string) bool { return getenv("CELLWALL_CELLS") != "" }

// ParseFrontDoorKeeper reads such an environment as Parse reads a router's.
func ParseFrontDoorKeeper(getenv func(string) string) (FrontDoorKeeper, error) {
	p := parser{getenv: getenv}
	k := FrontDoorKeeper{
		Service:         p.text("CELLWALL_SERVICE"),
		Directory:       p.text("CELLWALL_DIRECTORY"),
		DirectoryRegion: p.text("CELLWALL_DIRECTORY_REGION"),
		Snapshots:       p.text("CELLWALL_SNAPSHOT_BUCKET"),
		Issuer:          getenv("CELLWALL_ISSUER"),
	}
	p.json("CELLWALL_CELLS", &k.Cells, wantCells)
	if len(p.faults) > 0 {
		return FrontDoorKeeper{}, errors.Join(p.faults...)
	}
	return k, nil
}
