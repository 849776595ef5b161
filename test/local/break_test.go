package local

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell/traffic"
	"cellwall.dev/cellwall/internal/placement"
)

const (
	served  = 2000 // tenants
	shards  = 16   // of the sample fleet's cell eu-1
	k       = 2    // shards for each tenant
	victim  = "s07"
	zones   = 3 // that the shards are dealt to
	mates   = 6 // shards in the victim's zone, itself included
	nRounds = traffic.MinBreakRounds
)

// population writes the first 2,000 tenants of the shared population into a file; where that is not at
// hand, as many with loads from the same kind of long-tailed distribution, the same in every run.
func population(t *testing.T) (file string, ids []string) {
	t.Helper()
	var lines []string
	shared, err := os.Open("../../../shared/data/population.csv")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Logf("the shared population is not at hand: %d tenants are generated", served)
		random := rand.New(rand.NewPCG(1, 2))
		lines = append(lines, "tenant,load")
		for i := range served {
			lines = append(lines, fmt.Sprintf("org-%05d,%.0f", i+1, math.Exp(6.5+1.8*random.NormFloat64())))
		}
	case err != nil:
		t.Fatal(err)
	default:
		defer shared.Close()
		for scanner := bufio.NewScanner(shared); len(lines) <= served && scanner.Scan(); {
			lines = append(lines, scanner.Text())
		}
	}
	if len(lines) != served+1 {
		t.Fatalf("%d lines, want a header and %d tenants", len(lines), served)
	}
	for _, line := range lines[1:] {
		id, _, _ := strings.Cut(line, ",")
		ids = append(ids, id)
	}
	file = filepath.Join(t.TempDir(), "tenants.csv")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, ids
}

// members counts the tenants with the victim in their subset, from the key on disk and the scheme alone.
func members(t *testing.T, state string, ids []string) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "placement-key"))
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]string
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(keys["1"])
	if err != nil {
		t.Fatal(err)
	}
	var all []placement.Shard
	for i := range shards {
		all = append(all, placement.Shard{ID: fmt.Sprintf("s%02d", i+1), Zone: "abc"[i%3 : i%3+1], Weight: 1})
	}
	placer, err := placement.New(placement.Config{Scheme: placement.RendezvousV1, Key: key, Shards: all})
	if err != nil {
		t.Fatal(err)
	}
	subsets, err := placer.PerTenant(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		subset, err := subsets.Append(nil, placement.Tenant{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(subset, func(i int) bool { return all[i].ID == victim }) {
			n++
		}
	}
	return n
}

// TestABrokenShardIsAFootnote is the promise of the project, measured: 2,000 tenants on 16 shards, two
// each, while one of the shards is killed under load.
func TestABrokenShardIsAFootnote(t *testing.T) {
	file, ids := population(t)
	c := newCell(t)
	c.up("--cell", "eu-1", "--tenants", file)

	var r traffic.Report
	out := c.must("traffic", "--json", "--break", victim, "--rounds", fmt.Sprint(nRounds), "--concurrency", "32", "--limit", "50s")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.ByPlacement == nil {
		t.Fatal("the report does not say whom placement puts on the broken shard")
	}
	t.Logf("%d tenants: the broken shard is in the subset of %d (%.2f %%); measured: %d untouched, %d felt it (%d needed a second shard), %d fully down of %d that asked during the break",
		r.Tenants, r.ByPlacement.Degraded, 100*float64(r.ByPlacement.Degraded)/served, r.Untouched, r.Felt, r.FellBack, r.FullyDown, r.Asked)
	t.Logf("%d requests in %.1f s, %d during the %.1f s of the break: %d failed, %d asked a second shard; calm %+v, break %+v",
		r.Requests, r.Seconds, r.DuringBreak, r.BreakSeconds, r.Failures, r.Fallbacks, r.Calm, r.Break)
	t.Logf("%d writes acknowledged, lost = %d", r.Acknowledged, r.Lost)

	if !r.Complete {
		t.Fatal("the time limit ended the traffic early")
	}
	if r.Tenants != served || r.Asked != served || r.Requests != 2*served*nRounds {
		t.Errorf("%d tenants, %d asked during the break, %d requests; want %d, all of them, %d",
			r.Tenants, r.Asked, r.Requests, served, 2*served*nRounds)
	}
	if r.FullyDown != 0 {
		t.Errorf("%d tenants were fully down", r.FullyDown)
	}
	if r.Failures != 0 {
		t.Errorf("%d idempotent requests failed, the first: %s", r.Failures, r.FirstFailure)
	}
	if r.Acknowledged != served*nRounds || r.Lost != 0 || r.Unread != 0 {
		t.Errorf("%d writes acknowledged, %d lost, %d not read back; want %d, 0, 0", r.Acknowledged, r.Lost, r.Unread, served*nRounds)
	}

	// The shard has its part of its zone, which has k/zones of the tenants, within five standard deviations of drawing 2,000 of them. Only its
	// members can have felt anything.
	want := members(t, c.state, ids)
	if r.ByPlacement.Degraded != want || r.ByPlacement.FullyDown != 0 {
		t.Errorf("%d members, %d of them with no other shard; placement says %d and 0", r.ByPlacement.Degraded, r.ByPlacement.FullyDown, want)
	}
	if r.Felt > want || r.Untouched != served-r.Felt {
		t.Errorf("%d tenants felt it and %d did not, of %d; at most the %d members could", r.Felt, r.Untouched, served, want)
	}
	const p = float64(k) / zones / mates
	if noise := 5 * math.Sqrt(p*(1-p)/served); math.Abs(float64(want)/served-p) > noise {
		t.Errorf("%.4f of the tenants are members, want %.4f ± %.4f", float64(want)/served, p, noise)
	}
	if r.FellBack == 0 || r.FellBack > want || r.DuringBreak < 2*served {
		t.Errorf("%d tenants needed a second shard, %d requests during the break: was the shard down at all?", r.FellBack, r.DuringBreak)
	}
	if p := c.process(victim); p.Starts < 2 {
		t.Errorf("%s was started %d times; it was not killed", victim, p.Starts)
	}
	if p := c.process("s08"); p.Starts != 1 {
		t.Errorf("s08 was started %d times", p.Starts)
	}
}

// TestKilledUnderLoad kills, while traffic flows and without the supervisor's doing, a worker and then the
// store. What was acknowledged must be there. Requests may fail while the store is away.
func TestKilledUnderLoad(t *testing.T) {
	c := newCell(t)
	r := c.up("--cell", "eu-canary")
	cmd := c.command("traffic", "--json", "--rounds", "20", "--rate", "800")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	flows := func(n int64) {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if counters, err := r.Counters(t.Context()); err == nil && counters.Requests >= n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %d requests in 30 s\n%s", n, &errs)
			}
		}
	}
	for i, name := range []string{"s02", "store"} {
		flows(int64(i+1) * 1000)
		if err := c.process(name).Kill(); err != nil {
			t.Fatal(err)
		}
	}
	// Status 1 says that requests failed, which they may while the store is away.
	err := <-ended
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("traffic: %v\n%s%s", err, &out, &errs)
	}
	var report traffic.Report
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatal(err)
	}
	if (report.Failures > 0) != (err != nil) {
		t.Errorf("%d requests failed, but traffic ended with %v", report.Failures, err)
	}
	t.Logf("%d requests, %d failed while the store was away; %d writes acknowledged, lost = %d",
		report.Requests, report.Failures, report.Acknowledged, report.Lost)
	if report.Acknowledged == 0 || report.Lost != 0 || report.Unread != 0 || report.WrongReads != 0 {
		t.Errorf("report %+v", report)
	}
	for _, name := range []string{"s02", "store"} {
		if p := c.process(name); p.Starts != 2 || p.State != "ready" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
