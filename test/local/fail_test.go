package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// statusOf is local status --json.
func (c *cell) statusOf() (status struct {
	Cells     []string
	FrontDoor string
	Processes []localcell.ProcessStatus
	Counters  localcell.Counters
}) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.must("status", "--json")), &status); err != nil {
		c.t.Fatal(err)
	}
	return status
}

// loud starts traffic in open loop, and returns what waits for its end.
func (c *cell) loud(args ...string) (wait func() *traffic.LoadReport) {
	c.t.Helper()
	cmd := c.command(append([]string{"traffic", "--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return func() *traffic.LoadReport {
		c.t.Helper()
		err := cmd.Wait()
		var r traffic.LoadReport
		if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
			c.t.Fatalf("traffic: %v, %v\n%s", err, jsonErr, &errs)
		}
		if err != nil {
			c.t.Errorf("traffic: %v\n%s", err, &errs)
		}
		return &r
	}
}

// TestTwoCellsThatHurt breaks shards of two cells behind a front door in every way while their tenants send
// reads, writes and jobs.
func TestTwoCellsThatHurt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants.csv")
	var lines strings.Builder
	lines.WriteString("tenant,load\n")
	for i := range 60 {
		fmt.Fprintf(&lines, "org-%02d,%d\n", i, 60-i)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCell(t)
	r := c.up("--cells", "2", "--tenants", file)

	other := filepath.Join(t.TempDir(), "other.csv")
	if err := os.WriteFile(other, []byte("tenant,load\nstranger,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		words string
		args  []string
	}{
		{"may be any of eu-1/s07, us-1/s07", []string{"fail", "shard", "7", "--how", "kill"}},
		{"no such shard", []string{"fail", "shard", "eu-1/99", "--how", "kill"}},
		{"may be any of eu-1/s07, us-1/s07", []string{"break", "s07"}},
		{"no such shard", []string{"break", "eu-1/99"}},
		{"--break: \"7\" may be any of", []string{"traffic", "--break", "7"}},
		{"which shard", []string{"fail", "shard", "--how", "kill"}},
		{"which keeper", []string{"fail", "keeper", "--how", "kill"}},
		{"want shard CELL/SHARD", []string{"heal", "router"}},
		{"fails by kill, hang, not by \"slow\"", []string{"fail", "store", "--how", "slow"}},
		{"500 to 599", []string{"fail", "shard", "eu-1/7", "--how", "errors", "--status", "404"}},
		{"which tenant", []string{"heal", "tenant"}},
		{"is not in the directory", []string{"heal", "tenant", "nobody"}},
		{"is not in the directory", []string{"poison", "stranger"}},
		{"is not an active tenant here", []string{"traffic", "--rps", "1", "--for", "1s", "--tenants", other}},
	} {
		c.refused(2, refused.words, refused.args...)
	}

	wait := c.loud("--tenants", file, "--rps", "60", "--for", "9s", "--seed", "11")
	time.Sleep(500 * time.Millisecond)
	for i, how := range []string{"kill", "hang", "slow", "throttle", "errors"} {
		shard := fmt.Sprintf("eu-1/s%02d", 2*i+1)
		args := []string{"fail", "shard", fmt.Sprintf("eu-1/%d", 2*i+1), "--how", how}
		if out := c.must(args...); !strings.Contains(out, shard+" fails by "+how) || !strings.Contains(out, " --state-dir "+c.state) {
			t.Errorf("fail: %s", out)
		}
		if out := c.must(args...); !strings.Contains(out, "as it was already") { // the same again is no error
			t.Errorf("fail again: %s", out)
		}
		if p := c.process(shard); p.Fault == nil || p.Fault.How != how {
			t.Errorf("status of %s: %+v", shard, p)
		}
		if out := c.must("status"); !strings.Contains(out, "fails by "+how) {
			t.Errorf("the status in text does not show %s:\n%s", how, out)
		}
		time.Sleep(600 * time.Millisecond)
		if out := c.must("heal", "shard", shard); !strings.Contains(out, shard+" is whole") {
			t.Errorf("heal: %s", out)
		}
	}
	report := wait()
	t.Logf("%d requests of %d tenants: %d failed, %d unclear, latency %+v; %d writes and %d jobs acknowledged", report.Requests, report.Tenants,
		report.Failures, report.Unclear, report.Latency, report.Acknowledged, report.Jobs)
	if report.Fault() != nil || report.Acknowledged == 0 || report.Jobs == 0 || report.Requests < 300 {
		t.Errorf("report %v: %+v", report.Fault(), report)
	}
	if out := c.must("heal"); !strings.Contains(out, "nothing was broken") {
		t.Errorf("heal of what is whole: %s", out)
	}
	status := c.statusOf()
	if !slices.Equal(status.Cells, []string{"eu-1", "us-1"}) || status.FrontDoor != r.Router {
		t.Errorf("cells %v behind %s", status.Cells, status.FrontDoor)
	}
	for _, p := range status.Processes {
		if p.State != "ready" || p.Fault != nil {
			t.Errorf("after all: %+v", p)
		}
	}

	t.Run("ServesFromTheSnapshot", func(t *testing.T) { servesFromTheSnapshot(t, &cell{t, c.state}) })
	t.Run("Poison", func(t *testing.T) { poison(t, &cell{t, c.state}, file) })
}

// servesFromTheSnapshot has routers start while directory, issuer and keepers are down.
func servesFromTheSnapshot(t *testing.T, c *cell) {
	r := c.running()
	tokens, err := r.Tokens(t.Context(), "org-00", "org-01", "org-02", "org-03")
	if err != nil {
		t.Fatal(err)
	}
	c.must("fail", "directory", "--how", "kill")
	c.must("fail", "issuer", "--how", "hang")
	for _, name := range []string{"eu-1", "us-1"} {
		c.must("fail", "keeper", name, "--how", "kill")
		was := c.process(name + "/router")
		if err := was.Kill(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if now := c.process(name + "/router"); now.PID != was.PID && now.State == "ready" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the router of %s does not come back", name)
			}
		}
	}
	served := 0
	for _, token := range tokens { // each is of one of the cells, in turn
		for _, behind := range r.Cells {
			switch resp := ask(t, "PUT", behind.Router+"/orders/snapshot", "Bearer "+token, "hello"); resp.StatusCode {
			case http.StatusNoContent:
				served++
			case http.StatusServiceUnavailable: // nobody says that the tenant is another cell's
			default:
				t.Errorf("cell %s: status %d", behind.Cell, resp.StatusCode)
			}
		}
	}
	if served != len(tokens) {
		t.Errorf("%d of %d tenants were served", served, len(tokens))
	}
	if age := c.statusOf().Counters.SnapshotAge; age == nil {
		t.Error("the age of the snapshot is not told")
	}
	out := c.must("heal")
	for _, name := range []string{"directory", "issuer", "eu-1/keeper", "us-1/keeper"} {
		if !strings.Contains(out, name+" is whole") {
			t.Errorf("heal: %s", out)
		}
	}
}

// poison has one tenant kill whoever serves it: no other tenant's requests fail.
func poison(t *testing.T, c *cell, file string) {
	if out := c.must("poison", "org-00"); !strings.Contains(out, `each request of tenant "org-00" kills`) {
		t.Errorf("poison: %s", out)
	}
	others := filepath.Join(t.TempDir(), "others.csv")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(others, []byte(strings.Replace(string(text), "org-00,60\n", "", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	starts := func() (all int) {
		for _, p := range c.statusOf().Processes {
			if p.Address != "" {
				all += p.Starts
			}
		}
		return all
	}
	before := starts()
	wait := c.loud("--tenants", others, "--rps", "50", "--for", "3s")
	token := "Bearer " + strings.TrimSpace(c.must("token", "org-00"))
	for range 3 {
		if resp := ask(t, "GET", c.running().Router+"/orders/1", token, ""); resp.StatusCode < 500 {
			body, _ := io.ReadAll(resp.Body)
			t.Errorf("a request that kills whoever serves it was answered %d %s", resp.StatusCode, body)
		}
	}
	report := wait()
	if report.Failures > 0 || report.Lost > 0 || report.Doubled > 0 {
		t.Errorf("others: %d failures, %d lost, %d doubled; %+v", report.Failures, report.Lost, report.Doubled, report.Failed())
	}
	if after := starts(); after == before {
		t.Error("no worker was killed")
	}
	if out := c.must("heal", "tenant", "org-00"); !strings.Contains(out, "poisonous no more") {
		t.Errorf("heal: %s", out)
	}
	for _, p := range c.statusOf().Processes {
		if strings.HasSuffix(p.Name, ".gate") {
			t.Errorf("a gate is left: %+v", p)
		}
	}
}

// TestAStateOfBefore starts a cell from what a version without queues, keepers and several cells left.
func TestAStateOfBefore(t *testing.T) {
	c := newCell(t)
	c.must("up", "--cell", "eu-canary")
	r := c.running()
	token := "Bearer " + strings.TrimSpace(c.must("token", "acme"))
	if resp := ask(t, "PUT", r.Router+"/orders/1", token, "hello"); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status)
	}
	c.must("down")
	var layout struct{ Cells []json.RawMessage }
	path := filepath.Join(c.state, "plan.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &layout)
	}
	if err != nil || len(layout.Cells) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	if err := os.WriteFile(path, layout.Cells[0], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"queues.db", "snapshot", "snapshot-keys", "snapshot.lock"} {
		if err := os.Remove(filepath.Join(c.state, name)); err != nil {
			t.Fatal(err)
		}
	}
	r = c.up("--cell", "eu-canary")
	token = "Bearer " + strings.TrimSpace(c.must("token", "acme"))
	resp := ask(t, "GET", r.Router+"/orders/1", token, "")
	if answer, err := io.ReadAll(resp.Body); string(answer) != "hello" || err != nil {
		t.Errorf("GET: %s, %q, %v", resp.Status, answer, err)
	}
}
