package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/routing/health"
	"cellwall.dev/cellwall/internal/routing/poison"
	"cellwall.dev/cellwall/internal/snapshot"
)

// startWait is how long an environment's start waits for the cell's snapshot. It serves without, too, as long
// as the directory and the secret store answer; Lambda gives its start 10 s.
const startWait = time.Second

// follow keeps the holder at the cell's snapshot, the trackers at what that says of the shards, and the watch at
// whom it suspects. It returns what to call when an invocation begins, and what waits for the first snapshot, which
// is being read meanwhile.
func follow(ctx context.Context, c clients, env routerenv.Environment, h *snapshot.Holder, trackers map[string]*health.Tracker, watch *poison.Watch, log *slog.Logger) (begin func(context.Context), settled func(), err error) {
	if env.Snapshots == "" {
		return func(context.Context) {}, func() {}, nil
	}
	settings, err := c.settings()
	if err != nil {
		return nil, nil, err
	}
	cell := names.ForFleet(env.Service).Cell(env.Cell).Generation(env.Generation)
	r, err := snapshot.NewRefresher(snapshot.RefreshConfig{
		Reader: snaps3.New(s3.NewFromConfig(settings, snaps3.ForRouters), env.Snapshots, names.SnapshotObject),
		Opener: kmsseal.ForRouter(kms.NewFromConfig(settings, kmsseal.Brief), kmsseal.Config{
			Key: cell.SnapshotKey(), MACKey: cell.SnapshotMAC(), Service: env.Service, Cell: env.Cell,
		}),
		Holder: h,
		Observe: func(s *snapshot.Snapshot, err error) {
			switch {
			case err != nil:
				age, held := h.Age(time.Now())
				log.Warn("no new snapshot", "err", err, "held", held, "ageSeconds", age.Seconds())
			case s != nil:
				learn(h, trackers, watch)
				log.Info("new snapshot", "generation", s.Generation, "tenants", s.Entries.Len(), "taken", s.Taken)
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	started := make(chan error, 1)
	go func() { started <- r.Start(ctx, startWait) }()
	return r.Beside, func() {
		if err := <-started; err != nil {
			log.Warn("the router starts without a snapshot", "err", err)
		}
	}, nil
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
