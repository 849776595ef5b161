package local

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheCommandsTellOneStory goes through the commands as the README does.
func TestTheCommandsTellOneStory(t *testing.T) {
	c := newCell(t)
	c.up("--cell", "eu-canary")
	r := c.running()

	c.refused(3, "running here already", "up", "--cell", "eu-canary")
	c.refused(2, "s99", "break", "s99")
	c.refused(2, "want one of s01, s02, s03, s04", "traffic", "--break", "s99")
	c.refused(2, "at least 4", "traffic", "--break", "s01", "--rounds", "3")
	c.refused(2, "10m", "break", "s01", "--for", "11m")
	c.refused(2, "is empty", "token", "")

	// What up says to try works as it stands.
	out := c.must("status")
	if !strings.Contains(out, r.Router) || strings.Count(out, "ready") != 9 {
		t.Errorf("status of a directory, a store, an issuer, four workers, a keeper and a router:\n%s", out)
	}
	if strings.Contains(out, r.Secret) || strings.Contains(c.must("status", "--json"), r.Secret) {
		t.Error("status shows the operator's secret")
	}
	token := strings.TrimSpace(c.must("token", "acme"))
	if resp := ask(t, "PUT", r.Router+"/orders/1", "Bearer "+token, "hello"); resp.StatusCode != 204 {
		t.Errorf("PUT: %s", resp.Status)
	}
	resp := ask(t, "GET", r.Router+"/orders/1", "Bearer "+token, "")
	if answer, _ := io.ReadAll(resp.Body); string(answer) != "hello" {
		t.Errorf("GET: %s, %q", resp.Status, answer)
	}

	var broken struct {
		Shard string
		PID   int
	}
	if err := json.Unmarshal([]byte(c.must("break", "s03", "--for", "300ms", "--json")), &broken); err != nil || broken.Shard != "s03" || broken.PID == 0 {
		t.Errorf("break: %+v, %v", broken, err)
	}
	for deadline := time.Now().Add(20 * time.Second); c.process("s03").State != "ready"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("s03 does not come back")
		}
	}

	out = c.must("traffic", "--tenants", "20", "--rounds", "1")
	for _, line := range []string{`tenants +20`, `requests +40`, `failed +0`, `writes acknowledged +20`, `lost = 0`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
	c.refused(2, "201 were asked for", "traffic", "--tenants", "201")

	c.must("down")
	c.refused(3, "no local cell", "status")
	c.must("down")
	c.refused(3, "another cell lies on disk", "up", "--cell", "eu-1")
	c.must("down", "--purge")
	c.up("--cell", "eu-1", "--json")
}

// TestUpCanBeInterrupted interrupts up while the cell starts: nothing is left, and up works again.
func TestUpCanBeInterrupted(t *testing.T) {
	c := newCell(t)
	for _, after := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond} {
		cmd := c.command("up", "--cell", "eu-1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			// It was quicker than the interrupt.
			c.must("down")
		}
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			left := c.processesLeft()
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after an interrupted up: %q", left)
			}
		}
	}
	c.up("--cell", "eu-1")
}

// processesLeft are the command lines that run the programs under test: from /proc, or from ps where that
// is not.
func (c *cell) processesLeft() (left []string) {
	c.t.Helper()
	var lines []string
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil { // else it has ended meanwhile
			lines = append(lines, string(line))
		}
	}
	if len(files) == 0 {
		out, err := exec.Command("ps", "-eo", "args=").Output()
		if err != nil {
			c.t.Fatal(err)
		}
		lines = strings.Split(string(out), "\n")
	}
	for _, line := range lines {
		if strings.Contains(line, bin) {
			left = append(left, line)
		}
	}
	return left
}
