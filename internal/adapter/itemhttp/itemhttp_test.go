package itemhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/lambda/shardkit"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

// one is a cell's store of one shard, which lists two keys at a time.
type one struct {
	*shardkit.Memory
	t *testing.T
}

func (o one) of(cell, shard string) {
	if cell != "eu-1" || shard != "s01" {
		o.t.Errorf("asked for shard %s/%s", cell, shard)
	}
}

func (o one) Held(ctx context.Context, cell, shard, tenant string) (directory.Holding, bool, error) {
	o.of(cell, shard)
	epoch, held, err := o.Memory.Held(ctx, tenant)
	return directory.Holding{Tenant: tenant, Epoch: epoch}, held, err
}

func (o one) Write(ctx context.Context, cell, shard string, h directory.Holding, writes ...shardkit.Write) error {
	o.of(cell, shard)
	return o.Memory.Write(ctx, h.Tenant, h.Epoch, writes...)
}

func (o one) List(ctx context.Context, tenant, prefix, after string) ([]string, error) {
	all, err := o.Memory.List(ctx, tenant, prefix)
	for len(all) > 0 && all[0] <= after {
		all = all[1:]
	}
	return all[:min(2, len(all))], err
}

// store is a Store of a server.
func store(t *testing.T, h http.Handler) *Store {
	t.Helper()
	listener := httptest.NewServer(h)
	t.Cleanup(listener.Close)
	s, err := New(listener.URL+"/", "token", "eu-1", "s01")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	shardkittest.Run(t, func(t *testing.T) shardkittest.Shard {
		m := shardkit.NewMemory()
		h := Handler(one{m, t})
		items := store(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				t.Errorf("%s: shows %q", r.URL.Path, r.Header.Get("Authorization"))
			}
			h.ServeHTTP(w, r)
		}))
		return shardkittest.Shard{
			Items:   items,
			Hold:    func(tenant string, epoch uint64) error { m.Hold(tenant, epoch); return nil },
			Release: func(tenant string, epoch uint64) error { m.Release(tenant, epoch); return nil },
		}
	})
}

// TestTheStoreIsToldTheDeadline: a cancelled request reaches it late or never.
func TestTheStoreIsToldTheDeadline(t *testing.T) {
	var told []string
	s := store(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Cellwall-Deadline"))
		w.WriteHeader(http.StatusNoContent)
	}))
	ctx, cancel := context.WithDeadline(t.Context(), time.UnixMilli(32503680000000))
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if err := s.Write(ctx, "acme", 1, shardkit.Write{Key: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"32503680000000", ""}; !slices.Equal(told, want) {
		t.Errorf("the store is told %q, want %q", told, want)
	}
}

// TestAnswersThatAreNoStores: what is not the answer that it should be is an error, and never the word of
// a store that knows.
func TestAnswersThatAreNoStores(t *testing.T) {
	for _, status := range []int{200, 204, 301, 400, 401, 404, 409, 421, 500} {
		s := store(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		err := s.Write(t.Context(), "acme", 1, shardkit.Write{Key: "a"})
		if (err == nil) != (status == 204) {
			t.Errorf("%d: a write ends with %v", status, err)
		}
		if errors.Is(err, shardkit.ErrNotHeld) != (status == 421) || errors.Is(err, shardkit.ErrInvalid) != (status == 400) || errors.Is(err, shardkit.ErrChanged) != (status == 409) {
			t.Errorf("%d: a write ends with %v", status, err)
		}
		if _, found, err := s.Get(t.Context(), "acme", "a"); status != 200 && status != 404 && (found || err == nil) {
			t.Errorf("%d: found %t, %v", status, found, err)
		}
		if _, held, err := s.Held(t.Context(), "acme"); held || status != 404 && err == nil {
			t.Errorf("%d: held %t, %v", status, held, err)
		}
		if _, err := s.List(t.Context(), "acme", ""); err == nil {
			t.Errorf("%d is taken for a list", status)
		}
	}
	for _, text := range []string{`{}`, `["a"`, `["a"]`, "-1", "18446744073709551616", "1 "} { // the list for ever
		s := store(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
		if keys, err := s.List(t.Context(), "acme", ""); err == nil {
			t.Errorf("%s is read as %q", text, keys)
		}
		if epoch, held, err := s.Held(t.Context(), "acme"); err == nil {
			t.Errorf("%s is read as held %t since %d", text, held, epoch)
		}
	}
}

func TestErrorsNameNoTenant(t *testing.T) {
	down, err := New("http://127.0.0.1:1", "token", "eu-1", "s01")
	if err != nil {
		t.Fatal(err)
	}
	_, _, heldErr := down.Held(t.Context(), "secret-tenant")
	_, _, getErr := down.Get(t.Context(), "secret-tenant", "a")
	for _, err := range []error{heldErr, getErr, down.Write(t.Context(), "secret-tenant", 1, shardkit.Write{Key: "a"})} {
		if err == nil || strings.Contains(err.Error(), "secret-tenant") {
			t.Errorf("nobody listens: %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:80", "ftp://x", "http://", "http://x?y=1", "http://x\x7f"} {
		if _, err := New(address, "", "eu-1", "s01"); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
	if _, err := New("http://x", "", "", "s01"); err == nil {
		t.Error("no cell is accepted")
	}
	if _, err := New("http://x", "", "eu-1", ""); err == nil {
		t.Error("no shard is accepted")
	}
}

// broken is a Backend that fails, and a request for it that is cut off.
type broken struct{}

func (broken) Held(context.Context, string, string, string) (directory.Holding, bool, error) {
	return directory.Holding{Epoch: 7}, true, errors.New("broken")
}
func (broken) Get(context.Context, string, string) ([]byte, bool, error) {
	return nil, true, errors.New("broken")
}
func (broken) List(context.Context, string, string, string) ([]string, error) {
	return []string{"a"}, errors.New("broken")
}
func (broken) Write(context.Context, string, string, directory.Holding, ...shardkit.Write) error {
	return errors.New("broken")
}

func TestHandler(t *testing.T) {
	for _, r := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/items?tenant=a&key=1", "", 500},
		{"GET", "/v1/items/keys?tenant=a", "", 500},
		{"GET", "/v1/items/held?cell=eu-1&shard=s01&tenant=a", "", 500},
		{"POST", "/v1/items/write", `{"writes":[]}`, 500},
		{"POST", "/v1/items/write", `{"writes":`, 400},
		{"POST", "/v1/items/write", `{"epoch":-1}`, 400},
		{"POST", "/v1/items/write", strings.Repeat(" ", maxTransaction+1), 400},
		{"PUT", "/v1/items?tenant=a&key=1", "x", 405},
		{"DELETE", "/v1/items?tenant=a&key=1", "", 405},
		{"POST", "/v1/items/held", "", 405},
	} {
		w := httptest.NewRecorder()
		Handler(broken{}).ServeHTTP(w, httptest.NewRequest(r.method, r.path, strings.NewReader(r.body)))
		if w.Code != r.status {
			t.Errorf("%s %s: answered %d, want %d", r.method, r.path, w.Code, r.status)
		}
	}
}
