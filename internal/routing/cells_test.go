package routing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// door is a front door whose cells all are one transport.
func door(entries Entries, cells Transport) Config {
	return Config{
		Cells: true, Entries: entries, Routes: []Route{{Path: "/*", Via: ViaCell}},
		Transports: map[string]Transport{ViaCell: cells}, Timeout: 5 * time.Second, NewID: func() string { return "r1" },
	}
}

func in(cell string, epoch uint64, state directory.State) directory.Entry {
	return directory.Entry{Tenant: "acme", Cell: cell, State: state, Epoch: epoch, Topology: 1}
}

// TestFrontDoor: a tenant's requests go to its own cell, which judges all but what is known here for sure.
func TestFrontDoor(t *testing.T) {
	unavailable := &Response{Status: 503, Header: http.Header{"Retry-After": {"7"}}, Body: []byte("the cell's own words")}
	for name, c := range map[string]struct {
		entries Entries
		answers map[string]*Response // by cell; none is ErrNotSent
		method  string
		status  int
		asked   string
		detail  string
	}{
		"served":                {uncached{fixed{"acme": in("us-1", 7, directory.Active)}}, map[string]*Response{"us-1": {Status: 201}}, "POST", 201, "us-1@7", ""},
		"moving, a write":       {uncached{fixed{"acme": in("us-1", 7, directory.Moving)}}, map[string]*Response{"us-1": {Status: 200}}, "PUT", 200, "us-1@7", ""},
		"the cell cannot":       {uncached{fixed{"acme": in("us-1", 7, directory.Active)}}, map[string]*Response{"us-1": unavailable}, "GET", 503, "us-1@7", "the cell's own words"},
		"the cell is not there": {uncached{fixed{"acme": in("us-1", 7, directory.Active)}}, nil, "GET", 503, "us-1@7", "nothing was done"},
		"unknown":               {uncached{fixed{}}, nil, "GET", 404, "", notKnownHere},
		"placing":               {uncached{fixed{"acme": in("us-1", 7, directory.Placing)}}, nil, "GET", 503, "", "set up"},
		"suspended":             {uncached{fixed{"acme": in("us-1", 7, directory.Suspended)}}, nil, "GET", 403, "", "suspended"},
		"moved on": {remembered{Known{Entry: in("eu-1", 7, directory.Active)}, Known{Entry: in("us-1", 8, directory.Active)}},
			map[string]*Response{"eu-1": {Status: 421}, "us-1": {Status: 204}}, "POST", 204, "eu-1@7 us-1@8", ""},
		"moved on and on": {remembered{Known{Entry: in("eu-1", 7, directory.Active)}, Known{Entry: in("us-1", 8, directory.Active)}},
			map[string]*Response{"eu-1": {Status: 421}, "us-1": {Status: 421}}, "POST", 503, "eu-1@7 us-1@8", "nothing was done"},
		"refused by its own": {remembered{Known{Entry: in("eu-1", 7, directory.Active)}, Known{Entry: in("eu-1", 7, directory.Active)}},
			map[string]*Response{"eu-1": {Status: 421}}, "GET", 503, "eu-1@7", "nothing was done"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			engine, err := New(door(c.entries, sender(func(_ context.Context, call Call, req *Request) (*Response, error) {
				asked = append(asked, call.Shard+"@"+req.Header.Get(HeaderEpoch))
				if req.Header.Get("Authorization") != "Bearer the.own.token" {
					t.Errorf("the cell gets %v", req.Header)
				}
				if resp := c.answers[call.Shard]; resp != nil {
					return resp, nil
				}
				return nil, ErrNotSent
			})))
			if err != nil {
				t.Fatal(err)
			}
			resp := engine.Serve(t.Context(), "acme", &Request{Method: c.method, Path: "/orders/1", Header: http.Header{"Authorization": {"Bearer the.own.token"}}})
			if resp.Status != c.status || strings.Join(asked, " ") != c.asked || !strings.Contains(string(resp.Body), c.detail) {
				t.Errorf("answered %d %s after %q", resp.Status, resp.Body, asked)
			}
		})
	}
}

// TestFrontDoorFollows a tenant that moves faster than its request, and not for ever.
func TestFrontDoorFollows(t *testing.T) {
	for _, stays := range []uint64{1, 2, 4, 5, 100} {
		entries := &nomad{}
		engine, err := New(door(entries, sender(func(_ context.Context, call Call, _ *Request) (*Response, error) {
			if call.Epoch < stays {
				return &Response{Status: 421}, nil
			}
			return ok(call.Shard), nil
		})))
		if err != nil {
			t.Fatal(err)
		}
		resp := engine.Serve(t.Context(), "acme", &Request{Method: "POST", Path: "/"})
		if want := map[bool]int{true: 200, false: 503}[stays <= maxLooks]; resp.Status != want || entries.epoch > maxLooks {
			t.Errorf("settled at epoch %d: answered %d, want %d, after %d readings", stays, resp.Status, want, entries.epoch)
		}
	}
}

// nomad is Entries of a tenant that is in another cell each time.
type nomad struct{ epoch uint64 }

func (n *nomad) Entry(context.Context, string) (Known, error) {
	n.epoch++
	return Known{Entry: in([]string{"eu-1", "us-1"}[n.epoch%2], n.epoch, directory.Active)}, nil
}

func (n *nomad) Fresh(ctx context.Context, tenant string, _ uint64) (Known, error) {
	return n.Entry(ctx, tenant)
}

// TestFrontDoorSendsOnce: what a cell may have done is not sent to it again; it has repeated it itself where that
// was safe.
func TestFrontDoorSendsOnce(t *testing.T) {
	for _, method := range []string{"GET", "PUT", "POST"} {
		sent := 0
		engine, err := New(door(uncached{fixed{"acme": in("us-1", 7, directory.Active)}}, sender(func(context.Context, Call, *Request) (*Response, error) {
			sent++
			return nil, errors.New("connection reset")
		})))
		if err != nil {
			t.Fatal(err)
		}
		if resp := engine.Serve(t.Context(), "acme", &Request{Method: method, Path: "/"}); resp.Status != 502 || sent != 1 {
			t.Errorf("%s: answered %d, sent %d times", method, resp.Status, sent)
		}
	}
}

func TestFrontDoorRefusesACellsParts(t *testing.T) {
	ok := door(uncached{fixed{}}, sender(nil))
	for name, change := range map[string]func(*Config){
		"a cell":                 func(c *Config) { c.Cell = "eu-1" },
		"topologies":             func(c *Config) { c.Topologies = published{} },
		"keys":                   func(c *Config) { c.Keys = testKey },
		"state":                  func(c *Config) { c.State = StateCell },
		"idempotency keys":       func(c *Config) { c.IdempotencyKeys = true },
		"no entries":             func(c *Config) { c.Entries = nil },
		"another way":            func(c *Config) { c.Routes[0].Via = ViaLambda; c.Transports[ViaLambda] = sender(nil) },
		"fan-out over its cells": func(c *Config) { c.Routes[0].Fanout = true },
	} {
		c := ok
		c.Routes, c.Transports = []Route{{Path: "/*", Via: ViaCell}}, map[string]Transport{ViaCell: sender(nil)}
		if _, err := New(c); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	cell := testConfig(fixed{}, sender(nil))
	cell.Routes, cell.Transports = []Route{{Path: "/*", Via: ViaCell}}, map[string]Transport{ViaCell: sender(nil)}
	if _, err := New(cell); err == nil {
		t.Error("a cell's route goes via cells")
	}
}
