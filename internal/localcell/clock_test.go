package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// clockFor is a clock of a bubble, whose worker answers by the function.
func clockFor(t *testing.T, s SchedulePlan, offset time.Duration, answer func(r *http.Request) int) *clock {
	t.Helper()
	consumer, err := shardkit.NewConsumer(shardkit.Consumption{Log: slog.New(slog.DiscardHandler),
		Service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(answer(r)) })})
	if err != nil {
		t.Fatal(err)
	}
	return &clock{s, offset, "s01", consumer, func() bool { return true }, slog.New(slog.DiscardHandler)}
}

// TestClock: over two days of a bubble a schedule is due at its offset and then each so often, over midnight, too; what
// fails is done again twice, and a worker that is away is waited for until the next is due.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC() // a midnight
		var lock sync.Mutex       // of the three
		var asked []string
		status, ready := http.StatusNoContent, true
		set := func(to int, isReady bool) {
			lock.Lock()
			defer lock.Unlock()
			asked, status, ready = nil, to, isReady
		}
		k := clockFor(t, SchedulePlan{"sweep", 6 * time.Hour}, 100*time.Minute, func(r *http.Request) int {
			due, err := time.Parse(time.RFC3339, r.Header.Get(shardkit.HeaderDue))
			if err != nil {
				t.Error(err)
			}
			lock.Lock()
			defer lock.Unlock()
			asked = append(asked, fmt.Sprintf("%s of %s at %v, %v late", r.Header.Get(shardkit.HeaderTick), r.Header.Get(shardkit.HeaderShard), due.Sub(start), time.Since(due)))
			return status
		})
		k.ready = func() bool { lock.Lock(); defer lock.Unlock(); return ready }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { k.run(ctx); close(ended) }()

		time.Sleep(26 * time.Hour)
		synctest.Wait()
		want := []string{"sweep of s01 at 1h40m0s, 0s late", "sweep of s01 at 7h40m0s, 0s late", "sweep of s01 at 13h40m0s, 0s late", "sweep of s01 at 19h40m0s, 0s late", "sweep of s01 at 25h40m0s, 0s late"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("on a day (-want +got):\n%s", diff)
		}

		set(http.StatusServiceUnavailable, true)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		want = []string{"sweep of s01 at 31h40m0s, 0s late", "sweep of s01 at 31h40m0s, 1s late", "sweep of s01 at 31h40m0s, 3s late"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("of a worker that fails (-want +got):\n%s", diff)
		}

		set(http.StatusNoContent, false)
		time.Sleep(12*time.Hour + storePause/4) // between two looks
		set(http.StatusNoContent, true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"sweep of s01 at 43h40m0s, 20m0.2s late"}, asked); diff != "" {
			t.Errorf("of a worker that was away (-want +got):\n%s", diff)
		}
		cancel()
		<-ended
	})
}

// TestClocksOfACell: each shard has a clock for each schedule of the fleet, at the offset that it has on AWS.
func TestClocksOfACell(t *testing.T) {
	f, err := fleet.Load("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f.Shard.Schedules = []fleet.Schedule{{Name: "sweep", Every: 15 * time.Minute}, {Name: "report", Every: 24 * time.Hour}}
	p, err := NewPlan(f, "eu-canary", "/worker")
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{log: slog.New(slog.DiscardHandler)}
	var got, want []string
	for _, shard := range p.Shards() {
		for _, k := range s.clocks(&door{cell: &member{plan: p}, shard: shard}, &pump{}) {
			got = append(got, fmt.Sprint(k.shard, k.schedule.Name, k.schedule.Every, k.offset))
		}
		for _, schedule := range f.Shard.Schedules {
			want = append(want, fmt.Sprint(shard, schedule.Name, schedule.Every, schedule.Offset("eu-canary", shard)))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 8 {
		t.Errorf("clocks (-want +got):\n%s", diff)
	}
}

// TestATickReachesAWorker: through the shard's door and with its secret, and the sample says so in its log. A real
// clock would have the test wait for a minute.
func TestATickReachesAWorker(t *testing.T) {
	c := up(t)
	var settings routerSettings
	if err := c.dir.readJSON(fileRouter, &settings); err != nil {
		t.Fatal(err)
	}
	tick := func(secret string) error {
		consumer, err := shardkit.NewConsumer(shardkit.Consumption{Service: asked(func() string { return settings.Workers["s02"] }), Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		return consumer.Tick(t.Context(), shardkit.Tick{Name: "sweep", Shard: "s02", Every: 24 * time.Hour, Due: time.Now().UTC().Truncate(24 * time.Hour)})
	}
	if err := tick("a guess"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a tick without the secret: %v", err)
	}
	if err := tick(settings.WorkerSecret); err != nil {
		t.Error(err)
	}
	if log := c.dir.tail("s02"); strings.Count(log, "schedule is due") != 1 || !strings.Contains(log, "sweep") {
		t.Errorf("the worker's log is %s", log)
	}
	if status, _ := c.ask(c.token("acme"), "POST", shardkit.TickPath, ""); status != http.StatusNotFound {
		t.Errorf("a client's tick is answered %d", status)
	}
}
