package shardkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/lambda/shardkit"
)

func quietly(c shardkit.Consumption) shardkit.Consumption {
	c.Log = slog.New(slog.DiscardHandler)
	return c
}

func consumer(t testing.TB, c shardkit.Consumption) *shardkit.Consumer {
	t.Helper()
	consumer, err := shardkit.NewConsumer(c)
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}

func encoded(t testing.TB, j shardkit.Job) []byte {
	t.Helper()
	message, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// job is one for tenant acme on shard s01.
func job() shardkit.Job {
	return shardkit.Job{ID: "j1", Tenant: "acme", Epoch: 4, Shard: "s01", Message: shardkit.Message{Method: "POST", Path: "/jobs/1", Body: []byte("x")}}
}

// TestDo: what becomes of a job by its answer.
func TestDo(t *testing.T) {
	for answer, want := range map[int]string{
		200: "done", 201: "done", 204: "done", 299: "done", 0: "done",
		400: "refused", 404: "refused", 409: "refused", 413: "refused", 422: "refused", 499: "refused",
		408: "again", 425: "again", 429: "again", 500: "again", 502: "again", 503: "again", 304: "again", 301: "again", 421: "dispatched",
		-409: "again", // with Retry-After
	} {
		var log bytes.Buffer
		dispatched := 0
		c := consumer(t, shardkit.Consumption{
			Service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answer < 0 {
					w.Header().Set("Retry-After", "1")
				}
				if answer != 0 {
					w.WriteHeader(103)
					w.WriteHeader(max(answer, -answer))
				}
			}),
			Dispatch: func(context.Context, shardkit.Job) error { dispatched++; return nil },
			Log:      slog.New(slog.NewTextHandler(&log, nil)),
		})
		err := c.Do(t.Context(), encoded(t, job()))
		if (err != nil) != (want == "again") || (dispatched == 1) != (want == "dispatched") || strings.Contains(log.String(), "refused for good") != (want == "refused") {
			t.Errorf("%d: %v, dispatched %d times, logged %s; want %s", answer, err, dispatched, &log, want)
		}
	}
}

// TestAGuardsRefusalIsNotTheLastWord: a job is not lost because its consumer shows no secret, or does not say which
// shard is meant. The service's own refusal with the same status is final.
func TestAGuardsRefusalIsNotTheLastWord(t *testing.T) {
	for name, c := range map[string]struct {
		secret, shard string
		status        int // the service's own
		want          string
	}{
		"no secret":          {"", "s01", 200, "again"},
		"another secret":     {"old", "s01", 200, "again"},
		"no shard":           {"s", "", 200, "again"},
		"the service's 403":  {"s", "s01", 403, "refused"},
		"the service's 401":  {"s", "s01", 401, "refused"},
		"what is as it must": {"s", "s01", 200, "done"},
	} {
		h := guarded(t, shardkit.Config{Items: holding("acme"), Secret: "s"}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
		var log bytes.Buffer
		j := job()
		j.Shard = c.shard
		err := consumer(t, shardkit.Consumption{Service: h, Secret: c.secret, Log: slog.New(slog.NewTextHandler(&log, nil))}).Do(t.Context(), encoded(t, j))
		if (err != nil) != (c.want == "again") || strings.Contains(log.String(), "refused for good") != (c.want == "refused") {
			t.Errorf("%s: %v, logged %s; want %s", name, err, &log, c.want)
		}
	}
}

// TestTheLogNamesNoTenant unless it is told how.
func TestTheLogNamesNoTenant(t *testing.T) {
	refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	for want, logTenant := range map[string]func(string) string{
		"tenant=qivthlmhyfekbiqklot42xv4vj": nil,
		"tenant=ACME":                       strings.ToUpper,
	} {
		var log bytes.Buffer
		c := consumer(t, shardkit.Consumption{Service: refuses, Log: slog.New(slog.NewTextHandler(&log, nil)), LogTenant: logTenant})
		if err := c.Do(t.Context(), encoded(t, job())); err != nil || !strings.Contains(log.String(), want+" ") || strings.Contains(log.String(), "acme") {
			t.Errorf("%v; logged %s, want %s", err, &log, want)
		}
	}
}

func TestDoFails(t *testing.T) {
	asked := 0
	c := consumer(t, quietly(shardkit.Consumption{Service: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++; panic("secret") })}))
	if err := c.Do(t.Context(), encoded(t, job())); err == nil || asked != 1 {
		t.Errorf("a panic: %v", err)
	}
	if err := c.Do(t.Context(), []byte("{")); !errors.Is(err, shardkit.ErrJob) || asked != 1 {
		t.Errorf("no job: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(over, encoded(t, job())); !errors.Is(err, context.Canceled) || asked != 1 {
		t.Errorf("too late: %v", err)
	}
	if _, err := shardkit.NewConsumer(shardkit.Consumption{}); err == nil {
		t.Error("a consumer without a service")
	}
}

// TestSecret: a guard that wants one gets it from the consumer; see TestAGuardsRefusalIsNotTheLastWord for one that does
// not.
func TestSecret(t *testing.T) {
	h := guarded(t, shardkit.Config{Items: holding("acme"), Secret: "s"}, func(http.ResponseWriter, *http.Request) {})
	if err := consumer(t, quietly(shardkit.Consumption{Service: h, Secret: "s"})).Do(t.Context(), encoded(t, job())); err != nil {
		t.Error(err)
	}
}

// cell is a dispatch queue, and shards that take what the router would send them: any.
type cell struct {
	queue []shardkit.Job
	dead  []shardkit.Job
}

func (c *cell) dispatch(_ context.Context, j shardkit.Job) error {
	c.queue = append(c.queue, j)
	return nil
}

func (c *cell) bury(_ context.Context, j shardkit.Job) error {
	c.dead = append(c.dead, j)
	return nil
}

// TestBounded: a job whose tenant no shard holds is dispatched MaxDispatches times, and then dead, for a reason.
func TestBounded(t *testing.T) {
	var c cell
	nobody := guarded(t, shardkit.Config{Items: shardkit.NewMemory()}, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	here := consumer(t, quietly(shardkit.Consumption{Service: nobody, Dispatch: c.dispatch, DeadLetter: c.bury}))
	c.queue = []shardkit.Job{job()}
	deliveries := 0
	for ; len(c.queue) > 0 && deliveries < 100; deliveries++ {
		j := c.queue[0]
		c.queue = c.queue[1:]
		j.Shard = fmt.Sprintf("s%02d", deliveries) // as the router places it
		if err := here.Do(t.Context(), encoded(t, j)); err != nil {
			t.Fatal(err)
		}
		for _, j := range c.queue {
			if j.Shard != "" || j.ID != "j1" || j.Epoch != 4 || j.Dispatches != deliveries+1 {
				t.Errorf("dispatched %+v", j)
			}
		}
	}
	if deliveries != shardkit.MaxDispatches+1 || len(c.dead) != 1 || !strings.Contains(c.dead[0].Reason, "8 times") {
		t.Errorf("%d deliveries; dead %+v", deliveries, c.dead)
	}
	want := job()
	want.Shard, want.Dispatches, want.Reason = "s08", 8, c.dead[0].Reason
	if diff := cmp.Diff(want, c.dead[0]); diff != "" {
		t.Errorf("dead (-want +got):\n%s", diff)
	}
	encoded(t, c.dead[0])
}

// TestBoundedHops: jobs of which each sends the next are MaxHops, whoever asked for the first; the job that would send
// one more fails, again and again, and one that comes nevertheless is dead at once, for a reason.
func TestBoundedHops(t *testing.T) {
	var c cell
	done := 0
	onward := guarded(t, shardkit.Config{Items: holding("acme"), Dispatch: c.dispatch}, func(w http.ResponseWriter, r *http.Request) {
		tenant := shardkit.From(r.Context())
		if _, err := tenant.Send(r.Context(), "acme", shardkit.Message{Path: "/next"}); err != nil {
			if !errors.Is(err, shardkit.ErrHops) {
				t.Error(err)
			}
			shardkit.Fail(w, err)
			return
		}
		done++
		if err := tenant.Commit(r.Context(), w, ok); err != nil {
			t.Error(err)
		}
	})
	here := consumer(t, quietly(shardkit.Consumption{Service: onward, Dispatch: c.dispatch, DeadLetter: c.bury}))
	c.queue = []shardkit.Job{job()} // a client's
	var last shardkit.Job
	var err error
	for range 100 {
		if err != nil || len(c.queue) == 0 {
			break
		}
		last, c.queue = c.queue[0], c.queue[1:]
		last.Shard, last.Epoch = "s01", 4 // as the router places it
		err = here.Do(t.Context(), encoded(t, last))
	}
	if err == nil || !strings.Contains(err.Error(), "508") || len(c.queue) > 0 || len(c.dead) > 0 || done != shardkit.MaxHops || last.Hops != shardkit.MaxHops {
		t.Errorf("%d jobs were done, then %v; the last had %d hops", done, err, last.Hops)
	}

	last.Hops++
	if err := here.Do(t.Context(), encoded(t, last)); err != nil || done != shardkit.MaxHops || len(c.dead) != 1 || !strings.Contains(c.dead[0].Reason, "65 times") {
		t.Errorf("one too many: %v; %d done, dead %+v", err, done, c.dead)
	}
}

// TestGivenBack: where dispatch and dead letters are missing, or fail, the queue keeps the job.
func TestGivenBack(t *testing.T) {
	nobody := guarded(t, shardkit.Config{Items: shardkit.NewMemory()}, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	fails := func(context.Context, shardkit.Job) error { return errors.New("down") }
	spent := job()
	spent.Dispatches = shardkit.MaxDispatches
	for name, c := range map[string]struct {
		job shardkit.Job
		c   shardkit.Consumption
	}{
		"no dispatch": {job(), shardkit.Consumption{}}, "dispatch fails": {job(), shardkit.Consumption{Dispatch: fails}},
		"no dead letters": {spent, shardkit.Consumption{Dispatch: (&cell{}).dispatch}}, "dead letters fail": {spent, shardkit.Consumption{DeadLetter: fails}},
	} {
		c.c.Service = nobody
		if err := consumer(t, quietly(c.c)).Do(t.Context(), encoded(t, c.job)); err == nil || !strings.Contains(err.Error(), "j1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJobsTakeEffectOnce: however often a queue delivers a job, by whatever shards, and its sender sends it.
func TestJobsTakeEffectOnce(t *testing.T) {
	m := holding("acme")
	h, asked := counter(t, m)
	c := consumer(t, quietly(shardkit.Consumption{Service: h}))
	for range 3 {
		if err := c.Do(t.Context(), encoded(t, job())); err != nil {
			t.Fatal(err)
		}
	}
	again := job()
	again.ID, again.Key = "j2", `"a client's"`
	same := again
	same.ID = "j3"
	for _, j := range []shardkit.Job{again, same} {
		if err := c.Do(t.Context(), encoded(t, j)); err != nil {
			t.Fatal(err)
		}
	}
	if effects, err := m.List(t.Context(), "acme", "effect"); err != nil || len(effects) != 2 || *asked != 2 {
		t.Errorf("effects %q, %v", effects, err)
	}
}
