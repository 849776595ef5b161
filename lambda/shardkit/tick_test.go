package shardkit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// event is what a schedule invokes a function with.
func event(every, offset time.Duration, at time.Time) []byte {
	return fmt.Appendf(nil, `{"tick":{"name":"sweep","shard":"s01","every":%d,"offset":%d,"time":%q}}`, every/time.Second, offset/time.Second, at.UTC().Format(time.RFC3339))
}

// TestTicked: however late within its time a tick comes, and however often, it is the same one, and so are its jobs.
func TestTicked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}).Draw(t, "every")
		offset := time.Duration(rapid.Int64Range(0, int64(every/time.Minute)-1).Draw(t, "offset")) * time.Minute
		midnight := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 3).Draw(t, "day"))
		due := midnight.Add(offset + every*time.Duration(rapid.Int64Range(0, int64(24*time.Hour/every)-1).Draw(t, "n")))
		var first string
		for range 3 {
			late := time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "late"))
			tick, ok, err := shardkit.ParseTick(event(every, offset, due.Add(late)))
			if !ok || err != nil || !tick.Due.Equal(due) || tick.Every != every || tick.Name != "sweep" || tick.Shard != "s01" {
				t.Fatalf("%v late: %+v, %t, %v; due %v", late, tick, ok, err, due)
			}
			job := sentBy(t, tick, "acme", shardkit.Message{Path: "/jobs/1", Body: []byte("x")})
			if first == "" {
				first = job
			}
			if job != first {
				t.Fatalf("job %s, and %s when it comes again", first, job)
			}
		}
		next, _, _ := shardkit.ParseTick(event(every, offset, due.Add(every)))
		other, _, _ := shardkit.ParseTick(event(every, offset, due))
		for name, job := range map[string]string{
			"next tick": sentBy(t, next, "acme", shardkit.Message{Path: "/jobs/1", Body: []byte("x")}),
			"tenant":    sentBy(t, other, "beta", shardkit.Message{Path: "/jobs/1", Body: []byte("x")}),
			"body":      sentBy(t, other, "acme", shardkit.Message{Path: "/jobs/1", Body: []byte("y")}),
			"path":      sentBy(t, other, "acme", shardkit.Message{Path: "/jobs/2", Body: []byte("x")}),
		} {
			if job == first {
				t.Fatalf("another %s, and the same job", name)
			}
		}
	})
}

// sentBy is the id of the job that a tick sends, as a service does that was asked to do it.
func sentBy(t fataler, tick shardkit.Tick, to string, m shardkit.Message) string {
	var jobs []shardkit.Job
	guard, err := shardkit.NewGuard(shardkit.Config{Items: holding(), Shard: "s01", Dispatch: func(_ context.Context, j shardkit.Job) error {
		jobs = append(jobs, j)
		return nil
	}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	var id string
	service := guard.Ticks(func(ctx context.Context, got shardkit.Tick) error {
		if got.Name != tick.Name || got.Shard != tick.Shard || got.Every != tick.Every || !got.Due.Equal(tick.Due) {
			t.Fatalf("asked to do %+v, want %+v", got, tick)
		}
		id, err = got.Send(ctx, to, m)
		return err
	})
	w := httptest.NewRecorder()
	if service.ServeHTTP(w, tickRequest(tick)); w.Code != http.StatusNoContent || len(jobs) != 1 || jobs[0].ID != id || jobs[0].From != "" || jobs[0].Method != "POST" {
		t.Fatalf("answered %d, sent %+v", w.Code, jobs)
	}
	return id
}

func tickRequest(t shardkit.Tick, pairs ...string) *http.Request {
	r := httptest.NewRequest("POST", shardkit.TickPath, nil)
	r.Header.Set(shardkit.HeaderTick, t.Name)
	r.Header.Set(shardkit.HeaderShard, t.Shard)
	r.Header.Set(shardkit.HeaderEvery, fmt.Sprint(int(t.Every.Seconds())))
	r.Header.Set(shardkit.HeaderDue, t.Due.UTC().Format(time.RFC3339))
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			r.Header.Del(pairs[i])
		} else {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
	return r
}

var hourly = shardkit.Tick{Name: "sweep", Shard: "s01", Every: time.Hour, Due: time.Date(2026, 3, 1, 7, 20, 0, 0, time.UTC)}

// TestTicksAreRefused: what a consumer would not ask is not done.
func TestTicksAreRefused(t *testing.T) {
	guard, err := shardkit.NewGuard(shardkit.Config{Items: holding("acme"), Shard: "s01", Secret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	service := guard.Ticks(func(context.Context, shardkit.Tick) error { done++; return nil })
	ask := func(pairs ...string) int {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, tickRequest(hourly, pairs...))
		return w.Code
	}
	if got := ask(shardkit.HeaderSecret, "secret"); got != 204 || done != 1 {
		t.Fatalf("answered %d, done %d times", got, done)
	}
	for _, c := range []struct {
		name, value string
		add         bool
		want        int
	}{
		{shardkit.HeaderSecret, "", false, 403},
		{shardkit.HeaderSecret, "guess", false, 403},
		{shardkit.HeaderTenant, "acme", true, 404},
		{shardkit.HeaderShard, "s02", false, 421},
		{shardkit.HeaderShard, "", false, 401},
		{shardkit.HeaderShard, "s02", true, 401},
		{shardkit.HeaderTick, "", false, 401},
		{shardkit.HeaderTick, "Sweep", false, 401},
		{shardkit.HeaderTick, "a-name-too-long-for-it", false, 401},
		{shardkit.HeaderEvery, "90", false, 401},
		{shardkit.HeaderEvery, "0", false, 401},
		{shardkit.HeaderEvery, "-60", false, 401},
		{shardkit.HeaderEvery, "25200", false, 401}, // 7 h
		{shardkit.HeaderEvery, "172800", false, 401},
		{shardkit.HeaderDue, "2026-03-01T07:20:01Z", false, 401},
		{shardkit.HeaderDue, "2026-03-01T08:20:00+01:00", false, 401},
		{shardkit.HeaderDue, "yesterday", false, 401},
		{shardkit.HeaderDeadline, "1000", false, 504},
		{shardkit.HeaderDeadline, "soon", false, 400},
	} {
		pairs := []string{shardkit.HeaderSecret, "secret", c.name, c.value}
		if !c.add {
			pairs = []string{shardkit.HeaderSecret, "secret", c.name, "", c.name, c.value}
		}
		if got := ask(pairs...); got != c.want {
			t.Errorf("%s %q: answered %d, want %d", c.name, c.value, got, c.want)
		}
	}
	if done != 1 {
		t.Errorf("done %d times", done)
	}
}

// TestParseTick: other events are none, and a tick that no schedule sends is an error.
func TestParseTick(t *testing.T) {
	for _, other := range []string{``, `null`, `{}`, `[]`, `{"tick":null}`, `{"Records":[]}`, `{"version":"2.0","rawPath":"/"}`,
		`{"tick":{"name":"` + strings.Repeat("x", 2000) + `"}}`} {
		if tick, ok, err := shardkit.ParseTick([]byte(other)); ok || err != nil {
			t.Errorf("%.40s is %+v, %v", other, tick, err)
		}
	}
	good := string(event(time.Hour, 20*time.Minute, hourly.Due))
	if tick, ok, err := shardkit.ParseTick([]byte(good)); !ok || err != nil || tick.Due != hourly.Due {
		t.Fatalf("%+v, %t, %v", tick, ok, err)
	}
	for was, is := range map[string]string{
		`"every":3600`: `"every":0`, `3600,"offset":1200`: `3600,"offset":3600`, `"offset":1200`: `"offset":-60`, `:1200`: `:1201`, `"sweep"`: `""`, `"s01"`: `""`,
		`:3600,`: `:4200,`, `2026-03-01T07`: `0001-01-01T07`, `"2026-03-01T07:20:00Z"`: `"soon"`, `"name":"sweep"`: `"name":1`,
	} {
		bad := strings.Replace(good, was, is, 1)
		if tick, ok, err := shardkit.ParseTick([]byte(bad)); bad == good || !ok || !errors.Is(err, shardkit.ErrTick) {
			t.Errorf("%s is %+v, %t, %v", bad, tick, ok, err)
		}
	}
}

// TestConsumerTicks: an answer of the 200s is a tick done; after any other, a panic and an error it comes again. One
// that the next has overtaken is not done.
func TestConsumerTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC() // a midnight
		tick := shardkit.Tick{Name: "sweep", Shard: "s01", Every: time.Hour, Due: now}
		fail, done := errors.New("no"), 0
		guard, err := shardkit.NewGuard(shardkit.Config{Items: holding(), Shard: "s01", Secret: "secret", Log: quietly(shardkit.Consumption{}).Log})
		if err != nil {
			t.Fatal(err)
		}
		do := func(context.Context, shardkit.Tick) error { done++; return fail }
		mux := http.NewServeMux()
		mux.Handle("POST "+shardkit.TickPath, guard.Ticks(func(ctx context.Context, t shardkit.Tick) error { return do(ctx, t) }))
		c := consumer(t, quietly(shardkit.Consumption{Service: mux, Secret: "secret"}))
		limit, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		if err := c.Tick(limit, tick); err == nil || done != 1 {
			t.Errorf("a failure: %v, done %d times", err, done)
		}
		fail = nil
		if err := c.Tick(limit, tick); err != nil || done != 2 {
			t.Errorf("%v, done %d times", err, done)
		}
		do = func(context.Context, shardkit.Tick) error { panic("at the disco") }
		if err := c.Tick(limit, tick); err == nil {
			t.Error("a panic is a tick done")
		}
		do = func(ctx context.Context, _ shardkit.Tick) error { <-ctx.Done(); return ctx.Err() }
		if err := c.Tick(limit, tick); err == nil || time.Since(now) != 30*time.Minute {
			t.Errorf("after its time: %v, %v later", err, time.Since(now))
		}
		do = func(context.Context, shardkit.Tick) error { t.Error("done, though the next is due"); return nil }
		time.Sleep(30 * time.Minute)
		if err := c.Tick(t.Context(), tick); err != nil {
			t.Error(err)
		}
		if err := c.Tick(t.Context(), shardkit.Tick{Name: "sweep", Shard: "s01", Every: time.Second, Due: now}); !errors.Is(err, shardkit.ErrTick) {
			t.Errorf("each second: %v", err)
		}
		tick.Due = now.Add(time.Hour)
		none := consumer(t, quietly(shardkit.Consumption{Service: http.NewServeMux()}))
		if err := none.Tick(t.Context(), tick); err == nil || !strings.Contains(err.Error(), "it has no handler") {
			t.Errorf("a service without ticks: %v", err)
		}
	})
}

// TestTickWithoutDispatch: nothing is lost silently.
func TestTickWithoutDispatch(t *testing.T) {
	if _, err := hourly.Send(t.Context(), "acme", shardkit.Message{Path: "/x"}); !errors.Is(err, shardkit.ErrNoDispatch) {
		t.Errorf("sent to nowhere: %v", err)
	}
	if _, err := hourly.Send(t.Context(), "acme", shardkit.Message{Path: "x"}); !errors.Is(err, shardkit.ErrJob) {
		t.Errorf("sent what is no message: %v", err)
	}
}
