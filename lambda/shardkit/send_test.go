package shardkit_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit"
)

// sender is a service that sends the messages in each request.
func sender(t testing.TB, c *cell, messages ...shardkit.Message) http.Handler {
	return guarded(t, shardkit.Config{Items: holding("acme", "beta"), Dispatch: c.dispatch}, func(w http.ResponseWriter, r *http.Request) {
		for i, m := range messages {
			id, err := shardkit.From(r.Context()).Send(r.Context(), "Ärzte", m)
			if err != nil || id == "" || id != c.queue[len(c.queue)-1].ID {
				t.Errorf("message %d: %q, %v", i, id, err)
			}
		}
		if err := shardkit.From(r.Context()).Commit(r.Context(), w, ok); err != nil {
			t.Error(err)
		}
	})
}

// TestSend: what a shard sends says for whom, to whom, and in the course of what.
func TestSend(t *testing.T) {
	var c cell
	h := sender(t, &c, shardkit.Message{Path: "/inbox", Query: "a=b", ContentType: "text/plain", Body: []byte("hello")}, shardkit.Message{Method: "PUT", Path: "/x", Key: "k"})
	r := sent("X-Request-Id", "r1", "Traceparent", "tp", "Tracestate", "ts")
	if got := status(h, r); got != 200 || len(c.queue) != 2 {
		t.Fatalf("answered %d, sent %+v", got, c.queue)
	}
	for i, m := range []shardkit.Message{
		{Method: "POST", Path: "/inbox", Query: "a=b", ContentType: "text/plain", Body: []byte("hello")}, {Method: "PUT", Path: "/x", Key: "k"},
	} {
		want := shardkit.Job{ID: c.queue[i].ID, Tenant: "Ärzte", From: "acme", Hops: 1, RequestID: "r1", TraceParent: "tp", TraceState: "ts", Message: m}
		if diff := cmp.Diff(want, c.queue[i]); diff != "" {
			t.Errorf("job %d (-want +got):\n%s", i, diff)
		}
	}
	// What does not go into a job does not keep it from going.
	odd := sent("X-Request-Id", "ä", "Traceparent", strings.Repeat("x", 1025))
	odd.Header["Tracestate"] = []string{"a", "b"}
	if got := status(h, odd); got != 200 || c.queue[2].RequestID+c.queue[2].TraceParent+c.queue[2].TraceState != "" {
		t.Errorf("answered %d, sent %+v", got, c.queue[2:])
	}
}

// TestSentOnce: what a repeated request sends again are the same jobs, and only those.
func TestSentOnce(t *testing.T) {
	ids := func(repeat *http.Request) (ids []string) {
		var c cell
		status(sender(t, &c, shardkit.Message{Path: "/a"}, shardkit.Message{Path: "/a"}), repeat)
		for _, j := range c.queue {
			ids = append(ids, j.ID)
		}
		return ids
	}
	first := ids(keyed("POST", "/", "k", "b"))
	if len(first) != 2 || first[0] == first[1] {
		t.Errorf("sent %q", first)
	}
	if again := ids(keyed("POST", "/", "k", "b")); !slices.Equal(first, again) {
		t.Errorf("sent %q, and again %q", first, again)
	}
	for name, other := range map[string]*http.Request{
		"another key": keyed("POST", "/", "l", "b"), "another body": keyed("POST", "/", "k", "c"), "another path": keyed("POST", "/x", "k", "b"),
		"another tenant": keyed("POST", "/", "k", "b", routing.HeaderTenant, "beta"), "no key": sent(), "no key either": sent(),
	} {
		for i, id := range ids(other) {
			if slices.Contains(first, id) {
				t.Errorf("%s: job %d is %s, too", name, i, id)
			}
			first = append(first, id)
		}
	}
}

func TestSendRefuses(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		dispatch shardkit.Dispatch
		to       string
		m        shardkit.Message
		want     error
	}{
		"no tenant":   {func(context.Context, shardkit.Job) error { return nil }, "", shardkit.Message{Path: "/"}, shardkit.ErrJob},
		"no path":     {func(context.Context, shardkit.Job) error { return nil }, "beta", shardkit.Message{}, shardkit.ErrJob},
		"too large":   {func(context.Context, shardkit.Job) error { return nil }, "beta", shardkit.Message{Path: "/", Body: make([]byte, 1<<20)}, shardkit.ErrJob},
		"no dispatch": {nil, "beta", shardkit.Message{Path: "/"}, shardkit.ErrNoDispatch},
		"down":        {func(context.Context, shardkit.Job) error { return down }, "beta", shardkit.Message{Path: "/"}, down},
	} {
		h := guarded(t, shardkit.Config{Items: holding("acme"), Dispatch: c.dispatch}, func(w http.ResponseWriter, r *http.Request) {
			if id, err := shardkit.From(r.Context()).Send(r.Context(), c.to, c.m); id != "" || !errors.Is(err, c.want) {
				t.Errorf("%s: %q, %v", name, id, err)
			}
		})
		status(h, sent())
	}
}

// TestSender: a service learns who sent a job, which no client can say.
func TestSender(t *testing.T) {
	for name, c := range map[string]struct {
		headers   []string
		status    int
		job, from string
	}{
		"from a client":    {nil, 200, "", ""},
		"a job":            {[]string{shardkit.HeaderJob, "j1"}, 200, "j1", ""},
		"a message":        {[]string{shardkit.HeaderJob, "j1", shardkit.HeaderFrom, "%C3%84rzte"}, 200, "j1", "Ärzte"},
		"from, and no job": {[]string{shardkit.HeaderFrom, "beta"}, 401, "", ""},
		"a bad sender":     {[]string{shardkit.HeaderJob, "j1", shardkit.HeaderFrom, "%41"}, 401, "", ""},
		"no hop":           {[]string{shardkit.HeaderJob, "j1", shardkit.HeaderHops, "0"}, 401, "", ""},
		"hops, not plain":  {[]string{shardkit.HeaderJob, "j1", shardkit.HeaderHops, "+1"}, 401, "", ""},
		"hops, and no job": {[]string{shardkit.HeaderHops, "1"}, 401, "", ""},
		"a bad job":        {[]string{shardkit.HeaderJob, "j 1"}, 401, "", ""},
	} {
		h := guarded(t, shardkit.Config{Items: holding("acme")}, func(_ http.ResponseWriter, r *http.Request) {
			if who := shardkit.From(r.Context()); who.Job() != c.job || who.Sender() != c.from {
				t.Errorf("%s: job %q from %q", name, who.Job(), who.Sender())
			}
		})
		if got := status(h, sent(c.headers...)); got != c.status {
			t.Errorf("%s: answered %d", name, got)
		}
	}
	twice := sent(shardkit.HeaderJob, "j1")
	twice.Header.Add(shardkit.HeaderJob, "j1")
	from := sent(shardkit.HeaderJob, "j1", shardkit.HeaderFrom, "a")
	from.Header.Add(shardkit.HeaderFrom, "a")
	h := guarded(t, shardkit.Config{Items: holding("acme")}, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	if status(h, twice) != 401 || status(h, from) != 401 {
		t.Error("two jobs, or two senders")
	}
	if routing.HeaderFromClient(shardkit.HeaderJob) || routing.HeaderFromClient(shardkit.HeaderFrom) {
		t.Error("a client may name a job, or its sender")
	}
}
