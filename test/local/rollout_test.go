package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/rolling"
	"cellwall.dev/cellwall/internal/localcell/traffic"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/show"
)

const canary = "eu-canary"

// TestRolloutsOfWorkers brings new versions of the worker to three cells under load: a good one reaches all of them and
// nobody feels it; bad ones are found in the canary and taken back, whoever drives being killed, and no tenant of another
// cell feels those. What was acknowledged is there at the end, also in the canary.
func TestRolloutsOfWorkers(t *testing.T) {
	good := buildWorker(t, "good", "-X main.version=2", "lambda/worker-http")
	errs := buildWorker(t, "errors", "-X main.poison=errors", "test/local/poisoned")
	crashes := buildWorker(t, "crashes", "-X main.poison=crashes", "test/local/poisoned")
	var tenants []string
	for n := range 36 {
		tenants = append(tenants, fmt.Sprintf("org-%02d", n))
	}
	file := filepath.Join(t.TempDir(), "tenants")
	if err := os.WriteFile(file, []byte(strings.Join(tenants, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCell(t)
	c.up("--fleet", "test/local/testdata/rollout.yaml", "--cells", "3", "--tenants", file)
	r := &rollouts{cell: c, ofCell: map[string][]string{}}
	for _, tenant := range tenants {
		e, err := c.dir().Entry(t.Context(), c.running(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		r.ofCell[e.Cell] = append(r.ofCell[e.Cell], tenant)
	}
	var err error
	if r.rolling, err = rolling.New(c.dir()); err != nil {
		t.Fatal(err)
	}
	first := r.digests()[canary][0]

	var second string
	t.Run("AGoodVersion", func(t *testing.T) {
		r, c := r.in(t)
		load := r.load()
		spec := r.spec("good", good)
		second = spec.Digest
		c.drives(spec).end()
		load.end(nil)
		if s := c.latest(); s.Status != rollout.IsDone {
			t.Errorf("the rollout is %s: %s", s.Status, s.Why)
		}
		for cell, all := range r.digests() {
			if !slices.Equal(all, []string{second}) || second == first {
				t.Errorf("cell %s runs %q, and was to run %s instead of %s", cell, all, second, first)
			}
		}
	})
	if t.Failed() {
		return
	}
	t.Run("ByCommand", func(t *testing.T) { // back to the first version
		r, _ := r.in(t)
		r.startByCommand()
		second = first
	})
	if t.Failed() {
		return
	}
	t.Run("ABadVersionAndKilledDrivers", func(t *testing.T) {
		r, c := r.in(t)
		others := r.processes()
		load := r.load()
		d := c.drives(r.spec("errors", errs))
		c.until("errors", "the canary is changed", func(s rollout.State) bool { return s.Cells[0].Stages[0].Touched })
		d.kill()
		d = c.drives(rollout.Spec{})
		c.until("errors", "the rollout turns back", func(s rollout.State) bool { return s.Status != rollout.IsRunning })
		d.kill()
		if !c.latest().Status.Over() { // it was as quick as that
			c.drives(rollout.Spec{}).end()
		}
		load.end([]string{canary})
		r.turnedBack(second, others, localcell.AlarmAvailability)
	})
	t.Run("AVersionThatDies", func(t *testing.T) {
		r, c := r.in(t)
		for len(r.sight().Firing) > 0 { // the alarm of the last one, for a while
			time.Sleep(100 * time.Millisecond)
		}
		others := r.processes()
		load := r.load()
		c.drives(r.spec("crashes", crashes)).end()
		load.end([]string{canary})
		r.turnedBack(second, others, "")
	})
}

// startByCommand brings the worker that the cells began with to all cells by the command line, and reads its events: each
// zone says how many tenants of its cell have all of their shards on the new version.
func (r *rollouts) startByCommand() {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "cellwall"), "rollout", "start", "--worker", filepath.Join(bin, "worker"), "--directory", "local", "--state-dir", r.state,
		"--fleet", "test/local/testdata/rollout.yaml", "--bake", "300ms", "--min-requests", "0", "--json")
	cmd.Dir = "../.."
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	all := map[string][]rollout.Tenants{}
	for line := range strings.Lines(out.String()) {
		var e show.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.t.Fatalf("%v: %s", err, line)
		}
		if e.Tenants != nil && e.Step == rollout.Proving {
			all[e.Cell] = append(all[e.Cell], *e.Tenants)
		}
	}
	for cell, tenants := range r.ofCell {
		zones := all[cell]
		if n := len(tenants); len(zones) != 2 || zones[0].Of != n || zones[0].Whole >= n || zones[1].Whole != n || zones[1].Twice != 0 {
			r.t.Errorf("cell %s has %d tenants, and its zones tell of %+v", cell, n, zones)
		}
	}
}

// buildWorker builds a version of the worker.
func buildWorker(t *testing.T, name, flags, pkg string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", file, "-ldflags", flags, "cellwall.dev/cellwall/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return file
}

// rollouts are those of cells that run.
type rollouts struct {
	*cell
	rolling *rolling.Rolling
	ofCell  map[string][]string // tenants
}

// in is the same for a part of the test.
func (r *rollouts) in(t *testing.T) (*rollouts, *cell) {
	part := &rollouts{&cell{t, r.state}, r.rolling, r.ofCell}
	return part, part.cell
}

// spec is the plan to bring a worker to the cells.
func (r *rollouts) spec(id, file string) rollout.Spec {
	r.t.Helper()
	f, err := fleet.Load("testdata/rollout.yaml")
	if err != nil {
		r.t.Fatal(err)
	}
	waves, err := r.rolling.Waves(f, time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(waves) != 3 || waves[0].Batches[0][0].Name != canary || len(waves[0].Batches[0][0].Stages) != 2 {
		r.t.Fatalf("waves: %+v", waves)
	}
	digest, err := r.rolling.Add(file)
	if err != nil {
		r.t.Fatal(err)
	}
	return rollout.Spec{ID: id, Service: r.rolling.Service(), Digest: digest, Phase: rollout.Release, Waves: waves, MinRequests: int64(f.Rollout.HaltOn.MinRequests), Revert: true}
}

// sight is what the supervisor sees in the canary.
func (r *rollouts) sight() rollout.Observation {
	r.t.Helper()
	o, err := r.rolling.Look(r.t.Context(), canary, time.Time{}, time.Time{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// digests are what the cells run, each once.
func (r *rollouts) digests() map[string][]string {
	r.t.Helper()
	running, err := r.rolling.Running(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string][]string{}
	for _, x := range running {
		all[x.Cell] = append(all[x.Cell], x.Digest)
	}
	return all
}

// processes are the workers of the cells behind the canary.
func (r *rollouts) processes() map[string]int {
	r.t.Helper()
	all, err := r.running().Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, p := range all {
		if p.Version != "" && !strings.HasPrefix(p.Name, canary+"/") {
			pids[p.Name] = p.PID
		}
	}
	return pids
}

// turnedBack checks the end of a rollout of a bad version: the canary runs again what it ran, and the others were not
// touched. alarm is why, "" where several may be first.
func (r *rollouts) turnedBack(before string, others map[string]int, alarm string) {
	r.t.Helper()
	s := r.latest()
	r.t.Logf("the rollout is %s: %s", s.Status, s.Why)
	if s.Status != rollout.IsRolledBack || !strings.Contains(s.Why, canary) || !strings.Contains(s.Why, alarm) {
		r.t.Errorf("the rollout is %s: %s; cells %+v", s.Status, s.Why, s.Cells)
	}
	for _, c := range s.Cells[1:] {
		if c.Step != rollout.Waiting || c.Stages[0].Touched {
			r.t.Errorf("cell %s is %s", c.Name, c.Step)
		}
	}
	if now := r.processes(); len(now) != 7 || fmt.Sprint(now) != fmt.Sprint(others) {
		r.t.Errorf("workers behind the canary were %v, and are %v", others, now)
	}
	for cell, all := range r.digests() {
		if !slices.Equal(all, []string{before}) {
			r.t.Errorf("cell %s runs %q, and ran %s", cell, all, before)
		}
	}
}

// underLoad is the load of all cells while a rollout goes on, until it is ended.
type underLoad struct {
	*rollouts
	over    chan struct{}
	senders sync.WaitGroup

	mu      sync.Mutex
	reports map[string][]*traffic.LoadReport
	refused map[string]error // the last load of a cell that could not begin
	ledgers map[string]*ledger
}

// load has the tenants of each cell send requests, in rounds: what was acknowledged in one is read back at its end. Beside
// it a ledger of each cell is read back at the end of all.
func (r *rollouts) load() *underLoad {
	t := r.t
	t.Helper()
	u := &underLoad{rollouts: r, over: make(chan struct{}), reports: map[string][]*traffic.LoadReport{}, refused: map[string]error{}, ledgers: map[string]*ledger{}}
	running := r.running()
	for cell, tenants := range r.ofCell {
		loads := make([]float64, len(tenants))
		for i := range loads {
			loads[i] = 1
		}
		l, err := r.dir().LoadTraffic(t.Context(), running, tenants, loads)
		if err != nil {
			t.Fatal(err)
		}
		l.RPS, l.AtOnce, l.For = 25, 64, 3*time.Second
		u.senders.Go(func() {
			for !u.isOver() {
				l.Seed = rand.Uint64()
				report, err := traffic.RunLoad(t.Context(), l)
				u.mu.Lock()
				if report == nil { // it could not begin
					u.refused[cell] = err
				} else {
					u.reports[cell] = append(u.reports[cell], report)
				}
				u.mu.Unlock()
			}
		})
		g := &ledger{url: running.Router, token: l.Tenants[0].Token, values: map[string]string{}, client: &http.Client{Timeout: 20 * time.Second}}
		u.ledgers[cell] = g
		u.senders.Go(func() {
			for n := 0; !u.isOver(); n++ {
				g.write(t.Context(), fmt.Sprintf("%s-%d", t.Name()[strings.LastIndex(t.Name(), "/")+1:], n))
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	return u
}

func (u *underLoad) isOver() bool {
	select {
	case <-u.over:
		return true
	default:
		return false
	}
}

// end ends the load, and checks what must hold: no request of a cell that is not among these failed which may be repeated,
// and nothing that was acknowledged is lost or was done twice anywhere.
func (u *underLoad) end(felt []string) {
	u.t.Helper()
	close(u.over)
	u.senders.Wait()
	for cell, err := range u.refused {
		if !slices.Contains(felt, cell) {
			u.t.Errorf("load of %s: %v", cell, err)
		}
	}
	for cell, reports := range u.reports {
		var requests, failed, unclear, acknowledged, jobs int
		for _, r := range reports {
			requests, failed, unclear, acknowledged, jobs = requests+r.Requests, failed+r.Failures, unclear+r.Unclear, acknowledged+r.Acknowledged, jobs+r.Jobs
			if r.Lost+r.Doubled+r.JobsUndone+r.JobsDoubled+r.WrongReads+r.Unread > 0 {
				u.t.Errorf("%s: %v, %d not read back; seed %d", cell, r.Fault(), r.Unread, r.Seed)
			}
			if r.Fault() != nil && !slices.Contains(felt, cell) {
				u.t.Errorf("%s: %v; of tenants %+v, seed %d", cell, r.Fault(), r.Failed(), r.Seed)
			}
		}
		g := u.ledgers[cell]
		if lost := g.lost(u.t); len(lost) > 0 {
			u.t.Errorf("%s: acknowledged and lost: %q", cell, lost)
		}
		if g.failed > 0 && !slices.Contains(felt, cell) {
			u.t.Errorf("%s: %d requests of %d failed that may be repeated; the last one: %s", cell, g.failed, len(g.values)+g.failed, g.last)
		}
		u.t.Logf("%s: %d requests, %d failed, %d jobs unclear; %d writes and %d jobs acknowledged, and %d in the ledger, where %d failed",
			cell, requests, failed, unclear, acknowledged, jobs, len(g.values), g.failed)
		if acknowledged == 0 || jobs == 0 || len(g.values) == 0 {
			u.t.Errorf("%s: the load shows little", cell)
		}
	}
	if len(u.reports) != 3 {
		u.t.Errorf("load of %d cells", len(u.reports))
	}
}

// ledger is one tenant's writes, one after the other.
type ledger struct {
	url, token string
	client     *http.Client
	values     map[string]string // what was acknowledged, by path
	failed     int
	last       string // why one failed
}

// write puts an order, or creates one with a key, and remembers what was acknowledged.
func (g *ledger) write(ctx context.Context, name string) {
	method, path, header := http.MethodPut, "/orders/"+name, http.Header{}
	if len(g.values)%2 == 1 {
		method, path, header = http.MethodPost, "/orders", http.Header{"Idempotency-Key": {`"` + name + `"`}}
	}
	status, location, _, err := g.do(ctx, method, path, name, header)
	switch {
	case err != nil:
		g.failed, g.last = g.failed+1, err.Error()
	case method == http.MethodPut && status == http.StatusNoContent:
		g.values[path] = name
	case method == http.MethodPost && status == http.StatusCreated:
		g.values[location] = name
	default:
		g.failed, g.last = g.failed+1, fmt.Sprintf("%s answered %d", method, status)
	}
}

// lost are the paths of what was acknowledged and is not there.
func (g *ledger) lost(t *testing.T) (paths []string) {
	for path, value := range g.values {
		for try := 0; ; try++ {
			status, _, text, err := g.do(t.Context(), http.MethodGet, path, "", nil)
			if (err != nil || status >= 500) && try < 20 {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			if err != nil || status != http.StatusOK || text != value {
				paths = append(paths, fmt.Sprintf("%s: %d %q, %v", path, status, text, err))
			}
			break
		}
	}
	return paths
}

func (g *ledger) do(ctx context.Context, method, path, body string, header http.Header) (status int, location, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.GetBody = nil // net/http is not to repeat anything by itself
	req.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Location"), string(all), err
}
