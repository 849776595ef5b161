package localcell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	want := []time.Duration{100, 100, 200, 400, 800, 1600, 3200, 5000, 5000}
	for deaths, ms := range want {
		if got := backoff(deaths); got != ms*time.Millisecond {
			t.Errorf("after %d deaths: %v, want %v", deaths, got, ms*time.Millisecond)
		}
	}
	if got := backoff(1 << 30); got != maxBackoff {
		t.Errorf("after very many: %v", got)
	}
}

// startChild runs a shell script as a child that is ready once the file "ready" is there.
func startChild(t *testing.T, script string) (c *child, dir string, stop func()) {
	t.Helper()
	dir = t.TempDir()
	command := func() *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = dir
		return cmd
	}
	probe := func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		return err
	}
	c = newChild("s01", filepath.Join(dir, "log"), command, probe, slog.New(slog.DiscardHandler), func() {})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return c, dir, stop
}

func (c *child) is(state childState) func() bool {
	return func() bool { return c.status().State == string(state) }
}

func TestAChildThatDiesIsStartedAgain(t *testing.T) {
	c, dir, stop := startChild(t, `echo started >> starts; exit 3`)
	eventually(t, "three starts", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "starts"))
		return strings.Count(string(text), "started") >= 3
	})
	ready, deaths, err := c.progress()
	if ready || deaths < 2 || err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ready %t, %d deaths, %v", ready, deaths, err)
	}
	stop()
	if s := c.status(); s.State != string(childStopped) || s.PID != 0 {
		t.Errorf("after stop: %+v", s)
	}
}

func TestAChildThatCannotBeStartedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	tries := 0
	c := newChild("s01", filepath.Join(dir, "log"), func() *exec.Cmd {
		tries++
		if tries == 1 {
			return exec.Command(filepath.Join(dir, "nothing"))
		}
		return exec.Command("/bin/sh", "-c", "sleep 60")
	}, func(context.Context) error { return nil }, slog.New(slog.DiscardHandler), func() {})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.run(ctx); close(ended) }()
	eventually(t, "ready", c.is(childReady))
	cancel()
	<-ended
	if tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

// TestRestartEndsABackoff: what was healed of what it died of comes back at once, and is not said to start no more.
func TestRestartEndsABackoff(t *testing.T) {
	c, dir, _ := startChild(t, `echo started >> starts; test -e ready && exec sleep 60; exit 3`)
	eventually(t, "a long back-off", func() bool {
		_, deaths, _ := c.progress()
		return deaths > startDeaths && c.status().State == string(childWaiting)
	})
	before := c.status().Starts
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, deaths, _ := c.progress(); deaths != 0 {
		t.Errorf("%d deaths are remembered", deaths)
	}
	s := &supervisor{}
	if err := s.awaitReady(t.Context(), []*child{c}); err != nil {
		t.Error(err)
	}
	if after := c.status().Starts; after != before+1 {
		t.Errorf("started %d times", after-before)
	}
}

func TestHoldKillsAndReleaseStartsAtOnce(t *testing.T) {
	c, _, _ := startChild(t, `touch ready; exec sleep 60`)
	eventually(t, "ready", c.is(childReady))
	first, err := c.hold(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if first.PID == 0 || first.Alive() {
		t.Errorf("the process %+v was to be killed", first)
	}
	eventually(t, "held", c.is(childHeld))
	if again, err := c.hold(t.Context(), time.Hour); err != nil || again.PID != 0 {
		t.Errorf("hold of what is held: %+v, %v", again, err)
	}
	c.release()
	eventually(t, "ready again", c.is(childReady))
	if s := c.status(); s.Starts != 2 || s.HeldUntil != nil {
		t.Errorf("after release: %+v", s)
	}
	c.release() // of what is not held: nothing
	if s := c.status(); s.State != string(childReady) {
		t.Errorf("after a release too many: %+v", s)
	}
}

func TestAHoldMayBeMadeShorter(t *testing.T) {
	c, _, _ := startChild(t, `touch ready; exec sleep 60`)
	eventually(t, "ready", c.is(childReady))
	if _, err := c.hold(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.hold(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", c.is(childReady))
}

func TestAStubbornChildIsKilled(t *testing.T) {
	c, _, stop := startChild(t, `trap '' TERM; touch ready; while :; do sleep 1; done`)
	eventually(t, "ready", c.is(childReady))
	stop()
	if s := c.status(); s.State != string(childStopped) {
		t.Errorf("after stop: %+v", s)
	}
}

func TestHoldWhileAProcessComesAndGoes(t *testing.T) {
	c, _, _ := startChild(t, `exit 0`)
	for i := range 50 {
		if _, err := c.hold(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprint("held, ", i), func() bool {
			s := c.status()
			return s.State == string(childHeld) && s.PID == 0
		})
		c.release()
	}
}

func TestHoldThatIsNotWaitedFor(t *testing.T) {
	c, _, _ := startChild(t, `touch ready; exec sleep 60`)
	eventually(t, "ready", c.is(childReady))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.hold(ctx, time.Hour); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	eventually(t, "held nevertheless", c.is(childHeld))
}
