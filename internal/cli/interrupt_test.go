package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterruptEndsWhatReads has commands read from what nobody writes to.
func TestInterruptEndsWhatReads(t *testing.T) {
	inFolder(t, smallFleet)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if err := os.WriteFile("worker", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		slices.Concat([]string{"place"}, placed, []string{"--tenants-file", "-"}),
		slices.Concat(recipe122, []string{"--failed", "0", "--tenants-file", "-"}),
		slices.Concat(recipe122, []string{"--failed", "0", "--tenants-file", fifo}),
		{"plan", "--tenants-file", "-"},
		{"fleet", "validate", fifo},
		{"audit", "--fleet", fifo, "."},
		{"local", "up", "--worker", "worker", "--tenants", "-"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			read, write := io.Pipe()
			ctx, cancel := context.WithCancelCause(t.Context())
			status := make(chan int)
			go func() { status <- Run(ctx, args, read, io.Discard, io.Discard) }()
			cancel(Interrupted(signal))
			select {
			case got := <-status:
				if got != 128+int(signal) {
					t.Errorf("%q: status %d, want %d", args, got, 128+int(signal))
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%q goes on after signal %d", args, signal)
			}
			write.Close() // lets what was given up end
			if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				f.Close()
			}
		}
	}
}

// TestInterruptWaitsForWhatWatches lets a command that watches its context leave things in order.
func TestInterruptWaitsForWhatWatches(t *testing.T) {
	a := &app{}
	ctx, cancel := context.WithCancelCause(t.Context())
	tidy := false
	err := a.untilInterrupted(ctx, func() error {
		a.watches()
		cancel(Interrupted(syscall.SIGINT))
		time.Sleep(20 * time.Millisecond) // so that giving up would show
		tidy = true
		return errors.New("tidied up")
	})
	if !tidy || err == nil || err.Error() != "tidied up" {
		t.Errorf("tidied up: %t, %v", tidy, err)
	}
}

// TestInterruptIsTheReason: what failed because its context had ended tells the signal, and nothing else does.
func TestInterruptIsTheReason(t *testing.T) {
	for _, test := range []struct {
		fails error
		want  int
	}{
		{fmt.Errorf("enrol tenants: %w", context.Canceled), 130},
		{foundf("%w", context.Canceled), 130},
		{Interrupted(syscall.SIGINT), 130},
		{errors.New("the disk is full"), ExitFailed},
		{foundf("refused"), ExitFound},
		{nil, ExitDone},
	} {
		a := &app{}
		ctx, cancel := context.WithCancelCause(t.Context())
		err := a.untilInterrupted(ctx, func() error {
			a.watches() // others are given up
			cancel(Interrupted(syscall.SIGINT))
			return test.fails
		})
		switch {
		case (err == nil) != (test.fails == nil), !errors.Is(err, test.fails):
			t.Errorf("%v became %v", test.fails, err)
		case err != nil && statusOf(err) != test.want:
			t.Errorf("%v: status %d, want %d", err, statusOf(err), test.want)
		}
	}
	a := &app{}
	if err := a.untilInterrupted(t.Context(), func() error { return context.Canceled }); err != context.Canceled {
		t.Errorf("without a signal: %v", err)
	}
}

func TestVersion(t *testing.T) {
	status, out, errw := command("", "--version")
	if status != ExitDone || !strings.HasPrefix(out, "cellwall ") || len(strings.Fields(out)) < 2 || errw != "" {
		t.Errorf("status %d, %q, %q", status, out, errw)
	}
}

func TestHelp(t *testing.T) {
	for _, words := range []string{"", "place", "local up", "fleet validate"} {
		status, out, errw := command("", append([]string{"help"}, strings.Fields(words)...)...)
		if status != ExitDone || !strings.Contains(out, "cellwall "+words) || errw != "" {
			t.Errorf("help %s: status %d, %q, %q", words, status, out, errw)
		}
	}
	for _, words := range []string{"bogus", "local bogus", "place bogus"} {
		status, out, errw := command("", append([]string{"help"}, strings.Fields(words)...)...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, `unknown command "bogus"`) {
			t.Errorf("help %s: status %d, %q, %q", words, status, out, errw)
		}
	}
}

// TestANamedFleetMustExist is about commands that do not need one.
func TestANamedFleetMustExist(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		slices.Concat([]string{"place"}, placed, []string{"acme"}), {"fleet", "schema"}, {"local", "status"}, {"local", "down"}, {"audit", "."}, {}, {"help"},
	} {
		status, out, errw := command("", append(args, "--fleet", "nope.yaml")...)
		if status != ExitUsage || out != "" || !strings.Contains(errw, "nope.yaml") {
			t.Errorf("%q: status %d, %q, %q", args, status, out, errw)
		}
	}
	var out bytes.Buffer
	if status := Run(t.Context(), slices.Concat([]string{"place"}, placed, []string{"acme"}), nil, &out, io.Discard); status != ExitDone {
		t.Errorf("without --fleet: status %d", status)
	}
}

// TestNumbersAreDecimal: 010 is ten to people and eight to some programs, so it is nothing here.
func TestNumbersAreDecimal(t *testing.T) {
	for _, number := range []string{"010", "0x10", "0b1", "0o7", "1_0", "+1", "00", "-0", "", " 7", "7.0", "1e1"} {
		for _, args := range [][]string{
			{"place", "--shards", number}, {"place", "--per-tenant", number}, {"blast", "--shards", number},
			{"blast", "exact", "--misbehaving", number}, {"place", "--weights", number}, {"place", "--slot", number},
			{"local", "traffic", "--tenants", number}, {"local", "traffic", "--rounds", number}, {"local", "traffic", "--concurrency", number},
		} {
			status, out, errw := command("", args...)
			if status != ExitUsage || out != "" || !strings.Contains(errw, "invalid argument") || !strings.Contains(errw, "decimal") {
				t.Errorf("%q: status %d, %q", args, status, errw)
			}
		}
	}
	for _, number := range []string{"010", "0x1p4", "1_0", "inf", "NaN", "+1", "1e3", ".5", "5.", ""} {
		if status, _, errw := command("", "local", "traffic", "--rate", number); status != ExitUsage || !strings.Contains(errw, "decimal") {
			t.Errorf("--rate %q: status %d, %q", number, status, errw)
		}
	}
	for _, number := range []string{"0", "0.5", "10", "2.25"} {
		if status, _, errw := command("", "local", "traffic", "--state-dir", filepath.Join(t.TempDir(), "d"), "--rate", number); status != ExitFound {
			t.Errorf("--rate %q: status %d, %q", number, status, errw)
		}
	}
}

func TestTokenOfNoTenant(t *testing.T) {
	for id, words := range map[string]string{"": "argument 1 is empty", "a\xff": "1 to 128 bytes", strings.Repeat("x", 129): "1 to 128 bytes"} {
		if status, out, errw := command("", "local", "token", id); status != ExitUsage || out != "" || !strings.Contains(errw, words) {
			t.Errorf("%q: status %d, %q, %q", id, status, out, errw)
		}
	}
}
