package localcell

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/shardhttp"
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/handler"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/routing/limit"
	"cellwall.dev/cellwall/internal/snapshot"
)

// headerFrontDoor carries the secret by which a cell knows the front door.
const headerFrontDoor = identity.HeaderSecret

// Paths that no route may have: a raw dot segment.
const (
	frontDoorHealth = "/.cellwall/healthz"
	frontDoorVitals = "/.cellwall/vitals" // for the operator
)

// frontSettings is the front door process's file.
type frontSettings struct {
	Issuer          string            `json:"issuer"`
	Audience        string            `json:"audience"`
	Claim           string            `json:"claim"`
	Directory       string            `json:"directory"`
	DirectorySecret string            `json:"directorySecret"`
	Secret          string            `json:"secret"`      // shown to the cells
	AdminSecret     string            `json:"adminSecret"` // the operator's
	Cells           map[string]string `json:"cells"`       // address of the router by cell
}

// RunFrontDoor is the front door process: it sends each tenant's requests to the cell where the directory has
// the tenant, on the listener that it inherited, until ctx ends.
func RunFrontDoor(ctx context.Context, d Dir) error {
	collectLater()
	var s frontSettings
	if err := d.readJSON(fileFrontDoor, &s); err != nil {
		return fmt.Errorf("the front door's settings: %w", err)
	}
	listener, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	home, err := httpdir.NewClient(s.Directory, s.DirectorySecret, nil)
	if err != nil {
		return err
	}
	held := snapshot.NewHolder(snapshot.Fleet)
	entries, err := dircache.New(dircache.Config{Directory: directory.Later(home), Base: held, TTL: entryTTL, Negative: strangerTTL})
	if err != nil {
		return err
	}
	tokens, err := tokenverify.New(tokenverify.Config{Issuer: s.Issuer, Audience: s.Audience, Claim: s.Claim, Fallback: held.IssuerKeys})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	f, err := newFrontDoor(s, entries, tokens, inFlight, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	if err := d.frontSnapshot().follow(ctx, held, log, &beside, func() {}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+frontDoorHealth, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET "+frontDoorVitals, loopback.Only(vitals(s.AdminSecret)))
	mux.Handle("/", f)
	return loopback.Serve(ctx, listener, mux)
}

// newFrontDoor puts the same engine together that the front door function on AWS runs. The client's token goes
// along, and the cell verifies it again. A cell has perCell requests at most, and the door itself twice as many, so that
// one cell that is slow leaves room for the others. On AWS the reservation of the cell's router bounds it so, and
// refuses at once.
func newFrontDoor(s frontSettings, entries routing.Entries, tokens identity.TokenVerifier, perCell int, log *slog.Logger) (http.Handler, error) {
	cells := shardhttp.New(func(cell string) (string, error) {
		if base, ok := s.Cells[cell]; ok {
			return base, nil
		}
		return "", fmt.Errorf("cell %q does not run here", cell)
	}, http.Header{headerFrontDoor: {s.Secret}})
	tenants, err := limit.NewTenants(limit.Config{}) // nobody is limited, but counted for what is left to others
	if err != nil {
		return nil, err
	}
	engine, err := routing.New(routing.Config{
		Tenants: tenants, Shed: limit.NewShed(2 * perCell), Shards: limit.NewShards(perCell),
		Cells: true, Entries: entries, Routes: []routing.Route{{Path: "/*", Via: routing.ViaCell}},
		Transports: map[string]routing.Transport{routing.ViaCell: cells}, Timeout: requestLimit + frontMargin,
		Observe: func(o routing.Outcome) {
			if o.Err != nil && !o.Left && o.Status >= http.StatusInternalServerError {
				log.Error("request not served", "status", o.Status, "why", o.Err, "attempts", o.Attempts)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return handler.NewHTTP(handler.HTTPConfig{Router: engine, Identity: identity.NewVerified(tokens), Log: log}), nil
}

// frontMargin is what a cell's router may take beyond its own limit until its answer is here.
const frontMargin = time.Second
