package localcell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

// TestOneCell puts all to one cell that leaves it as good as new, since starting one takes a while.
func TestOneCell(t *testing.T) {
	c := up(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cell)
	}{
		{"ServesItsTenantsAndNobodyElse", servesItsTenantsAndNobodyElse},
		{"ASecondUpIsRefused", aSecondUpIsRefused},
		{"BreakRefuses", breakRefuses},
		{"SecretsStayInFilesOfTheirOwner", secretsStayInFilesOfTheirOwner},
		{"AddressesAreGuarded", addressesAreGuarded},
		{"ABrokenShardStaysDownUntilItIsRestored", aBrokenShardStaysDownUntilItIsRestored},
		{"ABreakEndsByItself", aBreakEndsByItself},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, &cell{c.Running, t, c.dir})
		})
	}
}

func servesItsTenantsAndNobodyElse(t *testing.T, c *cell) {
	acme, other := c.token("acme"), c.token("ümbrella")
	c.wants(http.StatusNoContent, acme, "PUT", "/orders/1", "hello")
	if got := c.wants(http.StatusOK, acme, "GET", "/orders/1", ""); got != "hello" {
		t.Errorf("read %q", got)
	}
	c.wants(http.StatusNotFound, other, "GET", "/orders/1", "")
	if got := c.wants(http.StatusOK, other, "GET", "/orders", ""); strings.TrimSpace(got) != "[]" {
		t.Errorf("another tenant's orders: %s", got)
	}
	c.wants(http.StatusUnauthorized, "", "GET", "/orders/1", "")
	c.wants(http.StatusUnauthorized, acme+"x", "GET", "/orders/1", "")
	c.wants(http.StatusNotFound, c.token("stranger"), "GET", "/orders/1", "")
	if answer := c.wants(http.StatusAccepted, acme, "POST", "/jobs/1", "result"); !strings.Contains(answer, `"job":"`) {
		t.Errorf("accepted with %s", answer)
	}
	counters, err := c.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var attempts int64
	for _, s := range counters.Shards {
		attempts += s.Attempts
	}
	// The engine saw acme twice, the other one twice, the stranger once and the job once; tokens that do
	// not verify never get that far.
	if counters.Requests != 6 || counters.Refused != 1 || attempts != 5 || counters.Fallbacks != 0 {
		t.Errorf("counters %+v", counters)
	}
	eventually(t, "the job is done", func() bool {
		status, answer := c.ask(acme, "GET", "/jobs/1", "")
		return status == http.StatusOK && answer == "result"
	})
}

func aSecondUpIsRefused(t *testing.T, c *cell) {
	plan := testPlan(t)
	if _, _, err := c.dir.Up(t.Context(), plan.Alone(), nil, []string{plan.Worker}); !errors.Is(err, ErrRunning) {
		t.Errorf("second up: %v, want %q", err, ErrRunning)
	}
	c.wants(http.StatusOK, c.token("acme"), "GET", "/orders", "") // the first one goes on
}

func TestDataAndPlacementSurviveDownAndUp(t *testing.T) {
	c := up(t)
	c.wants(http.StatusNoContent, c.token("acme"), "PUT", "/orders/1", "hello")
	before := c.subsets()
	if err := c.dir.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	allGone(t, c.processes())
	if _, err := c.dir.Find(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after down: %v", err)
	}
	if err := c.dir.Down(t.Context(), false); !errors.Is(err, ErrNotRunning) {
		t.Errorf("second down: %v", err)
	}

	c = upIn(t, c.dir, testPlan(t))
	if got := c.wants(http.StatusOK, c.token("acme"), "GET", "/orders/1", ""); got != "hello" {
		t.Errorf("read %q after down and up", got)
	}
	if diff := cmp.Diff(before, c.subsets()); diff != "" {
		t.Errorf("tenants moved (-before +after):\n%s", diff)
	}

	if err := c.dir.Down(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after purge: %v", err)
	}
}

// subsets are those of the cell's tenants, as its operator sees them.
func (c *cell) subsets() map[string][]string {
	c.t.Helper()
	r, err := c.dir.residence(c.t.Context(), c.Running)
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string][]string{}
	for _, tenant := range testTenants {
		e, err := r.Get(c.t.Context(), tenant)
		if err != nil {
			c.t.Fatal(err)
		}
		if all[tenant], err = r.Subset(c.t.Context(), e); err != nil || len(all[tenant]) != 2 {
			c.t.Fatalf("subset %v of %s, %v", all[tenant], tenant, err)
		}
	}
	return all
}

func TestAKilledWorkerComesBackAndOthersStay(t *testing.T) {
	c := up(t)
	before := map[string]ProcessStatus{}
	for _, p := range c.Processes {
		before[p.Name] = p
	}
	victim := before["s02"]
	if err := (proc.Process{PID: victim.PID, Start: victim.Start}).Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "s02 is ready again", func() bool {
		now := c.statusOf("s02")
		return now.Starts == 2 && now.State == string(childReady)
	})
	for name, b := range before {
		now := c.statusOf(name)
		if same := now.PID == b.PID; same == (name == "s02") {
			t.Errorf("%s: process %d before, %d now", name, b.PID, now.PID)
		}
		if now.Address != b.Address {
			t.Errorf("%s moved from %s to %s", name, b.Address, now.Address)
		}
	}
	eventually(t, "the state file has the new process", func() bool {
		r, err := c.dir.Find()
		return err == nil && slices.ContainsFunc(r.Processes, func(p ProcessStatus) bool { return p.Name == "s02" && p.PID == c.statusOf("s02").PID })
	})
}

func TestPoisonKillsOneWorkerOnly(t *testing.T) {
	c := up(t)
	token := c.token("acme")
	starts := func() (all int) {
		for _, id := range []string{"s01", "s02", "s03"} {
			all += c.statusOf(id).Starts
		}
		return all
	}
	before := starts()
	// It must not be repeated: a second worker would die of it.
	c.wants(http.StatusBadGateway, token, "POST", "/poison", "")
	eventually(t, "one worker was started again", func() bool { return starts() == before+1 })
	c.wants(http.StatusNoContent, token, "PUT", "/orders/1", "after the poison")
}

func aBrokenShardStaysDownUntilItIsRestored(t *testing.T, c *cell) {
	starts := c.statusOf("s02").Starts
	b, err := c.Break(t.Context(), "s02", maxHold)
	if err != nil {
		t.Fatal(err)
	}
	if b.PID == 0 {
		t.Error("no process was killed")
	}
	held := c.statusOf("s02")
	if held.State != string(childHeld) || held.PID != 0 || held.HeldUntil == nil {
		t.Errorf("broken shard: %+v", held)
	}
	for _, tenant := range testTenants {
		token := c.token(tenant)
		for range 5 {
			c.wants(http.StatusNoContent, token, "PUT", "/orders/1", "while s02 is down")
		}
	}
	if now := c.statusOf("s02"); now.State != string(childHeld) || now.Starts != starts {
		t.Errorf("during the break: %+v", now)
	}
	if again, err := c.Break(t.Context(), "s02", maxHold); err != nil || again.PID != 0 {
		t.Errorf("breaking what is broken: %+v, %v", again, err)
	}
	if err := c.Restore(t.Context(), "s02"); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitShard(t.Context(), "s02"); err != nil {
		t.Fatal(err)
	}
	if now := c.statusOf("s02"); now.Starts != starts+1 || now.HeldUntil != nil {
		t.Errorf("after the break: %+v", now)
	}
}

func aBreakEndsByItself(t *testing.T, c *cell) {
	if _, err := c.Break(t.Context(), "s02", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitShard(t.Context(), "s02"); err != nil {
		t.Fatal(err)
	}
}

func breakRefuses(t *testing.T, c *cell) {
	for _, b := range []breakRequest{{"s99", time.Second}, {"", time.Second}, {"router", time.Second}, {"s01", 0}, {"s01", -1}, {"s01", maxHold + 1}} {
		if _, err := c.Break(t.Context(), b.Shard, b.For); !Refused(err) {
			t.Errorf("%+v: %v, want a refusal", b, err)
		}
	}
	if err := c.Restore(t.Context(), "s99"); !Refused(err) {
		t.Errorf("restore s99: %v, want a refusal", err)
	}
	if _, err := c.Tokens(t.Context(), ""); !Refused(err) {
		t.Errorf("token of nobody: %v, want a refusal", err)
	}
}

func TestNothingOutlivesTheSupervisor(t *testing.T) {
	c := up(t)
	all := c.processes()
	if err := c.Supervisor.Kill(); err != nil {
		t.Fatal(err)
	}
	allGone(t, all)
	if _, err := c.dir.Find(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("find: %v, want %q", err, ErrNotRunning)
	}
	// What it left behind is no obstacle.
	c = upIn(t, c.dir, testPlan(t))
	c.wants(http.StatusNoContent, c.token("acme"), "PUT", "/orders/1", "again")
}

func TestTheCellEndsWithItsGuard(t *testing.T) {
	c := up(t)
	if err := c.Guard.Kill(); err != nil {
		t.Fatal(err)
	}
	allGone(t, c.processes())
}

func TestTheStoreComesBackWithItsData(t *testing.T) {
	c := up(t)
	token := c.token("acme")
	c.wants(http.StatusNoContent, token, "PUT", "/orders/1", "hello")
	store := c.statusOf(nameStore)
	if err := (proc.Process{PID: store.PID, Start: store.Start}).Kill(); err != nil {
		t.Fatal(err)
	}
	// A request that comes meanwhile may be answered with 503; the supervisor holds the socket, so that
	// none is refused for ever.
	eventually(t, "acme is served again", func() bool {
		status, answer := c.ask(token, "GET", "/orders/1", "")
		if status == http.StatusNotFound || status == http.StatusOK && answer != "hello" {
			t.Fatalf("status %d, %q", status, answer)
		}
		return status == http.StatusOK
	})
}

func TestSweepKillsWhatIsLeftAndNobodyElse(t *testing.T) {
	d := Dir{t.TempDir()}
	left := exec.Command("sleep", "60")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { left.Wait(); close(ended) }()
	t.Cleanup(func() { left.Process.Kill(); <-ended })
	p, err := proc.Of(left.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// The second one's pid is that of this test by now, as if it had been given again.
	err = d.writeJSON(fileRunning, Running{Supervisor: proc.Process{PID: os.Getpid(), Start: "long ago"}, Processes: []ProcessStatus{
		{Name: "s01", PID: p.PID, Start: p.Start}, {Name: "s02", PID: os.Getpid(), Start: "long ago"}, {Name: "s03"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.sweep(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if _, err := d.traces(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the traces are still there: %v", err)
	}
}

func TestACellThatCannotStartSaysWhy(t *testing.T) {
	d := Dir{filepath.Join(t.TempDir(), "state")}
	plan := testPlan(t)
	self := []string{plan.Worker}
	plan.Worker = filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(plan.Worker, []byte("#!/bin/sh\necho no such table >&2\nexit 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Up(t.Context(), plan.Alone(), nil, self); !errors.Is(err, ErrWorker) {
		t.Errorf("worker that is no program: %v", err)
	}
	if err := os.Chmod(plan.Worker, 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := d.Up(t.Context(), plan.Alone(), nil, self)
	if err == nil || !strings.Contains(err.Error(), "does not start: exit status 7") || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("worker that ends at once: %v", err)
	}
	if _, err := os.Stat(d.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the failed start left its state: %v", err)
	}
	upIn(t, d, testPlan(t)) // the lock is free, and nothing is half-started
}

// A start that fails in a cell's directory of old keeps the cell's data.
func TestAFailedStartKeepsAnOldCell(t *testing.T) {
	c := up(t)
	c.wants(http.StatusNoContent, c.token("acme"), "PUT", "/orders/1", "hello")
	if err := c.dir.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	plan := testPlan(t)
	plan.Worker = "/bin/false"
	if _, _, err := c.dir.Up(t.Context(), plan.Alone(), nil, []string{testPlan(t).Worker}); err == nil {
		t.Fatal("a cell of /bin/false started")
	}
	c = upIn(t, c.dir, testPlan(t))
	if got := c.wants(http.StatusOK, c.token("acme"), "GET", "/orders/1", ""); got != "hello" {
		t.Errorf("read %q", got)
	}
}

func secretsStayInFilesOfTheirOwner(t *testing.T, c *cell) {
	files, err := filepath.Glob(filepath.Join(c.dir.String(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(c.dir.String(), dirLogs, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, logs...) {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", f, info.Mode().Perm())
		}
	}
	var keys map[string]string
	if err := c.dir.readJSON(filePlacementKey, &keys); err != nil {
		t.Fatal(err)
	}
	var settings routerSettings
	if err := c.dir.readJSON(fileRouter, &settings); err != nil {
		t.Fatal(err)
	}
	secrets := []string{keys["1"], c.Secret, settings.StoreSecret, settings.WorkerSecret}
	c.wants(http.StatusNoContent, c.token("acme"), "PUT", "/orders/1", "hello")
	for _, p := range c.processes() {
		args := arguments(t, p.PID)
		for _, s := range secrets {
			if s == "" || strings.Contains(args, s) {
				t.Errorf("process %d was given a secret as argument", p.PID)
			}
		}
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(string(text), s) {
				t.Errorf("%s shows a secret", log)
			}
		}
	}
}

// arguments is the command line of a process: from /proc, or from ps where that is not.
func arguments(t *testing.T, pid int) string {
	t.Helper()
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) {
		args, err = exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	}
	if err != nil || len(args) == 0 {
		t.Fatalf("arguments of process %d: %q, %v", pid, args, err)
	}
	return string(args)
}

// addressesAreGuarded asks every address of a running cell as another user of the machine would, and
// as a web page would.
func addressesAreGuarded(t *testing.T, c *cell) {
	worker := c.statusOf("s01").Address
	type listing struct {
		Family string `json:"family"`
		Limit  int    `json:"limit"`
	}
	for _, address := range []struct {
		method, url string
		in          any
	}{
		{"GET", c.Control + "/v1/status", nil}, {"GET", c.Admin + "/v1/counters", nil},
		{"GET", c.Store + "/v1/items/keys?tenant=acme", nil}, {"POST", c.DirectoryURL + "/v1/directory/list", listing{"ENTRY", 1}},
	} {
		url := address.url
		base, path := url[:strings.Index(url, "/v1")], url[strings.Index(url, "/v1"):]
		var refused *loopback.StatusError
		if err := loopback.NewClient(base, "guess").Do(t.Context(), address.method, path, address.in, nil); !errors.As(err, &refused) || refused.Status != 401 {
			t.Errorf("%s without the secret: %v", url, err)
		}
		if err := loopback.NewClient(base, c.Secret).Do(t.Context(), address.method, path, address.in, nil); err != nil {
			t.Errorf("%s with the secret: %v", url, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), address.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rebound.example"
		req.Header.Set("Authorization", "Bearer "+c.Secret)
		if got := statusOf(t, req); got != http.StatusForbidden {
			t.Errorf("%s under a foreign name: status %d, want 403", url, got)
		}
	}
	// A worker believes the router only.
	req, err := http.NewRequestWithContext(t.Context(), "GET", worker+"/orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cellwall-Tenant", "acme")
	req.Header.Set("Cellwall-Shard", "s01")
	if got := statusOf(t, req); got != http.StatusForbidden {
		t.Errorf("a worker asked by anybody: status %d, want 403", got)
	}
	// The published key is public, and only the public part of it.
	resp, err := http.Get(c.Issuer + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var set struct{ Keys []map[string]any }
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("keys %v, %v", set, err)
	}
	if _, private := set.Keys[0]["d"]; private {
		t.Error("the issuer publishes its private key")
	}
}

func statusOf(t *testing.T, req *http.Request) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
