package localcell

import (
	"bytes"
	_ "embed"
	"io"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

//go:embed sample-tenants.csv
var sampleTenants []byte

// SampleTenants is the population that comes with cellwall: 200 tenants with long-tailed loads, as CSV
// with the header tenant,load.
func SampleTenants() io.Reader { return bytes.NewReader(sampleTenants) }

// entries are the first directory entries of tenants that come to a cell.
func entries(tenants []string, cell string, topology uint64, now time.Time) []directory.Entry {
	all := make([]directory.Entry, len(tenants))
	for i, id := range tenants {
		all[i] = directory.Entry{
			Tenant: id, Cell: cell, State: directory.Active, Topology: topology,
			Updated: now.UTC(), Operation: "local up",
		}
	}
	return all
}
