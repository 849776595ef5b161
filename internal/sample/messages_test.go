package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// TestMessages: from one tenant's shard to another's, through the cell and never from shard to shard.
func TestMessages(t *testing.T) {
	var queue []shardkit.Job
	from := newService(t, Config{Dispatch: func(_ context.Context, j shardkit.Job) error { queue = append(queue, j); return nil }})
	for range 2 { // the answer to the first was lost
		w := request(from, "POST", "/messages/%C3%84rzte", "hello", shardkit.HeaderIdempotencyKey, `"m"`, "Content-Type", "text/plain")
		var answer struct{ Job string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 202 || answer.Job != queue[0].ID {
			t.Fatalf("answered %d %s, %v", w.Code, w.Body, err)
		}
	}
	items := holding("Ärzte")
	to := newService(t, Config{Items: items})
	consumer, err := shardkit.NewConsumer(shardkit.Consumption{Service: to, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range append(queue, queue...) {
		j.Epoch, j.Shard = 4, "s09" // as the router places it
		message, err := j.Encode()
		if err == nil {
			err = consumer.Do(t.Context(), message)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tenant := []string{routing.HeaderTenant, "%C3%84rzte"}
	want := `["` + queue[0].ID + `"]` + "\n"
	if w := request(to, "GET", "/inbox", "", tenant...); w.Body.String() != want {
		t.Errorf("the inbox has %s, want %s", w.Body, want)
	}
	var got letter
	w := request(to, "GET", "/inbox/"+queue[0].ID, "", tenant...)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.From != "acme" || string(got.Body) != "hello" {
		t.Errorf("the message is %s, %v", w.Body, err)
	}
}

func TestMessagesRefused(t *testing.T) {
	down := func(context.Context, shardkit.Job) error { return errors.New("secret") }
	for name, c := range map[string]struct {
		dispatch shardkit.Dispatch
		method   string
		path     string
		size     int
		headers  []string
		status   int
	}{
		"from a client":         {down, "POST", "/inbox", 1, nil, 403},
		"from a job of its own": {down, "POST", "/inbox", 1, []string{shardkit.HeaderJob, "j1"}, 403},
		"no dispatch queue":     {nil, "POST", "/messages/beta", 1, nil, 501},
		"queue is down":         {down, "POST", "/messages/beta", 1, nil, 503},
		"no tenant":             {down, "POST", "/messages/%FF", 1, nil, 400},
		"too large":             {down, "POST", "/messages/beta", maxMessage + 1, nil, 413},
		"too large to take":     {down, "POST", "/inbox", maxMessage + 1, []string{shardkit.HeaderJob, "j1", shardkit.HeaderFrom, "beta"}, 413},
		"largest":               {down, "POST", "/inbox", maxMessage, []string{shardkit.HeaderJob, "j1", shardkit.HeaderFrom, "beta"}, 204},
		"not there":             {down, "GET", "/inbox/j1", 0, nil, http.StatusNotFound},
	} {
		h := newService(t, Config{Dispatch: c.dispatch})
		if w := request(h, c.method, c.path, string(make([]byte, c.size)), c.headers...); w.Code != c.status {
			t.Errorf("%s: answered %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
}

// TestTick: a schedule's tick is said in the log, and a tenant's request is none.
func TestTick(t *testing.T) {
	var log bytes.Buffer
	h, err := New(Config{Items: holding("acme"), Shard: "s01", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", shardkit.TickPath, nil)
	for name, value := range map[string]string{shardkit.HeaderShard: "s01", shardkit.HeaderTick: "sweep", shardkit.HeaderEvery: "900", shardkit.HeaderDue: "2026-03-01T07:15:00Z"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 204 || !strings.Contains(log.String(), `msg="schedule is due" schedule=sweep shard=s01 due=2026-03-01T07:15:00.000Z`) {
		t.Errorf("answered %d, logged %s", w.Code, log.String())
	}
	if got := request(h, "POST", shardkit.TickPath, "", shardkit.HeaderTick, "sweep", shardkit.HeaderEvery, "900", shardkit.HeaderDue, "2026-03-01T07:15:00Z").Code; got != 404 {
		t.Errorf("a tenant's tick is answered %d", got)
	}
}
