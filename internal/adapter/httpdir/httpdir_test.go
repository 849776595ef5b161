package httpdir

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/directory/directorytest"
)

func client(t *testing.T, h http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL, "secret", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContract(t *testing.T) {
	directorytest.Run(t, func(t *testing.T) directory.Store {
		return client(t, Handler(directorytest.NewStore(t)))
	})
}

func TestListPagesBehindTheScenes(t *testing.T) {
	memory := directorytest.NewStore(t)
	const all = 2*maxPage + 7
	for i := range all {
		e := directory.Entry{Tenant: fmt.Sprintf("t%05d", i), Cell: "eu-1", State: directory.Active, Operation: "op"}
		if _, err := memory.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, Handler(memory))
	for _, limit := range []int{maxPage, maxPage + 1, 2 * maxPage, all, all + 1} {
		got, err := c.List(t.Context(), "", limit)
		if err != nil || len(got) != min(limit, all) {
			t.Errorf("limit %d: %d entries, %v", limit, len(got), err)
			continue
		}
		for i, e := range got {
			if want := fmt.Sprintf("t%05d", i); e.Tenant != want {
				t.Fatalf("limit %d: entry %d is %s, want %s", limit, i, e.Tenant, want)
			}
		}
	}
}

func TestSendsItsToken(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		Handler(directorytest.NewStore(t)).ServeHTTP(w, r)
	}))
	if _, err := c.Get(t.Context(), "acme"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("error %v, want %q", err, directory.ErrNotFound)
	}
}

func TestAnswersThatAreNoDirectorys(t *testing.T) {
	answers := map[string]struct {
		status int
		text   string
	}{
		"an error page":        {http.StatusBadGateway, "<html>"},
		"not let in":           {http.StatusUnauthorized, `{"error":"no token"}`},
		"missing page":         {http.StatusNotFound, "404 page not found"},
		"an unknown code":      {http.StatusConflict, `{"code":"tired","error":"no"}`},
		"a success of nothing": {http.StatusOK, ""},
		"half a success":       {http.StatusOK, `{"tenant":"acme"`},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(a.status)
				fmt.Fprint(w, a.text)
			}))
			_, err := c.Get(t.Context(), "acme")
			if err == nil {
				t.Fatal("taken for an entry")
			}
			for _, known := range codes {
				if errors.Is(err, known.err) {
					t.Errorf("taken for %q: %v", known.err, err)
				}
			}
		})
	}
}

func TestHandlerRefuses(t *testing.T) {
	h := Handler(directorytest.NewStore(t))
	for _, r := range []*http.Request{
		httptest.NewRequest("POST", pathCreate, strings.NewReader("{")),
		httptest.NewRequest("POST", pathCreate, strings.NewReader(`{"tenant":"`+strings.Repeat("x", maxEntry)+`"}`)),
		httptest.NewRequest("POST", pathReplace, strings.NewReader("{}")),
		httptest.NewRequest("POST", pathReplace+"?expect=-1", strings.NewReader("{}")),
		httptest.NewRequest("GET", pathList, nil),
		httptest.NewRequest("GET", pathList+"?limit=1001", nil),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s %s: status %d, want 400", r.Method, r.URL, w.Code)
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
	server := httptest.NewServer(Handler(directorytest.NewStore(t)))
	c, err := NewClient(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := c.Get(context.Background(), "acme"); err == nil || errors.Is(err, directory.ErrNotFound) {
		t.Errorf("error %v: a directory that is gone knows of nobody", err)
	}
}
