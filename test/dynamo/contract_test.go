package dynamo

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"cellwall.dev/cellwall/internal/adapter/dynamodir"
	"cellwall.dev/cellwall/internal/adapter/dynamohold"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
)

var long = flag.Bool("long", false, "run the whole contract, as over every other home")

func TestContract(t *testing.T) {
	if !*long {
		t.Skip("the whole contract takes minutes on the emulator, and is held on every other home: run by -long, which make soak gives")
	}
	directorytest.Brief = false
	directorytest.Home(t, func(t *testing.T) directory.Home { return open(t, nil) })
}

func TestRolloutJournal(t *testing.T) {
	journaltest.Short(t, func(t *testing.T) directory.Home { return open(t, nil) })
}

// persistent has an SDK client repeat reads for as long as this package's lines are bad; writes are
// repeated by the directory itself.
func persistent(c *aws.Config) {
	c.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.RateLimiter = tries, ratelimit.None
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
		})
	}
}

// tries is so many that, of a thousand million requests over a line of which a third fail, none fails for
// good.
const tries = 20

func TestBadLine(t *testing.T) {
	directorytest.Brief = !*long
	l := newLine(t, bad)
	directorytest.BadLine(t, func(t *testing.T) directory.Home {
		return open(t, func(c *aws.Config) { l.config(c); persistent(c) }, dynamodir.WithAttempts(tries))
	})
	if l.dropped.Load() == 0 || l.lost.Load() == 0 || l.throttled.Load() == 0 || l.met.Load() == 0 {
		t.Error("the line was not bad")
	}
}

// places gives each shard a table of its own, or all of them one.
type places struct {
	t      *testing.T
	client dynamohold.Client
	shared string

	mu   sync.Mutex
	name map[string]string
}

func (p *places) find(cell, shard string) (dynamohold.Place, error) {
	if p.shared != "" {
		return dynamohold.Place{Client: p.client, Table: p.shared, Shared: cell + "." + shard}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := cell + "\x00" + shard
	if p.name[id] == "" {
		p.name[id] = newTable(p.t)
	}
	return dynamohold.Place{Client: p.client, Table: p.name[id]}, nil
}

func TestHolder(t *testing.T) {
	for kind, shared := range map[string]bool{"OwnTables": false, "SharedTable": true} {
		t.Run(kind, func(t *testing.T) {
			directorytest.Holder(t, func(t *testing.T) directory.Holder {
				p := &places{t: t, client: dynamodb.NewFromConfig(emulator.Config(t, account, region)), name: map[string]string{}}
				if shared {
					p.shared = newTable(t)
				}
				return dynamohold.New(p.find)
			})
		})
	}
}

// Holding and releasing may be repeated by the SDK as they are.
func TestHolderOnABadLine(t *testing.T) {
	l := newLine(t, faults{delay: 20, throttle: 10, lose: 10, drop: 20})
	config := emulator.Config(t, account, region)
	l.config(&config)
	persistent(&config)
	table := newTable(t)
	h := dynamohold.New(func(string, string) (dynamohold.Place, error) {
		return dynamohold.Place{Client: dynamodb.NewFromConfig(config), Table: table}, nil
	})
	for epoch := uint64(1); epoch <= 30; epoch++ {
		one := directory.Holding{Tenant: "acme", Epoch: epoch}
		if err := h.Hold(t.Context(), "eu-1", "s01", one); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || !ok || got != one {
			t.Fatalf("held %+v, %t, %v; want epoch %d", got, ok, err, epoch)
		}
		if epoch%3 > 0 {
			continue
		}
		if err := h.Release(t.Context(), "eu-1", "s01", one); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := h.Held(t.Context(), "eu-1", "s01", "acme"); err != nil || ok {
			t.Fatalf("held after release at %d: %t, %v", epoch, ok, err)
		}
	}
}

// Shards come to hold many tenants at once, while others raise single ones of them, and nobody falls back.
func TestHoldManyOnABadLine(t *testing.T) {
	l := newLine(t, bad)
	config := emulator.Config(t, account, region)
	l.config(&config)
	persistent(&config)
	p := &places{t: t, client: dynamodb.NewFromConfig(config), name: map[string]string{}}
	h := dynamohold.New(p.find)
	const n = 120
	var many []directory.Holding
	for i := range n {
		many = append(many, directory.Holding{Tenant: fmt.Sprintf("t%03d", i), Epoch: 2})
	}
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for _, shard := range []string{"s01", "s02"} {
		for range 2 { // an import that is begun twice
			wg.Go(func() { errs <- h.HoldMany(t.Context(), "eu-1", shard, many) })
		}
		for i := range 20 {
			wg.Go(func() {
				errs <- h.Hold(t.Context(), "eu-1", shard, directory.Holding{Tenant: many[5*i].Tenant, Epoch: 3})
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for _, shard := range []string{"s01", "s02"} {
		list, err := h.Holdings(t.Context(), "eu-1", shard, "", 2*n)
		if err != nil || len(list) != n {
			t.Fatalf("shard %s: %d are listed, %v", shard, len(list), err)
		}
		for i, one := range list {
			want := uint64(2)
			if i%5 == 0 && i < 100 {
				want = 3
			}
			if one != (directory.Holding{Tenant: many[i].Tenant, Epoch: want}) {
				t.Errorf("shard %s lists %+v, want %s at %d", shard, one, many[i].Tenant, want)
			}
		}
		for i := 0; i < n; i += 15 {
			if one, ok, err := h.Held(t.Context(), "eu-1", shard, many[i].Tenant); err != nil || !ok || one != list[i] {
				t.Errorf("shard %s holds %+v, %t, %v; listed is %+v", shard, one, ok, err, list[i])
			}
		}
	}
	if l.dropped.Load() == 0 || l.lost.Load() == 0 || l.throttled.Load() == 0 || l.met.Load() == 0 {
		t.Error("the line was not bad")
	}
}
