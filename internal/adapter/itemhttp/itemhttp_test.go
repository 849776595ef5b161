package itemhttp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// server is a store that holds one partition and lists it two keys at a time.
type server struct {
	t     *testing.T
	items map[string]string
	fail  int    // when not 0, the status of every answer
	list  string // when not empty, the answer to a listing
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.URL.Path != "/v1/items" || r.Header.Get("Authorization") != "Bearer token" || query.Get("pk") != "TENANT#a&b=ü" {
		s.t.Errorf("%s %s, %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}
	switch sk := query.Get("sk"); {
	case s.fail != 0:
		w.WriteHeader(s.fail)
	case r.Method == http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		s.items[sk] = string(body)
		w.WriteHeader(http.StatusNoContent)
	case sk != "":
		value, ok := s.items[sk]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, value)
	case s.list != "":
		io.WriteString(w, s.list)
	default:
		keys := []string{}
		for sk := range s.items {
			if sk > query.Get("after") {
				keys = append(keys, sk)
			}
		}
		slices.Sort(keys)
		json.NewEncoder(w).Encode(keys[:min(2, len(keys))])
	}
}

const pk = "TENANT#a&b=ü"

func store(t *testing.T, s *server) *Store {
	t.Helper()
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	out, err := New(listener.URL+"/", "token")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheStoreIsToldTheDeadline: a cancelled request reaches it late or never.
func TestTheStoreIsToldTheDeadline(t *testing.T) {
	var told []string
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Cellwall-Deadline"))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer listener.Close()
	st, err := New(listener.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.UnixMilli(32503680000000))
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if err := st.Put(ctx, pk, "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"32503680000000", ""}; !slices.Equal(told, want) {
		t.Errorf("the store is told %q, want %q", told, want)
	}
}

func TestPutGetList(t *testing.T) {
	st := store(t, &server{t: t, items: map[string]string{}})
	if _, found, err := st.Get(t.Context(), pk, "ORDER#1"); found || err != nil {
		t.Errorf("found %t, %v", found, err)
	}
	for _, sk := range []string{"a", "b", "c d", "ü", "z"} {
		if err := st.Put(t.Context(), pk, sk, []byte("\x00"+sk)); err != nil {
			t.Fatal(err)
		}
	}
	value, found, err := st.Get(t.Context(), pk, "c d")
	if err != nil || !found || string(value) != "\x00c d" {
		t.Errorf("%q, %t, %v", value, found, err)
	}
	keys, err := st.List(t.Context(), pk)
	if want := []string{"a", "b", "c d", "z", "ü"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v", keys, err)
	}
}

func TestFailures(t *testing.T) {
	for _, status := range []int{200, 301, 401, 404, 500} {
		st := store(t, &server{t: t, fail: status})
		if err := st.Put(t.Context(), pk, "a", nil); err == nil {
			t.Errorf("%d is taken for a durable write", status)
		}
		if _, found, err := st.Get(t.Context(), pk, "a"); status != 200 && status != 404 && (found || err == nil) {
			t.Errorf("%d: found %t, %v", status, found, err)
		}
		if _, err := st.List(t.Context(), pk); err == nil {
			t.Errorf("%d is taken for a list", status)
		}
	}
	for _, list := range []string{`{}`, `["a"`, `["a"]`} { // the last one for ever
		if keys, err := store(t, &server{t: t, list: list}).List(t.Context(), pk); err == nil {
			t.Errorf("%s is read as %q", list, keys)
		}
	}
	down, err := New("http://127.0.0.1:1", "token")
	if err != nil {
		t.Fatal(err)
	}
	if err := down.Put(t.Context(), "secret-tenant", "a", nil); err == nil || strings.Contains(err.Error(), "secret-tenant") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:80", "ftp://x", "http://", "http://x?y=1", "http://x\x7f"} {
		if _, err := New(address, ""); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}
