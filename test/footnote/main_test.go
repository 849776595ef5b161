// Package footnote holds the one promise by test, over the processes that a user runs: a single bad shard is a
// footnote. A cell of 16 shards with two for each of 2,000 tenants is broken in every way under load.
//
// The tests have a short form, which is part of `make test`, and a long one, which `make soak` runs:
//
//	go test ./test/footnote -soak 5m
package footnote

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/traffic"
)

// soak is how long the soak lasts; with it the other tests run in their long form. 0 is the short form.
var soak = flag.Duration("soak", 0, "how long the soak lasts; the other tests run in their long form, too")

// bin is where the programs under test are, built once. They are raced when this test is, but for the workers,
// which are many.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	if bin, err = os.MkdirTemp("", "cellwall-footnote-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	for name, args := range map[string][]string{"cellwall": append(race(), "cellwall.dev/cellwall/cmd/cellwall"), "worker": {"cellwall.dev/cellwall/lambda/worker-http"}} {
		args = append([]string{"build", "-o", filepath.Join(bin, name)}, args...)
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return m.Run(), nil
}

// race has the programs raced where the soak asks for it.
func race() []string {
	if raced && *soak > 0 {
		return []string{"-race"}
	}
	return nil
}

// tenants is how many a cell has here, and load how many requests a second they send together.
const (
	tenants = 2000
	load    = 120
)

// long is how long a fault lasts: the first in the short form, the second in the long one.
func long(short, long time.Duration) time.Duration {
	if *soak > 0 {
		return long
	}
	return short
}

// cell is a cell that runs, or several, with what a test knows of it as its operator.
type cell struct {
	testing.TB
	dir     localcell.Dir
	running *localcell.Running
	all     []traffic.Tenant // with their subsets
	load    traffic.Load     // of all of them alike
}

// newCell starts a cell with as many tenants.
func newCell(t testing.TB, tenants int, args ...string) *cell {
	t.Helper()
	folder := t.TempDir()
	var ids []string
	for n := range tenants {
		ids = append(ids, fmt.Sprintf("tenant-%04d", n))
	}
	file := filepath.Join(folder, "tenants")
	if err := os.WriteFile(file, []byte(strings.Join(ids, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, "state")
	d, err := localcell.NewDir(state)
	if err != nil {
		t.Fatal(err)
	}
	c := &cell{TB: t, dir: d}
	up := append([]string{"local", "up", "--fleet", c.fleet(folder), "--state-dir", state, "--tenants", file}, args...)
	if out, err := exec.Command(filepath.Join(bin, "cellwall"), up...).CombinedOutput(); err != nil {
		t.Fatalf("local up: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		c.noRaces(state)
		if err := d.Down(context.Background(), false); err != nil {
			t.Error(err)
		}
	})
	c.running, err = d.Find()
	c.must(err)
	config, err := d.Traffic(t.Context(), c.running, 0, "")
	c.must(err)
	c.all = config.Tenants
	loads := make([]float64, len(ids))
	for i := range loads {
		loads[i] = 1
	}
	c.load, err = d.LoadTraffic(t.Context(), c.running, ids, loads)
	c.must(err)
	c.load.RPS, c.load.AtOnce = load, 512
	if len(c.all) != tenants || !c.load.Keyed {
		t.Fatalf("%d tenants, keyed: %t", len(c.all), c.load.Keyed)
	}
	return c
}

// fleet is the file of the fleet. In the long form an attempt has twice the time, for a machine on which raced
// processes, their store among them, have to wait for a processor or the disk.
func (c *cell) fleet(folder string) string {
	c.Helper()
	text, err := os.ReadFile("testdata/fleet.yaml")
	c.must(err)
	if *soak > 0 {
		text = bytes.Replace(text, []byte("attemptTimeout: 2s"), []byte("attemptTimeout: 4s"), 1)
	}
	path := filepath.Join(folder, "fleet.yaml")
	c.must(os.WriteFile(path, text, 0o600))
	return path
}

func (c *cell) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// noRaces fails the test when a process of the cell wrote that it met a data race.
func (c *cell) noRaces(state string) {
	logs, err := filepath.Glob(filepath.Join(state, "logs", "*"))
	if err != nil || len(logs) == 0 {
		c.Errorf("no logs, %v", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			c.Error(err)
		}
		if _, race, found := bytes.Cut(text, []byte("WARNING: DATA RACE")); found {
			c.Errorf("%s: DATA RACE%.4000s", filepath.Base(log), race)
		}
	}
}

// fail breaks a process, and heal makes all whole.
func (c *cell) fail(process, how string) {
	c.Helper()
	_, err := c.running.Fail(c.Context(), process, localcell.Fault{How: how})
	c.must(err)
}

func (c *cell) heal() {
	c.Helper()
	_, err := c.running.Heal(c.Context(), "")
	c.must(err)
}

func (c *cell) counters() localcell.Counters {
	c.Helper()
	n, err := c.running.Counters(c.Context())
	c.must(err)
	return n
}

// of are the tenants of whom a question is true.
func (c *cell) of(is func(traffic.Tenant) bool) map[string]bool {
	some := map[string]bool{}
	for _, t := range c.all {
		if is(t) {
			some[t.ID] = true
		}
	}
	return some
}

// only are these tenants.
func (c *cell) only(some map[string]bool) []traffic.Tenant {
	return slices.DeleteFunc(slices.Clone(c.all), func(t traffic.Tenant) bool { return !some[t.ID] })
}

// send sends a load, and does something meanwhile, from when the first request was answered.
func (c *cell) send(l traffic.Load, meanwhile func()) *traffic.LoadReport {
	c.Helper()
	begun := make(chan struct{})
	var once sync.Once
	observe := l.Observe
	l.Observe = func(o traffic.Observed) {
		once.Do(func() { close(begun) })
		if observe != nil {
			observe(o)
		}
	}
	type outcome struct {
		report *traffic.LoadReport
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		report, err := traffic.RunLoad(c.Context(), l)
		ended <- outcome{report, err}
	}()
	select {
	case <-begun:
		meanwhile()
	case o := <-ended:
		c.Fatalf("the load ended before its first answer: %v", o.err)
	}
	o := <-ended
	if o.err != nil {
		c.Errorf("load: %v", o.err)
	}
	if o.report == nil {
		c.FailNow()
	}
	return o.report
}

// sweep asks once for each tenant, several at a time, and returns the statuses.
func (c *cell) sweep(tenants []traffic.Tenant) map[string]int {
	c.Helper()
	statuses := map[string]int{}
	var mu sync.Mutex
	work := make(chan traffic.Tenant)
	var workers sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for range 16 {
		workers.Go(func() {
			for t := range work {
				status, _ := c.do(client, t.Token, http.MethodGet, "/orders", "")
				mu.Lock()
				statuses[t.ID] = status
				mu.Unlock()
			}
		})
	}
	for _, t := range tenants {
		work <- t
	}
	close(work)
	workers.Wait()
	return statuses
}

// do sends a tenant's request, and returns what it was answered; no answer is status 0.
func (c *cell) do(client *http.Client, token, method, path, body string) (status int, answer string) {
	req, err := http.NewRequest(method, c.running.Router+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		c.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Error(err)
	}
	return resp.StatusCode, string(text)
}

// want checks what must hold of every load, whatever was broken meanwhile: nothing that is safe to repeat failed,
// and nothing that was acknowledged is lost or was done twice.
func (c *cell) want(r *traffic.LoadReport) {
	c.Helper()
	c.Logf("%d requests of %d tenants, %.0f a second: %d failed, %d jobs unclear; %d writes and %d jobs acknowledged, %d lost, %d and %d doubled; median %.1f ms, 99 %% within %.1f ms, all within %.1f ms; seed %d",
		r.Requests, r.Tenants, r.RPS, r.Failures, r.Unclear, r.Acknowledged, r.Jobs, r.Lost, r.Doubled, r.JobsDoubled, r.Latency.Median, r.Latency.P99, r.Latency.Max, r.Seed)
	if err := r.Fault(); err != nil {
		c.Errorf("%v; of tenants %+v", err, r.Failed()[:min(5, len(r.Failed()))])
	}
	if !r.Complete || r.Acknowledged == 0 || r.Jobs == 0 {
		c.Errorf("the load shows little: %+v", r.ByKind)
	}
}

// isMember says whether a tenant's subset has the shard.
func isMember(t traffic.Tenant, shard string) bool { return slices.Contains(t.Subset, shard) }
