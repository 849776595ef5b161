// Package following has a function's environment follow the snapshot that a keeper writes for it.
package following

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"cellwall.dev/cellwall/internal/adapter/kmsseal"
	"cellwall.dev/cellwall/internal/adapter/snaps3"
	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/snapshot"
)

// startWait is how long an environment's start waits for the snapshot. It serves without, too, as long as what it
// asks does answer; Lambda gives its start 10 s.
const startWait = time.Second

// Config says whose snapshot it is, and where it lies.
type Config struct {
	Settings func() (aws.Config, error)
	Bucket   string // "" where there is no snapshot
	Keys     kmsseal.Config
	Holder   *snapshot.Holder
	Learn    func() // is called with each new snapshot, once the holder has it; may be nil
	Log      *slog.Logger
}

// Start begins to read the snapshot. It returns what to call when an invocation begins, and what waits for the
// first snapshot, which is being read meanwhile.
func Start(ctx context.Context, c Config) (begin func(context.Context), settled func(), err error) {
	if c.Bucket == "" {
		return func(context.Context) {}, func() {}, nil
	}
	settings, err := c.Settings()
	if err != nil {
		return nil, nil, err
	}
	r, err := snapshot.NewRefresher(snapshot.RefreshConfig{
		Reader: snaps3.New(s3.NewFromConfig(settings, snaps3.ForRouters), c.Bucket, names.SnapshotObject),
		Opener: kmsseal.ForRouter(kms.NewFromConfig(settings, kmsseal.Brief), c.Keys),
		Holder: c.Holder,
		Observe: func(s *snapshot.Snapshot, err error) {
			switch {
			case err != nil:
				age, held := c.Holder.Age(time.Now())
				c.Log.Warn("no new snapshot", "err", err, "held", held, "ageSeconds", age.Seconds())
			case s != nil:
				if c.Learn != nil {
					c.Learn()
				}
				c.Log.Info("new snapshot", "generation", s.Generation, "tenants", s.Entries.Len(), "taken", s.Taken)
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
			c.Log.Warn("this environment starts without a snapshot", "err", err)
		}
	}, nil
}
