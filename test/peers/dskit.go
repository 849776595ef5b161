package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/dskit/kv/consul"
	"github.com/grafana/dskit/ring"
	"github.com/grafana/dskit/services"
)

// ringTokens is the default of dskit's lifecycler and what its benchmarks take; spreadTokens is what its
// spread-minimizing generator is made for.
const (
	ringTokens   = 128
	spreadTokens = 512
	ringKey      = "ring"
)

// ringConfig is how a ring of dskit is set up.
type ringConfig struct {
	cached bool // keep subrings
	zoned  bool // zone awareness
	spread bool // tokens of the spread-minimizing generator instead of random ones
}

// ringOf builds dskit's ring as its own tests do, over its in-memory store. The size of a subset is to be a
// multiple of the number of zones, else the ring gives more than was asked for; so zone awareness is
// measured where k is the number of zones.
func ringOf(c ringConfig) func(shape, []string) (*subject, error) {
	return func(s shape, ids []string) (*subject, error) {
		if c.zoned && s.k%zones != 0 {
			return nil, errUnsuited
		}
		desc, err := instances(s.n, c.spread)
		if err != nil {
			return nil, err
		}
		r, stop, err := start(desc, c)
		if err != nil {
			return nil, fmt.Errorf("starting the ring: %w", err)
		}
		numbers := make(map[string]int, s.n)
		for i := range s.n {
			numbers[instanceName(i)] = i
		}
		return &subject{
			lookup: func(tenant int) { r.ShuffleShard(ids[tenant], s.k) },
			append: func(dst []int, tenant int) []int {
				set, err := r.ShuffleShard(ids[tenant], s.k).GetAllHealthy(ring.Read)
				if err != nil {
					panic(err)
				}
				for _, i := range set.Instances {
					dst = append(dst, numbers[i.Id])
				}
				return dst
			},
			close: stop,
		}, nil
	}
}

// instanceName ends in the instance's number within its zone, which the spread-minimizing generator reads.
func instanceName(shard int) string {
	return fmt.Sprintf("ingester-%s-%d", zoneName(zoneOf(shard)), shard/zones)
}

// instances are n active ones with tokens. The seed is fixed, so that a ring of one more keeps the others'.
func instances(n int, spread bool) (*ring.Desc, error) {
	all := make([]string, zones)
	for z := range all {
		all[z] = zoneName(z)
	}
	random := ring.NewRandomTokenGeneratorWithSeed(1)
	desc := ring.NewDesc()
	var taken []uint32
	for i := range n {
		zone := zoneName(zoneOf(i))
		var tokens ring.Tokens
		if spread {
			g, err := ring.NewSpreadMinimizingTokenGenerator(instanceName(i), zone, all, false)
			if err != nil {
				return nil, err
			}
			tokens = g.GenerateTokens(spreadTokens, nil)
		} else {
			tokens = random.GenerateTokens(ringTokens, taken)
			taken = append(taken, tokens...)
		}
		desc.AddIngester(instanceName(i), instanceName(i), zone, tokens, ring.ACTIVE, time.Now(), false, time.Time{}, nil)
	}
	return desc, nil
}

// start runs a ring over a store that holds the instances.
func start(desc *ring.Desc, c ringConfig) (*ring.Ring, func(), error) {
	ctx := context.Background()
	store, closer := consul.NewInMemoryClient(ring.GetCodec(), log.NewNopLogger(), nil)
	closeStore := func() { _ = closer.Close() } // of memory: it waits for a goroutine and has no error
	if err := store.CAS(ctx, ringKey, func(any) (any, bool, error) { return desc, false, nil }); err != nil {
		closeStore()
		return nil, nil, err
	}
	r, err := ring.NewWithStoreClientAndStrategy(ring.Config{
		HeartbeatTimeout:     time.Hour,
		ReplicationFactor:    1,
		ZoneAwarenessEnabled: c.zoned,
		SubringCacheDisabled: !c.cached,
	}, "peers", ringKey, store, ring.NewDefaultReplicationStrategy(), nil, log.NewNopLogger())
	if err != nil {
		closeStore()
		return nil, nil, err
	}
	if err := services.StartAndAwaitRunning(ctx, r); err != nil {
		closeStore()
		return nil, nil, err
	}
	if got, want := r.InstancesCount(), len(desc.Ingesters); got != want {
		closeStore()
		return nil, nil, errors.New("the ring has not all instances")
	}
	return r, func() {
		_ = services.StopAndAwaitTerminated(ctx, r) // nothing is lost with a ring in memory
		closeStore()
	}, nil
}
