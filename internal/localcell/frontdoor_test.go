package localcell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/routing"
)

// known are entries as a front door learns them: what it remembers, and what the directory says afresh.
type known struct{ remembered, fresh routing.Known }

func (k known) Entry(context.Context, string) (routing.Known, error) { return k.remembered, nil }
func (k known) Fresh(context.Context, string, uint64) (routing.Known, error) {
	if k.fresh.Epoch == 0 {
		return routing.Known{}, errors.New("the directory is down")
	}
	return k.fresh, nil
}

type nobody struct{ err error }

func (n nobody) Entry(context.Context, string) (routing.Known, error) { return routing.Known{}, n.err }
func (n nobody) Fresh(context.Context, string, uint64) (routing.Known, error) {
	return routing.Known{}, n.err
}

// verifier takes "good" for a token of acme.
type verifier struct{}

func (verifier) Verify(_ context.Context, token string) (string, error) {
	switch token {
	case "good":
		return "acme", nil
	case "who knows":
		return "", errors.New("the issuer is down")
	}
	return "", routing.ErrToken
}

func at(cell string, epoch uint64) routing.Known {
	return routing.Known{Entry: directory.Entry{Tenant: "acme", Cell: cell, State: directory.Active, Epoch: epoch}}
}

// TestFrontDoor sends one request to a front door of two cells, of which each serves nobody but by its name.
func TestFrontDoor(t *testing.T) {
	asked := map[string]int{}
	home := ""
	cellAt := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[name]++
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Authorization") != "Bearer good" || r.Header.Get(headerFrontDoor) != "secret" || r.Header.Get("Cellwall-Tenant") != "acme" ||
				r.RequestURI != "/orders/a%2Fb?x=1;y" || string(body) != "hello" {
				t.Errorf("cell %s was asked %s %s of %s with %v, %q", name, r.Method, r.RequestURI, r.Host, r.Header, body)
			}
			if name != home {
				w.WriteHeader(http.StatusMisdirectedRequest)
				return
			}
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, name)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	settings := frontSettings{Secret: "secret", Cells: map[string]string{"eu-1": cellAt("eu-1"), "us-1": cellAt("us-1"), "gone": "http://127.0.0.1:1"}}
	for name, test := range map[string]struct {
		token   string
		entries routing.Entries
		home    string
		status  int
		eu, us  int // times that each cell was asked
	}{
		"at home":                      {"good", known{at("eu-1", 3), at("eu-1", 3)}, "eu-1", http.StatusTeapot, 1, 0},
		"moved":                        {"good", known{at("eu-1", 3), at("us-1", 4)}, "us-1", http.StatusTeapot, 1, 1},
		"moved, and no news":           {"good", known{at("eu-1", 3), at("eu-1", 3)}, "us-1", http.StatusServiceUnavailable, 1, 0},
		"moved, and older news":        {"good", known{at("eu-1", 3), at("us-1", 2)}, "us-1", http.StatusServiceUnavailable, 1, 0},
		"moved, and the directory":     {"good", known{remembered: at("eu-1", 3)}, "us-1", http.StatusServiceUnavailable, 1, 0},
		"nowhere":                      {"good", known{at("eu-1", 3), at("us-1", 4)}, "", http.StatusServiceUnavailable, 1, 1},
		"unknown":                      {"good", nobody{directory.ErrNotFound}, "", http.StatusNotFound, 0, 0},
		"the directory is down":        {"good", nobody{errors.New("down")}, "", http.StatusServiceUnavailable, 0, 0},
		"a cell that does not run":     {"good", known{at("ap-1", 3), at("ap-1", 3)}, "", http.StatusServiceUnavailable, 0, 0},
		"a router that is down":        {"good", known{at("gone", 3), at("gone", 3)}, "", http.StatusServiceUnavailable, 0, 0},
		"no token":                     {"", known{at("eu-1", 3), at("eu-1", 3)}, "eu-1", http.StatusUnauthorized, 0, 0},
		"a bad token":                  {"bad", known{at("eu-1", 3), at("eu-1", 3)}, "eu-1", http.StatusUnauthorized, 0, 0},
		"a token that nobody verifies": {"who knows", known{at("eu-1", 3), at("eu-1", 3)}, "eu-1", http.StatusServiceUnavailable, 0, 0},
	} {
		clear(asked)
		home = test.home
		front, err := newFrontDoor(settings, test.entries, verifier{}, inFlight, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		door := httptest.NewServer(front)
		req, err := http.NewRequestWithContext(t.Context(), "PUT", door.URL+"/orders/a%2Fb?x=1;y", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cellwall-Tenant", "spoof")
		req.Header.Set(headerFrontDoor, "guess")
		if test.token != "" {
			req.Header.Set("Authorization", "Bearer "+test.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		door.Close()
		if resp.StatusCode != test.status || asked["eu-1"] != test.eu || asked["us-1"] != test.us || err != nil {
			t.Errorf("%s: status %d, want %d; asked %v; %s, %v", name, resp.StatusCode, test.status, asked, text, err)
		}
		if strings.Contains(string(text), "us-1") && test.status != http.StatusTeapot {
			t.Errorf("%s: the answer names a cell: %s", name, text)
		}
	}
}

// named takes a token for the name of its tenant, and residents has who lives where.
type named struct{}

func (named) Verify(_ context.Context, token string) (string, error) { return token, nil }

type residents map[string]string

func (r residents) Entry(_ context.Context, tenant string) (routing.Known, error) {
	k := at(r[tenant], 1)
	k.Tenant = tenant
	return k, nil
}

func (r residents) Fresh(ctx context.Context, tenant string, _ uint64) (routing.Known, error) {
	return r.Entry(ctx, tenant)
}

// TestACellThatHangs takes no more of the front door than its part: the others' tenants are served, and its own are
// told at once.
func TestACellThatHangs(t *testing.T) {
	const perCell = 3
	heal, begun := make(chan struct{}), make(chan struct{}, perCell)
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-heal
	}))
	defer hung.Close()
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer well.Close()
	lives := residents{"other": "us-1"}
	for i := range perCell + 1 {
		lives[fmt.Sprint("t", i)] = "eu-1"
	}
	settings := frontSettings{Secret: "secret", Cells: map[string]string{"eu-1": hung.URL, "us-1": well.URL}}
	front, err := newFrontDoor(settings, lives, named{}, perCell, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(front)
	defer door.Close()
	get := func(tenant string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, door.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Authorization", "Bearer "+tenant)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var waiting sync.WaitGroup
	for i := range perCell {
		waiting.Go(func() {
			if status := get(fmt.Sprint("t", i)); status != http.StatusOK {
				t.Errorf("a request that the cell answered in the end got %d", status)
			}
		})
		<-begun
	}
	if status := get(fmt.Sprint("t", perCell)); status != http.StatusServiceUnavailable {
		t.Errorf("one more for the cell that hangs: %d, want 503 at once", status)
	}
	if status := get("other"); status != http.StatusNoContent {
		t.Errorf("a tenant of the other cell: %d", status)
	}
	close(heal)
	waiting.Wait()
	if status := get("t0"); status != http.StatusOK {
		t.Errorf("after the cell has healed: %d", status)
	}
}
