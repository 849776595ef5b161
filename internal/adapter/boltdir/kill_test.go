package boltdir

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

var kills = flag.Int("kills", 1000, "how often TestKilled kills a writing process; a tenth of it with -short")

// childFile names the directory's file to a process that is to write until it is killed.
const childFile = "CELLWALL_TEST_WRITE_UNTIL_KILLED"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	killTenants = 96
	killWriters = 8
)

func changeOf(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "writer", At: time.Unix(0, 0)}
}

// writeUntilKilled changes tenants, with writers at the same time, and tells what was acknowledged, a
// line each: tenant, epoch, operation.
func writeUntilKilled(path string) error {
	fmt.Println("begun")
	home, err := Open(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	d, err := directory.Open(ctx, home)
	if err != nil {
		return err
	}
	var failed error
	var once sync.Once
	var wg sync.WaitGroup
	for w := range killWriters {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), uint64(os.Getpid())))
			for i := 0; ; i++ {
				e, err := changeOne(ctx, d, rng, fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i))
				switch {
				case err == nil:
					fmt.Printf("%s %d %s\n", e.Tenant, e.Epoch, e.Operation)
				case !errors.Is(err, directory.ErrStale) && !errors.Is(err, directory.ErrExists):
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

func changeOne(ctx context.Context, d *directory.Directory, rng *rand.Rand, operation string) (directory.Entry, error) {
	tenant := fmt.Sprint("t", rng.IntN(killTenants))
	load := directory.Rate(rng.IntN(1000))
	before, err := d.Get(ctx, tenant)
	if errors.Is(err, directory.ErrNotFound) {
		return d.Create(ctx, directory.Entry{Tenant: tenant, Cell: "eu-1", State: directory.Active, Load: load}, changeOf(operation))
	}
	if err != nil {
		return directory.Entry{}, err
	}
	after := before.Clone()
	after.Load = load
	switch before.State {
	case directory.Active:
		after.State = []directory.State{directory.Active, directory.Suspended, directory.Moving}[rng.IntN(3)]
	default:
		after.State = directory.Active
	}
	return d.Replace(ctx, before, after, changeOf(operation))
}

// Durable and Whole: a writing process is killed at random instants, many times over one file. What it
// had told is there each time, and every record, index and counter agrees with the others. A killed
// process leaves the operating system's memory alone; what a power cut leaves is up to fsync.
func TestKilled(t *testing.T) {
	path := file(t)
	home := open(t, path)
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.AddCell(t.Context(), directory.Cell{Name: "eu-1"}, changeOf("add")); err != nil {
		t.Fatal(err)
	}
	if err := home.Close(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := *kills
	if testing.Short() {
		n /= 10
	}
	acknowledged, silent := 0, 0
	for round := range n {
		// Every other process is killed from its beginning on, the others once they have written.
		lines := runAndKill(t, path, round%2 == 0, time.Duration(rng.IntN(20_000))*time.Microsecond)
		acknowledged += len(lines)
		if len(lines) == 0 {
			silent++
		}
		verify(t, path, lines)
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
	t.Logf("%d kills, %d of them before the first acknowledgement; %d changes acknowledged", n, silent, acknowledged)
	if acknowledged < n {
		t.Error("hardly anything was acknowledged: the test says nothing")
	}
}

// runAndKill starts a writing process, kills it a while after its beginning or its first line, and returns
// the lines that it told whole.
func runAndKill(t *testing.T, path string, early bool, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatalf("the process did not begin: %v", err)
	}
	first := ""
	if !early {
		if first, err = reader.ReadString('\n'); err != nil {
			t.Fatalf("the process wrote nothing: %v", err)
		}
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	told, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process ended by itself: %v", err)
	}
	lines := strings.Split(first+string(told), "\n")
	return lines[:len(lines)-1] // what follows the last newline was cut off
}

// verify opens the file and holds what is there against what was told, and against itself.
func verify(t *testing.T, path string, lines []string) {
	t.Helper()
	home, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var tenant, operation string
		var epoch uint64
		if _, err := fmt.Sscan(line, &tenant, &epoch, &operation); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		past, err := d.History(t.Context(), tenant, epoch-1, 1)
		if err != nil || len(past) != 1 || past[0].After.Epoch != epoch || past[0].After.Operation != operation {
			t.Errorf("%q was acknowledged, and the history has %+v, %v", line, past, err)
		}
	}
	entries, err := d.List(t.Context(), "", killTenants+1)
	if err != nil {
		t.Fatal(err)
	}
	var load directory.Rate
	states := map[directory.State]int{}
	for _, e := range entries {
		load += e.Load
		states[e.State]++
		past, err := d.History(t.Context(), e.Tenant, e.Epoch-1, 10)
		if err != nil || len(past) != 1 || past[0].After.Operation != e.Operation {
			t.Errorf("the entry of %s has epoch %d by %s; the history goes on with %+v, %v", e.Tenant, e.Epoch, e.Operation, past, err)
		}
	}
	cell, err := d.Cell(t.Context(), "eu-1")
	if err != nil || cell.Load != load || cell.Tenants != int64(len(entries)) {
		t.Errorf("the cell has load %v of %d tenants, and they have %v of %d, %v", cell.Load, cell.Tenants, load, len(entries), err)
	}
	byCell, err := d.ListCell(t.Context(), "eu-1", "", killTenants+1)
	if err != nil || len(byCell) != len(entries) {
		t.Errorf("%d tenants are listed by cell, %v; want %d", len(byCell), err, len(entries))
	}
	for _, state := range []directory.State{directory.Placing, directory.Active, directory.Suspended, directory.Moving} {
		if byState, err := d.ListState(t.Context(), state, "", killTenants+1); err != nil || len(byState) != states[state] {
			t.Errorf("%d tenants are listed as %s, %v; want %d", len(byState), state, err, states[state])
		}
	}
}
