package httpdir

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/journal/journaltest"
	"cellwall.dev/cellwall/internal/rollout/run"
)

func client(t *testing.T, h http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	// As many connections are kept as the suites have writers.
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := NewClient(server.URL, "secret", &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The whole contract is run without the race detector.
func init() { directorytest.Brief = directorytest.UnderRace }

func TestContract(t *testing.T) {
	directorytest.Records(t, func(t *testing.T) directory.Home { return client(t, HomeHandler(directory.NewMemory())) })
	directorytest.Directory(t, func(t *testing.T) directory.Home { return client(t, HomeHandler(directory.NewMemory())) })
}

func TestRolloutJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) directory.Home { return client(t, HomeHandler(directory.NewMemory())) })
}

// fill puts n records of bytes each in their own part.
func fill(t *testing.T, home directory.Home, n, bytes int) {
	t.Helper()
	for i := range n {
		op := directory.Put(directory.Key{Part: fmt.Sprintf("p%05d", i), Sort: "ENTRY"}, 0, []byte(`"`+strings.Repeat("x", bytes)+`"`), "i")
		if err := home.Write(t.Context(), directory.Batch{Operation: "op", Ops: []directory.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListPagesBehindTheScenes(t *testing.T) {
	for name, c := range map[string]struct{ all, bytes int }{
		"many":  {2*maxPage + 7, 1},
		"large": {24, 390_000}, // more than two full pages
	} {
		t.Run(name, func(t *testing.T) {
			memory := directory.NewMemory()
			fill(t, memory, c.all, c.bytes)
			remote := client(t, HomeHandler(memory))
			for _, limit := range []int{1, c.all / 2, c.all - 1, c.all, c.all + 1, maxPage, maxPage + 1} {
				got, err := remote.List(t.Context(), directory.Range{Family: "ENTRY"}, directory.Key{}, limit)
				if err != nil || len(got) != min(limit, c.all) {
					t.Errorf("limit %d: %d records, %v", limit, len(got), err)
					continue
				}
				for i, r := range got {
					if want := fmt.Sprintf("p%05d", i); r.Part != want {
						t.Fatalf("limit %d: record %d is %s, want %s", limit, i, r.Part, want)
					}
				}
			}
			var keys []directory.Key
			for i := range c.all {
				keys = append(keys, directory.Key{Part: fmt.Sprintf("p%05d", i), Sort: "ENTRY"})
			}
			got, err := remote.Read(t.Context(), directory.Strong, keys...)
			if err != nil || len(got) != c.all || slices.ContainsFunc(got, func(r directory.Record) bool { return r.Version != 1 }) {
				t.Errorf("read: %d records, %v", len(got), err)
			}
		})
	}
}

// visible is no error when one says that nothing is there, since that was seen.
func visible(err error) error {
	if errors.Is(err, run.ErrNone) {
		return nil
	}
	return err
}

// A router may read what it serves from, and nothing else.
func TestServingHandler(t *testing.T) {
	memory := directory.NewMemory()
	d := directorytest.Fill(t, memory)
	change := directory.Change{Operation: "op", By: "ann"}
	if _, err := d.Create(t.Context(), directory.Entry{Tenant: "acme", Cell: "eu-1", State: directory.Active, Topology: 1}, change); err != nil {
		t.Fatal(err)
	}
	c := client(t, ServingHandler(memory))
	router, err := directory.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := router.Get(t.Context(), "acme"); err != nil || e.Cell != "eu-1" {
		t.Errorf("Get: %+v, %v", e, err)
	}
	if got, err := router.Topology(t.Context(), "eu-1", 3); err != nil || got.Version != 3 {
		t.Errorf("Topology: %+v, %v", got, err)
	}
	if _, _, err := router.Changes(t.Context(), "", 10); err != nil {
		t.Errorf("Changes: %v", err)
	}
	for name, err := range map[string]error{
		"history":    func() error { _, err := router.History(t.Context(), "acme", 0, 10); return err }(),
		"cells":      func() error { _, err := router.Cells(t.Context()); return err }(),
		"a cell":     func() error { _, err := router.Cell(t.Context(), "eu-1"); return err }(),
		"rollouts":   func() error { _, err := journal.New(c).Latest(t.Context(), "orders"); return visible(err) }(),
		"who drives": func() error { _, _, err := journal.New(c).Holder(t.Context(), "orders"); return err }(),
		"what happened in a rollout": func() error {
			_, err := journal.New(c).Events(t.Context(), "orders", "r", 0, 1)
			return visible(err)
		}(),
		"accesses": func() error { _, _, err := router.DoneBy(t.Context(), "ann", directory.Mark{}, 10); return err }(),
		"a change": func() error {
			_, err := router.Create(t.Context(), directory.Entry{Tenant: "bcme", Cell: "eu-1", State: directory.Active}, change)
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("a router may see or do: %s", name)
		}
	}
}

func TestSendsItsToken(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		HomeHandler(directory.NewMemory()).ServeHTTP(w, r)
	}))
	if _, err := c.Read(t.Context(), directory.Strong, directory.Key{Part: "p", Sort: "s"}); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatAreNoHomes(t *testing.T) {
	answers := map[string]struct {
		status int
		text   string
	}{
		"an error page":        {http.StatusBadGateway, "<html>"},
		"not let in":           {http.StatusUnauthorized, `{"error":"no token"}`},
		"missing page":         {http.StatusNotFound, "404 page not found"},
		"an unknown code":      {http.StatusConflict, `{"code":"tired","error":"no"}`},
		"a success of nothing": {http.StatusOK, ""},
		"half a success":       {http.StatusOK, `{"records":[{"part":"p"`},
		"too few records":      {http.StatusOK, `{"records":[]}`},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(a.status)
				fmt.Fprint(w, a.text)
			}))
			_, err := c.Read(t.Context(), directory.Strong, directory.Key{Part: "p", Sort: "s"})
			if err == nil {
				t.Fatal("taken for a record")
			}
			for _, known := range codes {
				if errors.Is(err, known.err) {
					t.Errorf("taken for %q: %v", known.err, err)
				}
			}
		})
	}
}

func TestHandlersRefuse(t *testing.T) {
	many := strings.Repeat(`{"part":"p","sort":"s"},`, maxKeys)
	for path, bodies := range map[string][]string{
		pathRead:    {"", "{", `{"keys":[` + many + `{"part":"p","sort":"s"}]}`},
		pathList:    {"{", `{"limit":0,"family":"ENTRY"}`, `{"limit":1}`},
		pathChanges: {"{"},
		pathWrite:   {"{", `{}`, `{"operation":"op","ops":[{"part":"p","sort":""}]}`},
	} {
		for _, body := range bodies {
			w := httptest.NewRecorder()
			HomeHandler(directory.NewMemory()).ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			if w.Code == http.StatusOK {
				t.Errorf("%s with %.40q: status %d", path, body, w.Code)
			}
		}
	}
}

func TestNewClientRefusesAddresses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:80", "ftp://host", "http://", "http://host/path", "http://host?q=1", "http://\x00"} {
		if _, err := NewClient(base, "", nil); err == nil {
			t.Errorf("%q is accepted", base)
		}
	}
}

func TestServerGone(t *testing.T) {
	server := httptest.NewServer(HomeHandler(directory.NewMemory()))
	c, err := NewClient(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := c.Read(t.Context(), directory.Strong, directory.Key{Part: "p", Sort: "s"}); err == nil {
		t.Error("a directory that is gone knows of nobody")
	}
}

// many is a holder in memory with HoldMany.
type many struct{ *directory.MemoryHolder }

func (m many) HoldMany(ctx context.Context, cell, shard string, all []directory.Holding) error {
	for _, h := range all {
		if err := m.Hold(ctx, cell, shard, h); err != nil {
			return err
		}
	}
	return nil
}

func TestHolderContract(t *testing.T) {
	directorytest.Holder(t, func(t *testing.T) directory.Holder {
		server := httptest.NewServer(HoldsHandler(many{directory.NewMemoryHolder()}))
		t.Cleanup(server.Close)
		h, err := NewHolds(server.URL, "secret", server.Client())
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}
