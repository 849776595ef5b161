package localcell

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
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
// yet, after their shards hold them, and returns their number. Each step that was done before is found
// done. The key is the topology's. Nobody else may write meanwhile.
func enrol(ctx context.Context, d *directory.Directory, holder directory.ManyHolder, key []byte, t Topology, tenants []string, now time.Time) (added int, err error) {
	change := func(operation string) directory.Change {
		return directory.Change{Operation: operation, By: "local up", At: now}
	}
	cell := directory.Cell{Name: t.Cell, Headroom: directory.DefaultHeadroom}
	for _, zone := range t.Zones {
		if !slices.Contains(cell.Zones, zone) {
			cell.Zones = append(cell.Zones, zone)
		}
	}
	if _, err := d.AddCell(ctx, cell, change("local up: add the cell")); err != nil && !errors.Is(err, directory.ErrCellExists) {
		return 0, err
	}
	published := directory.Topology{
		Cell: t.Cell, Version: t.Version, Scheme: placement.Scheme(t.Scheme), KBySize: t.KBySize, KeyVersion: t.KeyVersion, MaxShared: t.MaxShared,
	}
	for _, s := range t.placed() {
		published.Shards = append(published.Shards, directory.Shard{ID: s.ID, Zone: s.Zone, Weight: s.Weight, State: directory.InUse})
	}
	placer, err := published.Placer(key)
	if err != nil {
		return 0, err
	}
	published.Slots = placer.Slots()
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
	if published.Slots > 0 {
		if err := giveSlots(ctx, d, published.Slots, entries); err != nil {
			return 0, err
		}
	}
	if err := holdNew(ctx, d, holder, key, t, entries); err != nil {
		return 0, err
	}
	enrolled, err := d.Enrol(ctx, entries, change("local up, "+now.UTC().Format(time.RFC3339Nano)))
	return enrolled.Created, err
}

// giveSlots gives entries the slots that their tenants have, and the others the lowest that nobody has. Slots that were given back lately are left to Enrol to refuse: a local cell gives none back.
func giveSlots(ctx context.Context, d *directory.Directory, slots uint64, entries []directory.Entry) error {
	had := map[string]uint64{}
	taken := map[uint64]bool{}
	for e, err := range directory.Pages(func(after string, limit int) ([]directory.Entry, error) { return d.List(ctx, after, limit) }) {
		if err != nil {
			return err
		}
		had[e.Tenant], taken[e.Slot] = e.Slot, true
	}
	next := uint64(1)
	for i := range entries {
		if slot := had[entries[i].Tenant]; slot > 0 {
			entries[i].Slot = slot
			continue
		}
		for taken[next] {
			next++
		}
		if next > slots {
			return &placement.FullError{Slot: next, Capacity: slots}
		}
		entries[i].Slot, taken[next] = next, true
	}
	return nil
}

// holdNew has the shards hold those of the tenants that the directory does not know yet. The others have
// entries of their own, by which they are held or not.
func holdNew(ctx context.Context, d *directory.Directory, holder directory.ManyHolder, key []byte, t Topology, entries []directory.Entry) error {
	residence := directory.NewResidence(d, holder, func(context.Context, string, string) ([]byte, error) { return key, nil })
	byShard := map[string][]directory.Holding{}
	for _, e := range entries {
		if _, err := d.Get(ctx, e.Tenant); err == nil {
			continue
		} else if !errors.Is(err, directory.ErrNotFound) {
			return err
		}
		subset, err := residence.Subset(ctx, e)
		if err != nil {
			return err
		}
		for _, shard := range subset {
			byShard[shard] = append(byShard[shard], directory.Holding{Tenant: e.Tenant, Epoch: 1})
		}
	}
	for _, shard := range t.Shards {
		if many := byShard[shard]; len(many) > 0 {
			if err := holder.HoldMany(ctx, t.Cell, shard, many); err != nil {
				return err
			}
		}
	}
	return nil
}
