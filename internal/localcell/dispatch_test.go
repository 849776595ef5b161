package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/routing"
)

// jobFor puts a job into a queue of the running cell.
func (c *cell) jobFor(queues *jobqueue.Client, queue string, j routing.Job) {
	c.t.Helper()
	message, err := j.Encode()
	if err == nil {
		tenant, _ := routing.DecodeTenant(j.Tenant)
		err = queues.Send(c.t.Context(), queue, jobqueue.Message{ID: j.ID, Group: names.Tenant(tenant), Body: message})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestJobs has the queues of a running cell do what they are for.
func TestJobs(t *testing.T) {
	c := up(t)
	queues := jobqueue.NewClient(c.Store, c.Secret)
	token, subset := c.token("acme"), c.subsets()["acme"]
	done := func(id, want string) {
		t.Helper()
		eventually(t, "job "+id+" is done", func() bool {
			status, answer := c.ask(token, "GET", "/jobs/"+id, "")
			return status == http.StatusOK && answer == want
		})
	}
	// Through the router, while the shards that could do them are away, and after the store was.
	for _, shard := range subset {
		c.fails(shard, Fault{How: HowKill})
	}
	for i := range 3 {
		c.wants(http.StatusAccepted, token, "POST", fmt.Sprintf("/jobs/%d", i), fmt.Sprint("result ", i))
	}
	store := c.statusOf(nameStore)
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Heal(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		done(fmt.Sprint(i), fmt.Sprint("result ", i))
	}

	// In the queue of a shard that does not hold the tenant: it comes back to the router, which places it.
	elsewhere := ""
	for _, id := range []string{"s01", "s02", "s03"} {
		if id != subset[0] && id != subset[1] {
			elsewhere = id
		}
	}
	eventually(t, "the store is back", func() bool { return c.statusOf(nameStore).State == string(childReady) })
	job := routing.Job{ID: "astray", Tenant: "acme", Epoch: 1, Shard: elsewhere, Method: "POST", Path: "/jobs/astray", Body: []byte("found")}
	c.jobFor(queues, shardQueue("eu-1", elsewhere), job)
	done("astray", "found")

	// From a shard to another tenant, wherever that one lives.
	answer := c.wants(http.StatusAccepted, token, "POST", "/messages/globex", "hello")
	eventually(t, "the message is there: "+answer, func() bool {
		_, list := c.ask(c.token("globex"), "GET", "/inbox", "")
		return strings.TrimSpace(list) != "[]" && strings.HasPrefix(list, "[")
	})

	// A job of nobody, and what is no job, are given up after the deliveries that the fleet allows.
	job.ID, job.Tenant = "nobodys", "stranger"
	c.jobFor(queues, dispatchQueue("eu-1"), job)
	if err := queues.Send(t.Context(), shardQueue("eu-1", "s01"), jobqueue.Message{ID: "x", Group: "g", Body: []byte("no job")}); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{dispatchQueue("eu-1"), shardQueue("eu-1", "s01")} {
		eventually(t, "it is among the dead of "+queue, func() bool {
			s, err := queues.Stats(t.Context(), queue)
			return err == nil && s.Dead == 1 && s.Waiting+s.Served == 0
		})
	}
	if err := queues.Delete(t.Context(), "eu-1/s01", "1-1"); err == nil {
		t.Error("a delivery of before is deleted")
	}
}

// TestAPumpWaitsForAStore that is not there yet.
func TestAPumpWaitsForAStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := &supervisor{log: slog.New(slog.DiscardHandler)}
	d := &door{cell: &member{plan: testPlan(t)}, shard: "s01", name: "s01", child: &child{state: childReady}}
	p, err := s.newPump(d, jobqueue.NewClient("http://127.0.0.1:1", "x"))
	if err != nil {
		t.Fatal(err)
	}
	p.run(ctx) // returns
}
