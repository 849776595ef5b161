package localcell

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/routing"
)

// noTopologies is for tenants that are served by their pins alone.
type noTopologies struct{}

func (noTopologies) Topology(context.Context, string, uint64) (directory.Topology, error) {
	return directory.Topology{}, directory.ErrUnknownTopology
}

// TestAJobFollowsItsTenantToAnotherCell: it was accepted by a cell that the tenant has left since. The router there
// hands it to the other cell's, which places it; where there is no such cell, it stays.
func TestAJobFollowsItsTenantToAnotherCell(t *testing.T) {
	server := httptest.NewServer(jobqueue.Handler(testQueues(t)))
	defer server.Close()
	queues := jobqueue.NewClient(server.URL, "secret")
	moved := at("us-1", 9)
	moved.Pins = []string{"s02"}
	routerOf := func(cell string, cells ...string) *front {
		engine, err := routing.New(routing.Config{
			Cell: cell, Entries: known{fresh: moved}, Topologies: noTopologies{},
			Keys:       func(context.Context, string, string) ([]byte, error) { return nil, directory.ErrKey },
			Routes:     []routing.Route{{Path: "/*", Via: routing.ViaQueue}},
			Transports: map[string]routing.Transport{routing.ViaQueue: &queueTransport{queues, cell}}, Timeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		return &front{engine: engine, cell: cell, cells: cells, queues: queues, log: slog.New(slog.DiscardHandler)}
	}
	only := func(queue string) jobqueue.Delivery {
		t.Helper()
		jobs, err := queues.Receive(t.Context(), jobqueue.Receive{Queue: queue, Max: 1, Hidden: time.Minute, MaxReceive: 5})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%s has %d jobs, %v", queue, len(jobs), err)
		}
		return jobs[0]
	}
	job := routing.Job{ID: "j1", Tenant: "acme", Epoch: 4, Method: "POST", Path: "/jobs/1", Body: []byte("work"), Dispatches: 1}
	message, err := job.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := queues.Send(t.Context(), dispatchQueue("eu-1"), jobqueue.Message{ID: job.ID, Group: "g", Body: message}); err != nil {
		t.Fatal(err)
	}
	d := only(dispatchQueue("eu-1"))
	if err := routerOf("eu-1", "eu-1").place(t.Context(), d); !errors.Is(err, routing.ErrElsewhere) {
		t.Errorf("where the other cell is not of the fleet: %v", err)
	}
	if err := routerOf("eu-1", "eu-1", "us-1").place(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := routerOf("us-1", "eu-1", "us-1").place(t.Context(), only(dispatchQueue("us-1"))); err != nil {
		t.Fatal(err)
	}
	placed, err := routing.ParseJob(only(shardQueue("us-1", "s02")).Body)
	if err != nil || placed.Shard != "s02" || placed.Epoch != 9 || placed.ID != job.ID || string(placed.Body) != "work" {
		t.Errorf("placed %+v, %v", placed, err)
	}
	for _, queue := range []string{dispatchQueue("eu-1"), dispatchQueue("us-1")} {
		if s, err := queues.Stats(t.Context(), queue); err != nil || s.Waiting+s.Served+s.Dead != 0 {
			t.Errorf("%s: %+v, %v; want nothing left", queue, s, err)
		}
	}
}
