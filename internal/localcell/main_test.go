package localcell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/localcell/proc"
	"cellwall.dev/cellwall/internal/routing"
	"cellwall.dev/cellwall/internal/sample"
)

// asProcess makes this test's executable a process of a cell instead of a test.
const asProcess = "CELLWALL_TEST_AS_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := process(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is what cellwall's hidden commands do, and without arguments the sample worker.
func process(ctx context.Context, args []string) error {
	if len(args) == 0 {
		parts, err := sample.FromEnvironment(ctx, os.Getenv)
		if err != nil {
			return err
		}
		return sample.Serve(ctx, os.Getenv, parts.Service, func(net.Addr) {})
	}
	d, err := NewDir(args[2])
	if err != nil {
		return err
	}
	switch args[0] {
	case "supervise":
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return Supervise(ctx, d, []string{self})
	case "guard":
		return RunGuard(ctx, os.Stdin)
	case "directory":
		return RunDirectory(ctx, d)
	case "store":
		return RunStore(ctx, d)
	case "router", "keeper":
		of := ""
		if len(args) == 5 {
			of = args[4] // --of
		}
		if args[0] == "keeper" {
			return RunKeeper(ctx, d, of)
		}
		return RunRouter(ctx, d, of)
	case "issuer":
		return RunIssuer(ctx, d)
	case "frontdoor":
		return RunFrontDoor(ctx, d)
	case "gate":
		return RunGate(ctx, d)
	}
	return fmt.Errorf("no process %q", args[0])
}

// testPlan is a cell of three shards, served by this test's executable.
func testPlan(t *testing.T) Plan {
	t.Helper()
	t.Setenv(asProcess, "1")
	// The race detector waits a second at the end of each process, for races that are still to be printed.
	t.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Plan{
		Service: "orders", Cell: "eu-1", Audience: "orders", Claim: "tenant_id", HealthPath: "/healthz", Worker: self, Queue: QueuePlan{MaxReceive: 3, Consumers: 2},
		Routes: []routing.Route{{Path: "/jobs/*", Via: routing.ViaQueue}, {Path: "/*", Via: routing.ViaLambda}},
		Topology: directory.Topology{
			Cell: "eu-1", Version: 1, Scheme: "rendezvous/v1", KBySize: map[string]int{"": 2}, KeyVersion: "1",
			Shards: []directory.Shard{inUse("s01"), inUse("s02"), inUse("s03")},
		},
	}
}

func inUse(shard string) directory.Shard {
	return directory.Shard{ID: shard, Weight: 1, State: directory.InUse}
}

var testTenants = []string{"acme", "globex", "initech", "ümbrella"}

// cell is a running cell that ends with its test.
type cell struct {
	*Running
	t   *testing.T
	dir Dir
}

func up(t *testing.T) *cell {
	t.Helper()
	d, err := NewDir(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	return upIn(t, d, testPlan(t))
}

func upIn(t *testing.T, d Dir, plan Plan) *cell {
	t.Helper()
	r, _, err := d.Up(t.Context(), plan.Alone(), testTenants, []string{plan.Worker})
	if err != nil {
		t.Fatalf("up: %v\nsupervisor's log:\n%s", err, d.tail("supervisor"))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("supervisor's log:\n%s", d.tail("supervisor"))
		}
		processes := r.processes()
		if now, err := d.traces(); err == nil {
			processes = append(processes, now.processes()...)
		}
		// The test's own context has ended by now.
		if err := d.Down(context.Background(), false); err != nil && !errors.Is(err, ErrNotRunning) && !errors.Is(err, ErrNotState) {
			t.Errorf("down: %v", err)
		}
		allGone(t, processes)
		noRaces(t, d)
	})
	return &cell{r, t, d}
}

func allGone(t *testing.T, processes []proc.Process) {
	t.Helper()
	eventually(t, "every process is gone", func() bool {
		return !slices.ContainsFunc(processes, proc.Process.Alive)
	})
}

// noRaces looks into the logs of the cell's processes, which run under this test's race detector.
func noRaces(t *testing.T, d Dir) {
	t.Helper()
	logs, err := filepath.Glob(d.Log("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("DATA RACE")) {
			t.Errorf("%s:\n%s", log, text)
		}
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// statusOf is the status of one process of the cell.
func (c *cell) statusOf(name string) ProcessStatus {
	c.t.Helper()
	all, err := c.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	c.t.Fatalf("no process %s", name)
	return ProcessStatus{}
}

func (c *cell) token(tenant string) string {
	c.t.Helper()
	tokens, err := c.Tokens(c.t.Context(), tenant)
	if err != nil {
		c.t.Fatal(err)
	}
	return tokens[0]
}

// ask sends one request to the router.
func (c *cell) ask(token, method, path, body string) (status int, answer string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.Router+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (c *cell) wants(want int, token, method, path, body string) string {
	c.t.Helper()
	got, answer := c.ask(token, method, path, body)
	if got != want {
		c.t.Fatalf("%s %s: status %d, want %d\n%s", method, path, got, want, answer)
	}
	return answer
}
