package localcell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/itemhttp"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/lambda/shardkit/shardkittest"
)

func TestNewPlan(t *testing.T) {
	f, err := fleet.Load("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(f, "", "/worker")
	if err != nil {
		t.Fatal(err)
	}
	if p.Cell != "eu-1" || len(p.Shards()) != 16 || p.Shards()[6] != "s07" {
		t.Errorf("by default: cell %s with shards %v", p.Cell, p.Shards())
	}
	if diff := cmp.Diff(map[string]int{"": 2, "whale": 4}, p.Topology.KBySize); diff != "" {
		t.Errorf("k by size (-want +got):\n%s", diff)
	}
	if p, err = NewPlan(f, "eu-canary", "/worker"); err != nil || p.Cell != "eu-canary" || len(p.Shards()) != 4 {
		t.Errorf("by name: %+v, %v", p, err)
	}
	if _, err := NewPlan(f, "nowhere", "/worker"); err == nil || !strings.Contains(err.Error(), "eu-canary") {
		t.Errorf("a cell that is not there: %v", err)
	}
}

func TestPlacementKey(t *testing.T) {
	d := Dir{t.TempDir()}
	if _, err := d.key(filePlacementKey, "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no key yet: %v", err)
	}
	if err := d.makeKey(filePlacementKey, "1", false); err != nil {
		t.Fatal(err)
	}
	key, err := d.key(filePlacementKey, "1")
	if err != nil || len(key) != keyBytes {
		t.Fatalf("new key: %d bytes, %v", len(key), err)
	}
	if err := d.makeKey(filePlacementKey, "1", false); err != nil {
		t.Errorf("again: %v", err)
	}
	again, err := d.key(filePlacementKey, "1")
	if err != nil || string(again) != string(key) {
		t.Errorf("the key changed, %v", err)
	}
	if _, err := d.key(filePlacementKey, "2"); !errors.Is(err, ErrNoKey) || errors.Is(err, ErrDamaged) {
		t.Errorf("a version that was never there: %v; nothing is damaged", err)
	}
	if _, err := d.Key("eu-1", "1"); err == nil {
		t.Error("a key without a cell")
	}
	if err := d.writeJSON(filePlan, testPlan(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Key("eu-1", "1"); err != nil || string(got) != string(key) {
		t.Errorf("the cell's key: %v", err)
	}
	if _, err := d.Key("us-1", "1"); err == nil {
		t.Error("the key of another cell")
	}
	path := d.file(filePlacementKey)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := d.key(filePlacementKey, "1"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	for _, text := range []string{"", "{", `{"1":"abcd"}`, `{"1":"` + strings.Repeat("x", 64) + `"}`} {
		if err := d.write(filePlacementKey, []byte(text)); err != nil {
			t.Fatal(err)
		}
		_, err := d.key(filePlacementKey, "1")
		if err == nil {
			t.Errorf("key file %q is accepted", text)
		} else if strings.Contains(err.Error(), "xxxx") || strings.Contains(err.Error(), "abcd") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// TestALostKeyIsNotReplaced: under another key every tenant would be placed elsewhere.
// TestAddKey: of many who add a key at once nobody's is lost, and one that is there stays as it is.
func TestAddKey(t *testing.T) {
	d := Dir{t.TempDir()}
	if err := d.writeJSON(filePlan, testPlan(t)); err != nil {
		t.Fatal(err)
	}
	if err := d.makeKey(filePlacementKey, "1", false); err != nil {
		t.Fatal(err)
	}
	first, err := d.Key("eu-1", "1")
	if err != nil {
		t.Fatal(err)
	}
	add := func(cell string, keys map[string][]byte) ([]string, error) {
		return d.AddKey(cell, func([]string) (map[string][]byte, error) { return keys, nil })
	}
	const many = 8
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			version := strconv.Itoa(i + 2)
			if added, err := add("eu-1", map[string][]byte{version: bytes.Repeat([]byte{byte(i)}, keyBytes)}); err != nil || !slices.Equal(added, []string{version}) {
				t.Errorf("version %s: %q, %v", version, added, err)
			}
		})
	}
	wg.Wait()
	for i := range many {
		if key, err := d.Key("eu-1", strconv.Itoa(i+2)); err != nil || !bytes.Equal(key, bytes.Repeat([]byte{byte(i)}, keyBytes)) {
			t.Errorf("version %d: %v", i+2, err)
		}
	}
	if added, err := d.AddKey("eu-1", func(have []string) (map[string][]byte, error) {
		if len(have) != many+1 || have[0] != "1" {
			t.Errorf("there are %q", have)
		}
		return nil, nil
	}); err != nil || len(added) != 0 {
		t.Errorf("nothing is missing: %q, %v", added, err)
	}
	for what, refused := range map[string]func() ([]string, error){
		"a version that is there": func() ([]string, error) { return add("eu-1", map[string][]byte{"1": make([]byte, keyBytes)}) },
		"half a key":              func() ([]string, error) { return add("eu-1", map[string][]byte{"a": make([]byte, keyBytes/2)}) },
		"another cell":            func() ([]string, error) { return add("us-1", map[string][]byte{"a": make([]byte, keyBytes)}) },
	} {
		if added, err := refused(); err == nil || len(added) > 0 {
			t.Errorf("%s: %q, %v", what, added, err)
		}
	}
	if key, err := d.Key("eu-1", "1"); err != nil || !bytes.Equal(key, first) {
		t.Errorf("the first version changed: %v", err)
	}
}

func TestALostKeyIsNotReplaced(t *testing.T) {
	d := Dir{t.TempDir()}
	if _, err := d.prepare(t.Context(), testPlan(t).Alone(), testTenants); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.file(filePlacementKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.prepare(t.Context(), testPlan(t).Alone(), testTenants); !errors.Is(err, ErrDamaged) {
		t.Errorf("a directory without its key: %v", err)
	}
	if _, err := os.Stat(d.file(filePlacementKey)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key was made: %v", err)
	}
}

func TestWriteReplacesAsAWhole(t *testing.T) {
	d := Dir{t.TempDir()}
	for _, text := range []string{"one", "two"} {
		if err := d.write("file", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := d.read("file"); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if files, _ := os.ReadDir(d.String()); len(files) != 1 {
		t.Errorf("%d files; temporary ones stay", len(files))
	}
	if err := (Dir{filepath.Join(d.String(), "none")}).write("file", nil); err == nil {
		t.Error("written into a directory that is not there")
	}
}

func TestFreePort(t *testing.T) {
	taken := map[int]bool{}
	only := 0
	for range 50 {
		port, err := freePort(taken)
		if err != nil {
			t.Fatal(err)
		}
		if port < lowestPort || port > highestPort || taken[port] {
			t.Fatalf("port %d", port)
		}
		taken[port], only = true, port
	}
	for port := lowestPort; port <= highestPort; port++ {
		taken[port] = true
	}
	if port, err := freePort(taken); err == nil {
		t.Errorf("port %d, though all are taken", port)
	}
	// All but one, on which somebody listens, are taken.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(only)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	delete(taken, only)
	if port, err := freePort(taken); err == nil {
		t.Errorf("port %d, on which somebody listens", port)
	}
}

func TestAWorkersPortIsFixedOnce(t *testing.T) {
	next := lowestPort
	free := func() (int, error) { next++; return next, nil }
	w := &door{}
	first, _ := w.choose(free)
	second, _ := w.choose(free)
	if first == second {
		t.Error("a port that did not work was not given up")
	}
	w.fix()
	if third, _ := w.choose(free); third != second {
		t.Error("the port changed although the router knows it")
	}
}

func TestTheGuardLeadsOrEnds(t *testing.T) {
	plan := testPlan(t)
	guard := exec.Command(plan.Worker, "guard", "--state-dir", t.TempDir())
	guard.Stdin = strings.NewReader("") // ends at once: a guard that leads would kill its group now
	out, err := guard.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not lead") {
		t.Errorf("a guard in the group of this test: %v, %s", err, out)
	}
}

func TestCounting(t *testing.T) {
	c := newCounting([]string{"s01", "s02"})
	ok := func(shard string) routing.Attempt { return routing.Attempt{Shard: shard, Status: 204} }
	gone := func(shard string) routing.Attempt { return routing.Attempt{Shard: shard, Err: errors.New("gone")} }
	for _, o := range []routing.Outcome{
		{Tenant: "a", Attempts: []routing.Attempt{ok("s01")}},
		{Tenant: "a", Fallbacks: 1, Attempts: []routing.Attempt{gone("s01"), ok("s02")}},
		{Tenant: "b", Fallbacks: 1, Attempts: []routing.Attempt{{Shard: "s01", Status: 503}, {Shard: "s02", Err: fmt.Errorf("late: %w", context.DeadlineExceeded)}}},
		{Tenant: "b", Attempts: []routing.Attempt{{Shard: "s02", Status: 404}}}, // an answer
		{Tenant: "b", Attempts: []routing.Attempt{{Shard: "s02", Status: 500}}},
		{Tenant: "a", Fallbacks: 1, Attempts: []routing.Attempt{{Shard: "s02", Err: fmt.Errorf("refused: %w", routing.ErrNotSent)}, ok("s01")}},
		{Tenant: "c"},
		{Tenant: "c", Left: true, Attempts: []routing.Attempt{{Shard: "s01", Err: context.Canceled, Left: true}}},
		{Tenant: "c", Left: true, Attempts: []routing.Attempt{gone("s01")}},
		{Tenant: "c", Left: true},
	} {
		c.observe(o)
	}
	want := Counters{
		Requests: 10, Refused: 1, Failures: 2, Fallbacks: 3,
		Shards:   map[string]ShardCounter{"s01": {6, 3, 0, 0}, "s02": {5, 3, 1, 1}},
		FellBack: map[string]int64{"a": 2, "b": 1},
		Suspects: map[string]int64{"b": 2},
	}
	c.suspect("b")
	c.suspect("b")
	got := c.snapshot()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	got.FellBack["a"] = 99
	if c.snapshot().FellBack["a"] != 2 {
		t.Error("a snapshot shares memory with the counters")
	}
}

func testQueues(t *testing.T) *jobqueue.Queues {
	t.Helper()
	q, err := jobqueue.Create(filepath.Join(t.TempDir(), "queues.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

func TestStoreSecretsHaveTheirScope(t *testing.T) {
	items, err := boltitems.Create(filepath.Join(t.TempDir(), "items.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	secrets := storeSecrets{Workers: "w", Router: "r", Operator: "o"}
	h := http.NewServeMux()
	h.Handle("/v1/directory/", directoryHandler(directory.NewMemory(), secrets))
	h.Handle("/", storeHandler(items, testQueues(t), secrets))
	const (
		entry   = `{"part":"TENANT#acme","sort":"ENTRY"}`
		history = `{"part":"TENANT#acme","sort":"LOG#1"}`
		batch   = `{"operation":"op","ops":[{"part":"TENANT#acme","sort":"ENTRY","put":true,"body":"e30="}]}`
	)
	for _, r := range []struct{ method, path, body, allowed string }{
		{"POST", "/v1/holds/hold", `{"cell":"eu-1","shard":"s01","holdings":[{"tenant":"a","epoch":1}]}`, "o"},
		{"POST", "/v1/items/write", `{"cell":"eu-1","shard":"s01","tenant":"a","epoch":1,"writes":[{"key":"1"}]}`, "wo"},
		{"GET", "/v1/items/held?cell=eu-1&shard=s01&tenant=a", "", "wo"},
		{"GET", "/v1/items?tenant=a&key=1", "", "wo"},
		{"GET", "/v1/items/keys?tenant=a", "", "wo"},
		{"POST", "/v1/directory/write", batch, "o"},
		{"POST", "/v1/directory/read", `{"keys":[` + entry + `]}`, "ro"},
		{"POST", "/v1/directory/read", `{"keys":[` + history + `]}`, "o"},
		{"POST", "/v1/directory/list", `{"family":"ENTRY","limit":1}`, "ro"},
		{"POST", "/v1/directory/list", `{"family":"LOG","limit":1}`, "o"},
		{"POST", "/v1/directory/changes", `{"after":"","limit":1}`, "ro"},
		{"POST", "/v1/holds/release", `{"cell":"eu-1","shard":"s01","holdings":[{"tenant":"acme","epoch":1}]}`, "o"},
		{"POST", "/v1/queues/send", `{"queue":"q","id":"1","group":"g"}`, "ro"},
		{"POST", "/v1/dispatch/eu-1", `{"id":"1","tenant":"a","epoch":1,"method":"POST","path":"/x"}`, "wo"},
		{"POST", "/v1/queues/stats", `{"queue":"q"}`, "ro"},
		{"POST", "/v1/holds/holdings", `{"cell":"eu-1","shard":"s01","limit":1}`, "o"},
	} {
		for _, secret := range []string{"o", "w", "r", "x"} {
			req := httptest.NewRequest(r.method, "http://127.0.0.1"+r.path, strings.NewReader(r.body))
			req.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if let, want := w.Code/100 == 2, strings.Contains(r.allowed, secret); let != want {
				t.Errorf("%s %s with secret %s: status %d, want let in: %t", r.method, r.path, secret, w.Code, want)
			}
		}
	}
}

func TestTheStoreWritesNothingTooLate(t *testing.T) {
	items, err := boltitems.Create(filepath.Join(t.TempDir(), "items.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	if err := items.Holds().Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: "a", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	h := storeHandler(items, testQueues(t), storeSecrets{Workers: "w"})
	for _, c := range []struct {
		deadline string
		status   int
		written  bool
	}{{"1", http.StatusGatewayTimeout, false}, {"32503680000000", http.StatusNoContent, true}} {
		body := `{"cell":"eu-1","shard":"s01","tenant":"a","epoch":1,"writes":[{"key":"1"}]}`
		req := httptest.NewRequest("POST", "http://127.0.0.1/v1/items/write", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer w")
		req.Header.Set(routing.HeaderDeadline, c.deadline)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if _, found, err := items.Get(t.Context(), "a", "1"); w.Code != c.status || found != c.written || err != nil {
			t.Errorf("deadline %s: answered %d; the item is there: %t, %v", c.deadline, w.Code, found, err)
		}
	}
}

// TestShardsOverTheStoresAddress holds the whole way of a shard to its state and its holdings, over HTTP to
// the store on disk, to the kit's contract: also that no write is made by a shard that does not hold the
// tenant.
func TestShardsOverTheStoresAddress(t *testing.T) {
	shardkittest.Run(t, func(t *testing.T) shardkittest.Shard {
		items, err := boltitems.Create(filepath.Join(t.TempDir(), "items.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { items.Close() })
		server := httptest.NewServer(storeHandler(items, testQueues(t), storeSecrets{Workers: "w", Router: "r", Operator: "o"}))
		t.Cleanup(server.Close)
		shard, err := itemhttp.New(server.URL, "w", "eu-1", "s01")
		if err != nil {
			t.Fatal(err)
		}
		holder, err := httpdir.NewHolds(server.URL, "o", nil)
		if err != nil {
			t.Fatal(err)
		}
		return shardkittest.Shard{
			Items: shard,
			Hold: func(tenant string, epoch uint64) error {
				return holder.Hold(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
			},
			Release: func(tenant string, epoch uint64) error {
				return holder.Release(t.Context(), "eu-1", "s01", directory.Holding{Tenant: tenant, Epoch: epoch})
			},
		}
	})
}
