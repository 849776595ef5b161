package main

import (
	"context"
	"log/slog"

	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
	"cellwall.dev/cellwall/lambda/internal/following"
)

// follow keeps the holder at the cell's snapshot, the trackers at what that says of the shards, and the watch at
// whom it suspects. It returns what following.Start does.
func follow(ctx context.Context, c clients, env routerenv.Environment, h *snapshot.Holder, trackers map[string]*health.Tracker, watch *poison.Watch, log *slog.Logger) (begin func(context.Context), settled func(), err error) {
	cell := names.ForFleet(env.Service).Cell(env.Cell).Generation(env.Generation)
	return following.Start(ctx, following.Config{
		Settings: c.settings, Bucket: env.Snapshots, Holder: h, Log: log,
		Keys:  kmsseal.Config{Key: cell.SnapshotKey(), MACKey: cell.SnapshotMAC(), Service: env.Service, Cell: env.Cell},
		Learn: func() { learn(h, trackers, watch) },
	})
}

// learn takes what the snapshot says of shards and suspects.
func learn(h *snapshot.Holder, trackers map[string]*health.Tracker, watch *poison.Watch) {
	if taken, reports, ok := h.Health(); ok {
		for _, t := range trackers {
			t.Report(taken, reports)
		}
	}
	for _, x := range h.Suspects() {
		watch.Hold(x.Tenant, x.Until)
	}
}
