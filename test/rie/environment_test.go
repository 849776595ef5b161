//go:build linux

package rie

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// environment is one execution environment: the emulator with a function's process behind it. As on
// Lambda it serves one request at a time.
type environment struct {
	url    string
	cmd    *exec.Cmd
	output *tail

	mu sync.Mutex // parallel requests crash the emulator
}

// tail keeps what a process prints.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// emulator is the path of aws-lambda-rie, a tool dependency of the project.
var emulator = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "aws-lambda-rie") // in a folder of the module
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go tool -n aws-lambda-rie: %w", err)
	}
	return strings.TrimSpace(string(out)), err
})

// start runs a function with these variables and nothing else in its environment.
func start(t *testing.T, function string, variables map[string]string) *environment {
	t.Helper()
	rie, err := emulator()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // somebody else may take a free port first
		var e *environment
		if e, err = tryStart(t, rie, filepath.Join(functions(t), function, "bootstrap"), variables); err == nil {
			return e
		}
	}
	t.Fatal(err)
	return nil
}

func tryStart(t *testing.T, rie, binary string, variables map[string]string) (*environment, error) {
	t.Helper()
	address, api := freeAddress(t), freeAddress(t)
	for api == address { // a port is free again at once
		api = freeAddress(t)
	}
	e := &environment{url: "http://" + address + "/2015-03-31/functions/function/invocations", output: &tail{}}
	e.cmd = exec.Command(rie, "--runtime-interface-emulator-address", address, "--runtime-api-address", api, "--log-level", "error", binary)
	e.cmd.Env = []string{"AWS_LAMBDA_FUNCTION_TIMEOUT=10", "HOME=" + t.TempDir()}
	for name, value := range variables {
		e.cmd.Env = append(e.cmd.Env, name+"="+value)
	}
	e.cmd.Stdout, e.cmd.Stderr = e.output, e.output
	// A test binary that is killed runs no cleanup; the kernel then ends the emulator, and the function's
	// process ends when it finds nobody to ask for work.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		e.cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		// The emulator gives the function a process group of its own, and leaves it behind.
		groups := append(children(t, e.cmd.Process.Pid), e.cmd.Process.Pid)
		for _, group := range groups {
			syscall.Kill(-group, syscall.SIGKILL)
		}
		<-exited
	})
	for range 500 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return e, nil
		}
		select {
		case <-exited:
			return nil, fmt.Errorf("the emulator ended at once: %s", e.output)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("the emulator does not listen: %s", e.output)
}

// children are the processes that a process started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Error(err)
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended meanwhile
		}
		// pid (name) state ppid …; the name may hold anything.
		var state string
		var pid, ppid int
		fmt.Sscan(string(text), &pid)
		fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &ppid)
		if ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// invoke sends one event, and returns the emulator's status and the function's answer.
func (e *environment) invoke(ctx context.Context, event []byte) (status int, answer []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(event))
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
