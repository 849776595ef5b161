package rolling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/wave"
)

// fake is a supervisor that holds what its workers run, in a state directory of its own.
type fake struct {
	t   *testing.T
	dir localcell.Dir

	mu      sync.Mutex
	shards  []localcell.WorkerVersion
	broken  string // a version that does not start
	fencing uint64
	did     []string // deployments, SHARD VERSION
	begun   time.Time
}

const old = "sha256:00"

func newFake(t *testing.T) *fake {
	f := &fake{t: t, begun: time.Now().UTC()}
	layout := localcell.Layout{FrontDoor: true}
	for _, cell := range []string{"eu-1", "us-1"} {
		p := localcell.Plan{Service: "orders", Cell: cell}
		for n, zone := range []string{"a", "b", "a"} {
			id := fmt.Sprintf("s%02d", n+1)
			p.Topology.Shards = append(p.Topology.Shards, directory.Shard{ID: id, Zone: zone})
			f.shards = append(f.shards, localcell.WorkerVersion{Cell: cell, Shard: id, Zone: zone, Wants: old, Runs: old})
		}
		layout.Cells = append(layout.Cells, p)
	}
	server := httptest.NewServer(loopback.Require(f.control(), "secret"))
	t.Cleanup(server.Close)
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, value := range map[string]any{
		"cellwall-state": "", "plan.json": layout, "running.json": localcell.Running{Supervisor: self, Control: server.URL, Secret: "secret"},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f.dir, err = localcell.NewDir(folder); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fake) control() http.Handler {
	mux := http.NewServeMux()
	locked := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			h(w, r)
		})
	}
	locked("GET /v1/versions", func(w http.ResponseWriter, _ *http.Request) { loopback.Answer(w, 200, f.shards) })
	locked("POST /v1/deploy", func(w http.ResponseWriter, r *http.Request) {
		var d localcell.Deployment
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil || len(d.Shards) != 1 {
			f.t.Errorf("deployment %+v, %v", d, err)
		}
		if d.Fencing < f.fencing {
			loopback.Fail(w, 409, errors.New("taken over"))
			return
		}
		f.fencing = d.Fencing
		f.did = append(f.did, d.Cell+"/"+d.Shards[0]+" "+d.Version)
		v := f.shard(d.Cell, d.Shards[0])
		if v.Wants, v.Runs = d.Version, d.Version; d.Version == f.broken {
			v.Runs = ""
			loopback.Fail(w, 400, errors.New("it does not start"))
			return
		}
		loopback.Answer(w, 200, []localcell.WorkerVersion{*v})
	})
	locked("POST /v1/look", func(w http.ResponseWriter, _ *http.Request) {
		loopback.Answer(w, 200, localcell.Sight{Observation: rollout.Observation{Requests: 7, Firing: []string{localcell.AlarmHealth}}, Begun: f.begun})
	})
	return mux
}

func (f *fake) shard(cell, id string) *localcell.WorkerVersion {
	i := slices.IndexFunc(f.shards, func(v localcell.WorkerVersion) bool { return v.Cell == cell && v.Shard == id })
	return &f.shards[i]
}

// change has a shard be something else, behind the rollout's back.
func (f *fake) change(cell, id string, change func(*localcell.WorkerVersion)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.shard(cell, id))
}

// done are the deployments since the last time.
func (f *fake) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	did := f.did
	f.did = nil
	return did
}

func (f *fake) rolling() *Rolling {
	f.t.Helper()
	r, err := New(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// add puts a version into the state directory.
func (f *fake) add(r *Rolling, text string) string {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "worker")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
	digest, err := r.Add(file)
	if err != nil {
		f.t.Fatal(err)
	}
	return digest
}

func granted(context.Context) error { return nil }

func (f *fake) reads(r *Rolling, cell, stage string, status rollout.StackStatus, digest string) {
	f.t.Helper()
	got, err := r.Read(f.t.Context(), cell, stage, "")
	if want := (run.Reading{Stack: status, Digest: digest}); got != want || err != nil {
		f.t.Errorf("%s of %s: %+v, %v; want %+v", stage, cell, got, err, want)
	}
}

func TestTruthIsWhatRuns(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	f.reads(r, "eu-1", "zone-a", rollout.Complete, old)
	f.change("eu-1", "s03", func(v *localcell.WorkerVersion) { v.Runs = "sha256:11" })
	f.reads(r, "eu-1", "zone-a", rollout.Complete, "")
	f.change("eu-1", "s03", func(v *localcell.WorkerVersion) { v.Runs = "" })
	f.reads(r, "eu-1", "zone-a", rollout.Failed, "")
	f.change("eu-1", "s01", func(v *localcell.WorkerVersion) { v.Runs = "" })
	f.reads(r, "eu-1", "zone-a", rollout.Failed, "")
	f.change("eu-1", "s01", func(v *localcell.WorkerVersion) { v.Runs, v.Deploying = old, true })
	f.reads(r, "eu-1", "zone-a", rollout.InProgress, "")
	f.reads(r, "eu-1", "zone-b", rollout.Complete, old)
	f.reads(r, "us-1", "zone-a", rollout.Complete, old)

	for _, stage := range [][2]string{{"eu-1", "zone-c"}, {"eu-2", "zone-a"}, {"eu-1", ""}} {
		if s, err := r.Read(t.Context(), stage[0], stage[1], ""); s.Stack != rollout.Unknown || !errors.Is(err, ErrNoStage) {
			t.Errorf("%v: %+v, %v", stage, s, err)
		}
	}
	f.mu.Lock()
	f.shards = f.shards[1:]
	f.mu.Unlock()
	if s, err := r.Read(t.Context(), "eu-1", "zone-a", ""); s.Stack != rollout.Unknown || err == nil {
		t.Errorf("a shard that nobody runs: %+v, %v", s, err)
	}
	all, err := r.Running(t.Context())
	if want := []rollout.Running{{Cell: "eu-1", Digest: old}, {Cell: "eu-1", Digest: ""}, {Cell: "us-1", Digest: old}}; err != nil || !cmp.Equal(all, want) {
		t.Errorf("running: %v, %v", all, err)
	}
}

func TestOneAfterTheOther(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	second := f.add(r, "2")
	permits := 0
	permit := func(context.Context) error {
		if did := f.done(); len(did) != min(permits, 1) {
			t.Errorf("before permit %d: %q was deployed", permits+1, did)
		}
		permits++
		return nil
	}
	if err := r.Execute(t.Context(), "eu-1", "zone-a", second, 1, permit); err != nil || permits != 2 {
		t.Fatalf("%d permits, %v", permits, err)
	}
	f.done()
	f.reads(r, "eu-1", "zone-a", rollout.Complete, second)
	f.reads(r, "eu-1", "zone-b", rollout.Complete, old)

	refused := errors.New("not any more")
	permits = 0
	err := r.Restore(t.Context(), "us-1", "zone-a", second, 1, func(context.Context) error {
		if permits++; permits == 2 {
			return refused
		}
		return nil
	})
	if did := f.done(); !errors.Is(err, refused) || len(did) != 1 {
		t.Errorf("refused at the second shard: %v, %q", err, did)
	}
	f.reads(r, "us-1", "zone-a", rollout.Complete, "")

	f.broken = f.add(r, "3")
	if err := r.Execute(t.Context(), "eu-1", "zone-a", f.broken, 1, granted); err == nil || len(f.done()) != 1 {
		t.Errorf("a version that does not start: %v", err)
	}
	f.reads(r, "eu-1", "zone-a", rollout.Failed, "")
	if err := r.Restore(t.Context(), "eu-1", "zone-a", second, 1, granted); err != nil {
		t.Error(err)
	}
	f.reads(r, "eu-1", "zone-a", rollout.Complete, second)
}

func TestIdempotent(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	second := f.add(r, "2")
	for range 3 {
		if err := r.Execute(t.Context(), "eu-1", "zone-a", second, 1, granted); err != nil {
			t.Fatal(err)
		}
	}
	if did := f.done(); len(did) != 2 {
		t.Errorf("deployed: %q", did)
	}
	f.change("eu-1", "s01", func(v *localcell.WorkerVersion) { v.Runs = "" })
	if err := r.Execute(t.Context(), "eu-1", "zone-a", second, 1, granted); err != nil {
		t.Fatal(err)
	}
	if did := f.done(); !slices.Equal(did, []string{"eu-1/s01 " + second}) {
		t.Errorf("after one is gone, deployed: %q", did)
	}
	for name, err := range map[string]error{
		"a digest that is there":  r.Prepare(t.Context(), "eu-1", "zone-a", second, 1),
		"no such digest":          r.Prepare(t.Context(), "eu-1", "zone-a", "sha256:"+strings.Repeat("0", 64), 1),
		"to restore it":           r.Restore(t.Context(), "eu-1", "zone-a", "sha256:"+strings.Repeat("0", 64), 1, granted),
		"no such stage":           r.Prepare(t.Context(), "eu-1", "core", second, 1),
		"to execute no such zone": r.Execute(t.Context(), "eu-1", "core", second, 1, granted),
	} {
		want := map[string]error{"no such digest": localcell.ErrNoVersion, "to restore it": localcell.ErrNoVersion, "no such stage": ErrNoStage, "to execute no such zone": ErrNoStage}[name]
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if did := f.done(); len(did) > 0 {
		t.Errorf("what is refused was deployed: %q", did)
	}
}

func TestFenced(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	second, third := f.add(r, "2"), f.add(r, "3")
	if err := r.Execute(t.Context(), "eu-1", "zone-b", second, 5, granted); err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(t.Context(), "eu-1", "zone-b", third, 4, granted); err == nil || !strings.Contains(err.Error(), "taken over") {
		t.Errorf("with a lower number: %v", err)
	}
	f.reads(r, "eu-1", "zone-b", rollout.Complete, second)
}

// TestAGapIsMissingOnce: a bake with a gap begins again, and the next look is whole.
func TestAGapIsMissingOnce(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	look := func(cell string, since time.Time) rollout.Observation {
		t.Helper()
		o, err := r.Look(t.Context(), cell, since, since, nil)
		if err != nil || o.Requests != 7 || !slices.Equal(o.Firing, []string{localcell.AlarmHealth}) {
			t.Errorf("saw %+v, %v", o, err)
		}
		return o
	}
	before := f.begun.Add(-time.Minute)
	for n, test := range []struct {
		cell    string
		since   time.Time
		missing int
	}{{"eu-1", time.Time{}, 0}, {"eu-1", f.begun, 0}, {"eu-1", before, 1}, {"eu-1", before, 0}, {"us-1", before, 1}, {"us-1", before, 0}} {
		if o := look(test.cell, test.since); len(o.Missing) != test.missing {
			t.Errorf("look %d: missing %q", n, o.Missing)
		}
	}
	f.mu.Lock()
	f.begun = f.begun.Add(time.Hour)
	f.mu.Unlock()
	if o := look("eu-1", before); len(o.Missing) != 1 {
		t.Errorf("another supervisor: missing %q", o.Missing)
	}
}

// TestNobodyThere: without a supervisor all is unknown, and nothing is taken for well.
func TestNobodyThere(t *testing.T) {
	f := newFake(t)
	r := f.rolling()
	if err := os.Remove(filepath.Join(f.dir.String(), "running.json")); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Read(t.Context(), "eu-1", "zone-a", ""); s.Stack != rollout.Unknown || !errors.Is(err, localcell.ErrNotRunning) {
		t.Errorf("read: %s, %v", s, err)
	}
	if _, err := r.Look(t.Context(), "eu-1", time.Time{}, time.Time{}, nil); !errors.Is(err, localcell.ErrNotRunning) {
		t.Errorf("look: %v", err)
	}
	if _, err := New(f.dir); !errors.Is(err, localcell.ErrNotRunning) {
		t.Errorf("new: %v", err)
	}
}

func TestWaves(t *testing.T) {
	r := newFake(t).rolling()
	if r.Service() != "orders" {
		t.Errorf("service %q", r.Service())
	}
	cell := func(name string, bake time.Duration) rollout.PlannedCell {
		return rollout.PlannedCell{Name: name, Stages: []rollout.PlannedStage{{Name: "zone-a", Bake: rollout.Duration(bake)}, {Name: "zone-b"}}}
	}
	planned := func(bake time.Duration, names ...string) rollout.Wave {
		w := rollout.Wave{Bake: rollout.Duration(bake)}
		for _, name := range names {
			w.Batches = append(w.Batches, []rollout.PlannedCell{cell(name, bake)})
		}
		return w
	}
	percent := func(n int) *int { return &n }
	for name, test := range map[string]struct {
		waves []fleet.Wave
		bake  time.Duration
		want  []rollout.Wave
		err   error
	}{
		"a list and a percent": {
			[]fleet.Wave{{Cells: []string{"eu-canary"}, Bake: time.Hour}, {Cells: []string{"us-1", "ap-1"}, Bake: 2 * time.Hour}, {Percent: percent(100), Bake: time.Minute}}, -1,
			[]rollout.Wave{planned(2*time.Hour, "us-1"), planned(time.Minute, "eu-1")}, nil,
		},
		"one wave, a bake of its own": {[]fleet.Wave{{Percent: percent(100), Bake: time.Hour}}, 3 * time.Second, []rollout.Wave{planned(3*time.Second, "eu-1", "us-1")}, nil},
		"left out":                    {[]fleet.Wave{{Cells: []string{"eu-1"}}}, 0, nil, wave.ErrLeftOut},
	} {
		f := &fleet.Fleet{}
		f.Rollout.Waves = test.waves
		got, err := r.Waves(f, test.bake)
		if !errors.Is(err, test.err) || test.err == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, test.err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
