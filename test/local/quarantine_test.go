package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/quarantine"
)

// TestQuarantine has one tenant kill whoever serves it, in a cell with a quarantine: it is pinned there, and its
// neighbours of before are served without a failure.
func TestQuarantine(t *testing.T) {
	fleet, err := os.ReadFile("../../fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const was = "zones: [a, b, c], shards: 16}"
	changed := strings.Replace(string(fleet), was, "zones: [a, b, c], shards: 8, quarantine: [s07, s08]}", 1)
	if changed == string(fleet) {
		t.Fatalf("the sample fleet has no cell with %s", was)
	}
	dir := t.TempDir()
	var lines, others strings.Builder
	lines.WriteString("tenant,load\n")
	others.WriteString("tenant,load\n")
	for i := range 60 {
		line := fmt.Sprintf("org-%02d,%d\n", i, 1+i%5)
		lines.WriteString(line)
		if i > 0 {
			others.WriteString(line)
		}
	}
	files := map[string]string{"fleet.yaml": changed, "tenants.csv": lines.String(), "others.csv": others.String()}
	for name, text := range files {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCell(t)
	r := c.up("--fleet", files["fleet.yaml"], "--cell", "eu-1", "--tenants", files["tenants.csv"], "--worker", filepath.Join(bin, "worker"))
	standing := func() []quarantine.Standing {
		var status struct{ Quarantine []quarantine.Standing }
		if err := json.Unmarshal([]byte(c.must("status", "--json")), &status); err != nil {
			t.Fatal(err)
		}
		return status.Quarantine
	}
	if now := standing(); now == nil || len(now) > 0 {
		t.Errorf("before all: %+v", now)
	}
	before, err := c.dir().Entry(t.Context(), r, "org-00")
	if err != nil || len(before.Pins) > 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	c.must("poison", "org-00")
	// The others of its subset suffer until then: both of its members are down again and again.
	// A load that cannot begin, since what it makes at first meets a shard that is down, begins again.
	loaded, end := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for loaded.Err() == nil {
			traffic := c.command("traffic", "--tenants", files["others.csv"], "--rps", "100", "--for", "4m")
			if err := traffic.Start(); err != nil {
				t.Error(err)
				return
			}
			killed := context.AfterFunc(loaded, func() { _ = traffic.Process.Kill() })
			_ = traffic.Wait() // its report is of no use
			killed()
		}
	})
	stop := func() { end(); load.Wait() }
	defer stop()
	token := "Bearer " + strings.TrimSpace(c.must("token", "org-00"))
	asked, begun := 0, time.Now()
	pinned := func() bool {
		now := standing()
		return len(now) == 1 && len(now[0].Shards) > 0
	}
	for deadline := begun.Add(3 * time.Minute); !pinned(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("not in quarantine after %d requests: %+v", asked, standing())
		}
		ask(t, "GET", r.Router+"/orders/1", token, "")
		asked++
	}
	t.Logf("in quarantine after %d requests, %v", asked, time.Since(begun).Round(time.Second))
	stop()
	after, err := c.dir().Entry(t.Context(), r, "org-00")
	if err != nil || !slices.Equal(after.Pins, []string{"s07", "s08"}) || after.Epoch != before.Epoch+1 {
		t.Errorf("%+v, %v", after, err)
	}
	if out := c.must("status"); !strings.Contains(out, `quarantine: tenant "org-00" is pinned to s07 s08 since`) {
		t.Errorf("the status does not tell:\n%s", out)
	}
	log, err := os.ReadFile(c.dir().Log("keeper"))
	if err != nil || !strings.Contains(string(log), "what=pinned tenant=org-00") {
		t.Errorf("the log does not tell: %v\n%s", err, log)
	}
	// From now on it breaks nobody but the quarantine.
	starts := func() (quarantined, others int) {
		for _, p := range c.statusOf().Processes {
			switch {
			case p.Name == "s07" || p.Name == "s08":
				quarantined += p.Starts
			case p.Address != "":
				others += p.Starts
			}
		}
		return quarantined, others
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) { // what it broke comes back
		ready := 0
		for _, p := range c.statusOf().Processes {
			if p.State == "ready" || p.Name == "s07" || p.Name == "s08" || strings.HasSuffix(p.Name, ".gate") {
				ready++
			}
		}
		if ready == len(c.statusOf().Processes) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("shards do not come back: %+v", c.statusOf().Processes)
		}
	}
	wasQuarantine, wasOthers := starts()
	wait := c.loud("--tenants", files["others.csv"], "--rps", "100", "--for", "4s")
	for range 4 {
		time.Sleep(700 * time.Millisecond)
		ask(t, "GET", r.Router+"/orders/1", token, "")
	}
	if report := wait(); report.Failures > 0 || report.Lost > 0 || report.Doubled > 0 || report.Acknowledged == 0 {
		t.Errorf("others, once it is in quarantine: %d of %d failed, %d lost, %d doubled; %+v", report.Failures, report.Requests, report.Lost, report.Doubled, report.Failed())
	}
	if q, o := starts(); q == wasQuarantine || o != wasOthers {
		t.Errorf("%d starts of the quarantine's shards, %d before; %d of others, %d before", q, wasQuarantine, o, wasOthers)
	}
	// Healed and unpinned, it is back where it was, and stays there.
	c.must("heal", "tenant", "org-00")
	unpin := exec.Command(filepath.Join(bin, "cellwall"), "tenant", "unpin", "org-00", "--state-dir", c.state, "--fleet", files["fleet.yaml"], "--by", "ann", "--because", "mended")
	unpin.Dir = "../.."
	if out, err := unpin.CombinedOutput(); err != nil {
		t.Fatalf("unpin: %v\n%s", err, out)
	}
	for deadline := time.Now().Add(20 * time.Second); pinned(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still told to be in quarantine: %+v", standing())
		}
	}
	if resp := ask(t, "GET", r.Router+"/orders/1", token, ""); resp.StatusCode >= 500 {
		t.Errorf("the tenant is not served where it was: %d", resp.StatusCode)
	}
	if now, err := c.dir().Entry(t.Context(), r, "org-00"); err != nil || len(now.Pins) > 0 || now.Epoch != before.Epoch+2 {
		t.Errorf("%+v, %v", now, err)
	}
}
