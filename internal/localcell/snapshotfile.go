package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/issuerkeys"
	"cellwall.dev/cellwall/internal/adapter/snapfile"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/keeper"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/snapshot"
)

const (
	keepEvery    = 5 * time.Second // between two snapshots; on AWS a minute or more
	keepFresh    = 3 * keepEvery   // a keeper whose snapshot is not older is ready
	snapshotWait = 2 * time.Second // of a router that starts
)

// snapshotFiles are where a cell's snapshot lies, and the keys that seal it.
type snapshotFiles struct{ cell, file, keys string }

// snapshot names the files of a cell; of is what its processes were told, "" of the only one.
func (d Dir) snapshot(s routerSettings, of string) snapshotFiles {
	prefix := ""
	if of != "" {
		prefix = of + "."
	}
	return snapshotFiles{s.Plan.Cell, d.file(prefix + fileSnapshot), d.file(prefix + fileSnapshotKeys)}
}

// fresh says whether a keeper wrote a snapshot lately.
func (f snapshotFiles) fresh() error {
	info, err := os.Stat(f.file)
	if err != nil {
		return err
	}
	if age := time.Since(info.ModTime()); age > keepFresh {
		return fmt.Errorf("the snapshot is %v old", age.Round(time.Second))
	}
	return nil
}

// follow takes the cell's snapshot, and each new one until ctx ends. A router that finds none serves by what it
// asks for.
func (f *front) follow(ctx context.Context, files snapshotFiles, beside *sync.WaitGroup) error {
	return files.follow(ctx, f.snapshot, f.log, beside, func() {
		if taken, reports, ok := f.snapshot.Health(); ok {
			for _, tracker := range f.health {
				tracker.Report(taken, reports)
			}
			for _, x := range f.snapshot.Suspects() {
				f.watch.Hold(x.Tenant, x.Until)
			}
		}
	})
}

// follow keeps the holder at what is in the files until ctx ends. learn is called with each new snapshot.
func (files snapshotFiles) follow(ctx context.Context, to *snapshot.Holder, log *slog.Logger, beside *sync.WaitGroup, learn func()) error {
	keys, err := snapfile.MakeKeys(files.keys, files.cell)
	if err != nil {
		return err
	}
	refresher, err := snapshot.NewRefresher(snapshot.RefreshConfig{
		Reader: snapfile.New(files.file), Opener: keys, Holder: to, Every: keepEvery,
		Observe: func(s *snapshot.Snapshot, err error) {
			if s != nil {
				learn()
			}
			if snapshot.Refused(err) {
				log.Error("the snapshot is of no use", "err", err)
			}
		},
	})
	if err != nil {
		return err
	}
	if err := refresher.Start(ctx, snapshotWait); err != nil {
		log.Warn("no snapshot yet", "err", err)
	}
	beside.Go(func() { refresher.Run(ctx) })
	return nil
}

// keeperReach is what any keeper reads from and writes to.
type keeperReach struct {
	home   *httpdir.Client
	issuer *issuerkeys.Issuer
	store  snapfile.File
	seal   *snapfile.Keys
}

// reachOf opens it. The secret is the operator's: a keeper lists tenants, which routers and front doors may not.
func reachOf(home, secret, issuer string, files snapshotFiles) (r keeperReach, err error) {
	r.store = snapfile.New(files.file)
	if r.home, err = httpdir.NewClient(home, secret, nil); err != nil {
		return r, err
	}
	if r.issuer, err = issuerkeys.New(issuer); err != nil {
		return r, err
	}
	r.seal, err = snapfile.MakeKeys(files.keys, files.cell)
	return r, err
}

// RunKeeper is the keeper process of a cell, of the only one when that is "": it writes the cell's snapshot, and
// looks after tenants that take shards down, until ctx ends. Of snapshot.Fleet, it is the front door's.
func RunKeeper(ctx context.Context, d Dir, cell string) error {
	if cell == snapshot.Fleet {
		return runFrontKeeper(ctx, d)
	}
	file := fileRouter
	if cell != "" {
		file = cell + "." + fileRouter
	}
	var s routerSettings
	if err := d.readJSON(file, &s); err != nil {
		return fmt.Errorf("the keeper's settings: %w", err)
	}
	reach, err := reachOf(s.Directory, s.AdminSecret, s.Issuer, d.snapshot(s, cell))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	watch, err := d.newLookout(s, reach.home, log)
	if err != nil {
		return err
	}
	k, err := keeper.New(keeper.Config{
		Cell: s.Plan.Cell, Store: reach.store, Keyring: reach.seal, Directory: directory.Later(reach.home),
		Keys:   func(_ context.Context, cell, version string) ([]byte, error) { return d.Key(cell, version) },
		Issuer: reach.issuer, Queues: queueAges{jobqueue.NewClient(s.Store, s.AdminSecret), s.Plan.Cell},
		Suspects: watch.quarantine,
	})
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { watch.run(ctx) })
	k.Run(ctx, keepEvery, logged(log))
	return nil
}

// logged tells of runs in which something was amiss.
func logged(log *slog.Logger) func(keeper.Outcome, error) {
	return func(o keeper.Outcome, err error) {
		switch {
		case err != nil:
			log.Error("no snapshot was written", "err", err)
		case o.Err() != nil:
			log.Warn("a source is down; its part of the snapshot stays as it was", "err", o.Err())
		}
	}
}

// queueAges are how long the oldest jobs of the cell's shards have waited.
type queueAges struct {
	queues *jobqueue.Client
	cell   string
}

// QueueAges implements keeper.Queues.
func (q queueAges) QueueAges(ctx context.Context, shards []string) (map[string]time.Duration, error) {
	ages := map[string]time.Duration{}
	for _, shard := range shards {
		stats, err := q.queues.Stats(ctx, shardQueue(q.cell, shard))
		if err != nil {
			return nil, err
		}
		ages[shard] = stats.Oldest
	}
	return ages, nil
}
