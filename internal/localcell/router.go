package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// requestLimit is the time for one request, both attempts together. It is shorter than the router's on
// AWS, because somebody sits and waits; a shard that hangs costs half of it.
const requestLimit = 10 * time.Second

// routerSettings is the router process's file.
type routerSettings struct {
	Plan         Plan              `json:"plan"`
	Issuer       string            `json:"issuer"`
	Directory    string            `json:"directory"`
	Store        string            `json:"store"`
	StoreSecret  string            `json:"storeSecret"`           // for reads of entries and topologies, and for queues
	WorkerSecret string            `json:"workerSecret"`          // shown to the workers
	AdminSecret  string            `json:"adminSecret"`           // the operator's
	FrontSecret  string            `json:"frontSecret,omitempty"` // by which a front door shows that it is one
	Workers      map[string]string `json:"workers"`               // address by shard
	Cells        []string          `json:"cells"`                 // all of the fleet

	// Remember is for how long the directory's word is believed, in nanoseconds; 0 is entryTTL. `make proxies` asks
	// for as long as on AWS and longer.
	Remember time.Duration `json:"remember,omitempty"`
}

// writeRouterSettings fixes the workers' addresses, and tells the routers and the front door.
func (s *supervisor) writeRouterSettings(frontSecret string) error {
	if !s.layout.FrontDoor {
		frontSecret = ""
	}
	front := frontSettings{
		Issuer: s.running.Issuer, Directory: s.running.DirectoryURL, DirectorySecret: s.store.Router, Secret: frontSecret, AdminSecret: s.running.Secret,
		Audience: s.layout.Cells[0].Audience, Claim: s.layout.Cells[0].Claim, Cells: map[string]string{},
	}
	var cells []string
	for _, m := range s.members {
		cells = append(cells, m.plan.Cell)
	}
	for _, m := range s.members {
		settings := routerSettings{
			Plan: m.plan, Issuer: s.running.Issuer, Directory: s.running.DirectoryURL, Store: s.running.Store, StoreSecret: s.store.Router,
			WorkerSecret: m.secret, AdminSecret: s.running.Secret, FrontSecret: frontSecret, Workers: map[string]string{}, Cells: cells,
		}
		for _, d := range s.doors {
			if d.cell == m {
				d.fix()
				settings.Workers[d.shard] = d.url()
			}
		}
		if err := s.dir.writeJSON(s.layout.settings(m.plan.Cell, fileRouter), settings); err != nil {
			return err
		}
		front.Cells[m.plan.Cell] = m.router
	}
	if !s.layout.FrontDoor {
		return nil
	}
	return s.dir.writeJSON(fileFrontDoor, front)
}

// RunRouter is the router process of a cell, of the only one when that is "": the routing engine behind the
// listener that tenants use, and its counters behind another, for the operator. It returns when ctx has ended.
func RunRouter(ctx context.Context, d Dir, cell string) error {
	file := fileRouter
	if cell != "" {
		file = cell + "." + fileRouter
	}
	collectLater()
	var settings routerSettings
	if err := d.readJSON(file, &settings); err != nil {
		return fmt.Errorf("the router's settings: %w", err)
	}
	public, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	admin, err := inheritListener(firstInherited + 1)
	if err != nil {
		return err
	}
	counters := newCounting(settings.Plan.Shards())
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	front, err := newFront(settings, func(_ context.Context, cell, version string) ([]byte, error) { return d.Key(cell, version) }, counters, log)
	if err != nil {
		return err
	}
	// Whichever server ends first, for want of a socket, ends the others.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	if err := front.follow(ctx, d.snapshot(settings, cell), &beside); err != nil {
		return err
	}
	beside.Go(func() { front.dispatch(ctx) })
	beside.Go(func() { front.told.send(ctx) })
	adminEnded := make(chan error, 1)
	go func() {
		defer cancel()
		adminEnded <- loopback.Serve(ctx, admin, adminHandler(front, settings.AdminSecret))
	}()
	err = loopback.Serve(ctx, public, front.handler)
	cancel()
	if adminErr := <-adminEnded; err == nil {
		err = adminErr
	}
	return err
}

// adminHandler is the operator's way to the router.
func adminHandler(f *front, secret string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/counters", loopback.Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := f.counters.snapshot()
		if age, ok := f.snapshot.Age(time.Now()); ok {
			seconds := age.Seconds()
			c.SnapshotAge = &seconds
		}
		loopback.Answer(w, http.StatusOK, c)
	}), secret))
	mux.Handle("GET "+adminVitals, vitals(secret))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return loopback.Only(mux)
}
