package cli

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestOutlivesReaders: who drives a rollout goes on when nobody reads what it prints any more; whatever only prints ends.
func TestOutlivesReaders(t *testing.T) {
	if mode := os.Getenv("CELLWALL_TEST_READER"); mode != "" {
		if mode == "drives" {
			outlivesReaders()
		}
		for range 2 {
			if _, err := os.Stdout.WriteString("a line\n"); !errors.Is(err, syscall.EPIPE) {
				os.Exit(9)
			}
		}
		os.Exit(5)
	}
	for mode, want := range map[string]func(*exec.ExitError) bool{
		"drives": func(e *exec.ExitError) bool { return e.ExitCode() == 5 },
		"prints": func(e *exec.ExitError) bool {
			s, ok := e.Sys().(syscall.WaitStatus)
			return ok && s.Signaled() && s.Signal() == syscall.SIGPIPE
		},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := exec.Command(os.Args[0], "-test.run=^TestOutlivesReaders$")
		cmd.Env = append(os.Environ(), "CELLWALL_TEST_READER="+mode)
		cmd.Stdout = w
		err = cmd.Run()
		w.Close()
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || !want(e) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
