// Package local tests the local cell as its users have it: the built command and the built sample worker,
// real processes, real tokens, the sample fleet.
package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
)

// bin is where the programs under test are, built once.
var bin string

func TestMain(m *testing.M) {
	if state := os.Getenv(asDriver); state != "" {
		if err := drive(state); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	if bin, err = os.MkdirTemp("", "cellwall-local-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	for name, pkg := range map[string]string{"cellwall": "cmd/cellwall", "worker": "lambda/worker-http"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), "cellwall.dev/cellwall/"+pkg).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return m.Run(), nil
}

// cell is one state directory and, after up, the cell that runs there until its test ends.
type cell struct {
	t     *testing.T
	state string
}

func newCell(t *testing.T) *cell {
	t.Helper()
	return &cell{t, filepath.Join(t.TempDir(), "state")}
}

// cellwall runs one command line under `cellwall local`, in the project's root.
func (c *cell) cellwall(args ...string) (stdout, stderr string, status int) {
	c.t.Helper()
	cmd := c.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (c *cell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "cellwall"), append([]string{"local", "--state-dir", c.state}, args...)...)
	cmd.Dir = "../.."
	return cmd
}

// must runs a command that has to end with status 0, and returns what it printed.
func (c *cell) must(args ...string) string {
	c.t.Helper()
	stdout, stderr, status := c.cellwall(args...)
	if status != 0 {
		c.t.Fatalf("cellwall local %s: status %d\n%s%s", strings.Join(args, " "), status, stdout, stderr)
	}
	return stdout
}

// refused runs a command that has to end with the status and say the words on standard error.
func (c *cell) refused(want int, words string, args ...string) {
	c.t.Helper()
	stdout, stderr, status := c.cellwall(args...)
	if status != want || stdout != "" || !strings.Contains(stderr, words) {
		c.t.Errorf("cellwall local %s: status %d, stdout %q, stderr %q; want status %d and %q on stderr",
			strings.Join(args, " "), status, stdout, stderr, want, words)
	}
}

// up starts the cell; when the test ends it goes down, and none of its processes may be left.
func (c *cell) up(args ...string) *localcell.Running {
	c.t.Helper()
	c.must(append([]string{"up"}, args...)...)
	r := c.running()
	c.t.Cleanup(func() {
		last := r
		if now, err := c.dir().Find(); err == nil {
			last = now
		}
		c.must("down")
		if last.Supervisor.Alive() || last.Guard.Alive() {
			c.t.Errorf("after down, the supervisor is alive: %t, the guard: %t", last.Supervisor.Alive(), last.Guard.Alive())
		}
		for _, p := range last.Processes {
			if p.Alive() {
				c.t.Errorf("after down, process %d of %s is alive", p.PID, p.Name)
			}
		}
	})
	return r
}

func (c *cell) dir() localcell.Dir {
	c.t.Helper()
	d, err := localcell.NewDir(c.state)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *cell) running() *localcell.Running {
	c.t.Helper()
	r, err := c.dir().Find()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// process is the status of one process, as the command prints it.
func (c *cell) process(name string) localcell.ProcessStatus {
	c.t.Helper()
	var status struct{ Processes []localcell.ProcessStatus }
	if err := json.Unmarshal([]byte(c.must("status", "--json")), &status); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range status.Processes {
		if p.Name == name {
			return p
		}
	}
	c.t.Fatalf("no process %s", name)
	return localcell.ProcessStatus{}
}

// ask sends a request with an Authorization header as given.
func ask(t *testing.T, method, url, authorization, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
