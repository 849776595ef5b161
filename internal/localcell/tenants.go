package localcell

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

//go:embed sample-tenants.csv
var sampleTenants []byte

// SampleTenants is the population that comes with cellwall: 200 tenants with long-tailed loads, as CSV
// with the header tenant,load.
func SampleTenants() io.Reader { return bytes.NewReader(sampleTenants) }

// enrol makes the directory know the cell, its topology, and those of the tenants that it does not know
// yet, and returns their number. Each step that was done before is found done.
func enrol(ctx context.Context, d *directory.Directory, t Topology, tenants []string, now time.Time) (added int, err error) {
	change := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "local up", At: now}
	}
	cell := directory.Cell{Name: t.Cell, Headroom: directory.DefaultHeadroom}
	if _, err := d.AddCell(ctx, cell, change("local up: add the cell")); err != nil && !errors.Is(err, directory.ErrCellExists) {
		return 0, err
	}
	published := directory.Topology{
		Cell: t.Cell, Version: t.Version, Scheme: placement.Scheme(t.Scheme), KBySize: t.KBySize, KeyVersion: t.KeyVersion,
	}
	for _, id := range t.Shards {
		published.Shards = append(published.Shards, directory.Shard{ID: id, Weight: 1, State: directory.InUse})
	}
	if _, err := d.Topology(ctx, t.Cell, t.Version); errors.Is(err, directory.ErrUnknownTopology) {
		_, err = d.Publish(ctx, published, change(fmt.Sprintf("local up: publish topology %d", t.Version)))
		if err != nil {
			return 0, err
		}
	} else if err != nil {
		return 0, err
	}
	entries := make([]directory.Entry, len(tenants))
	for i, id := range tenants {
		entries[i] = directory.Entry{Tenant: id, Cell: t.Cell, State: directory.Active, Topology: t.Version}
	}
	enrolled, err := d.Enrol(ctx, entries, change("local up, "+now.UTC().Format(time.RFC3339Nano)))
	return enrolled.Created, err
}
