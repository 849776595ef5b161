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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/placement"
)

var kills = flag.Int("kills", 1000, "how often TestKilled kills a writing process; a tenth of it with -short")

// childFile names the directory's file to a process that is to write until it is killed, and childBegun is when the
// test began, in nanoseconds since 1970.
const (
	childFile  = "CELLWALL_TEST_WRITE_UNTIL_KILLED"
	childBegun = "CELLWALL_TEST_BEGUN"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	if path := os.Getenv(rolloutFile); path != "" {
		fmt.Fprintln(os.Stderr, journalUntilKilled(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	killTenants = 96
	killWriters = 8
	killSlots   = 121 // a square, see killTopology
	killRush    = 1_000_000
)

func changeOf(operation string) directory.Change {
	return directory.Change{Operation: operation, By: "writer", At: time.Unix(0, 0)}
}

// rushed is the change at a time that runs killRush times as fast as the clock since the test began, so that slots
// come out of their quarantine while it runs.
func rushed(operation string) directory.Change {
	c := changeOf(operation)
	begun, err := strconv.ParseInt(os.Getenv(childBegun), 10, 64)
	if err != nil {
		panic(err)
	}
	c.At = c.At.Add(killRush * time.Duration(time.Now().UnixNano()-begun))
	return c
}

// killTopology places by slot.
func killTopology() directory.Topology {
	t := directory.Topology{
		Cell: "eu-1", Version: 1, Scheme: placement.BoundedV1, KBySize: map[string]int{"": 2}, MaxShared: 1, Slots: killSlots, KeyVersion: "1",
	}
	for i := range 33 {
		t.Shards = append(t.Shards, directory.Shard{ID: killShard(i), Zone: "abc"[i%3 : i%3+1], Weight: 1, State: directory.InUse})
	}
	return t
}

func killShard(i int) string { return fmt.Sprintf("s%02d", i+1) }

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
				changed, err := changeSome(ctx, d, rng, rushed(fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)))
				for _, e := range changed {
					fmt.Printf("%s %d %s\n", e.Tenant, e.Epoch, e.Operation)
				}
				if err != nil && !lost(err) {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// lost says whether another writer was first, or has the slot.
func lost(err error) bool {
	for _, is := range []error{directory.ErrStale, directory.ErrExists, directory.ErrSlotTaken, directory.ErrNoSlot} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// changeSome signs a tenant up, creates one or enrols three, or changes the one that is there, and returns the
// entries of which it knows that they were written.
func changeSome(ctx context.Context, d *directory.Directory, rng *rand.Rand, c directory.Change) ([]directory.Entry, error) {
	tenants := rng.Perm(killTenants)[:3]
	draft := func(i int) directory.Entry {
		e := directory.Entry{Tenant: fmt.Sprint("t", tenants[i]), Cell: "eu-1", State: directory.Active, Topology: 1, Slot: 1 + rng.Uint64N(killSlots), Load: directory.Rate(rng.IntN(1000))}
		e.Pins = somePins(rng)
		return e
	}
	first := draft(0)
	before, err := d.Get(ctx, first.Tenant)
	switch {
	case err == nil:
		after, err := d.Replace(ctx, before, follow(before, first, rng), c)
		return one(after, err)
	case !errors.Is(err, directory.ErrNotFound):
		return nil, err
	}
	switch rng.IntN(3) {
	case 0:
		return one(d.Place(ctx, directory.SignUp{Tenant: first.Tenant, Load: first.Load, Stateful: rng.IntN(2) == 0}, c))
	case 1:
		return one(d.Create(ctx, first, c))
	}
	all := []directory.Entry{first, draft(1), draft(2)}
	got, err := d.Enrol(ctx, all, c)
	if err != nil || got.Created < len(all) {
		return nil, err // which of them were written is not told
	}
	for i := range all {
		all[i].Epoch, all[i].Operation = 1, c.Operation
	}
	return all, nil
}

func one(e directory.Entry, err error) ([]directory.Entry, error) {
	if err != nil {
		return nil, err
	}
	return []directory.Entry{e}, nil
}

// somePins is two shards, or none.
func somePins(rng *rand.Rand) []string {
	if rng.IntN(2) == 0 {
		return nil
	}
	at := rng.Perm(33)
	return []string{killShard(at[0]), killShard(at[1])}
}

// follow is an entry that may follow before: of another state, with the load and pins of other, or in the other cell,
// which gives the slot back or takes that of other.
func follow(before, other directory.Entry, rng *rand.Rand) directory.Entry {
	after := before.Clone()
	after.Load = other.Load
	if before.Cell == "eu-1" && before.State != directory.Moving {
		after.Pins = other.Pins
	}
	switch before.State {
	case directory.Active:
		after.State = []directory.State{directory.Active, directory.Suspended, directory.Moving}[rng.IntN(3)]
		return after
	case directory.Moving:
		if before.Cell == "eu-1" {
			after.Cell, after.Topology, after.Slot, after.Pins = "us-1", 0, 0, nil
		} else {
			after.Cell, after.Topology, after.Slot, after.Pins = "eu-1", 1, other.Slot, other.Pins
		}
	}
	after.State = directory.Active
	return after
}

// Durable and Whole: a writing process is killed at random instants, many times over one file. What it
// had told is there each time, no slot has two tenants, and every record, index and counter agrees with the others. A killed
// process leaves the operating system's memory alone; what a power cut leaves is up to fsync.
func TestKilled(t *testing.T) {
	path := file(t)
	home := open(t, path)
	d, err := directory.Open(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childBegun, fmt.Sprint(time.Now().UnixNano()))
	for _, cell := range killCells {
		if _, err := d.AddCell(t.Context(), directory.Cell{Name: cell, Zones: []string{"a", "b", "c"}}, changeOf("add "+cell)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Publish(t.Context(), killTopology(), changeOf("publish")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenCell(t.Context(), "eu-1", 1_000_000, 1_000_000, 0, changeOf("open")); err != nil {
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
		lines := runAndKill(t, childFile, path, round%2 == 0, time.Duration(rng.IntN(20_000))*time.Microsecond)
		acknowledged += len(lines)
		if len(lines) == 0 {
			silent++
		}
		verify(t, path, lines)
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
	if given := verifyPast(t, path); given == 0 {
		t.Error("no slot was given back: the test says nothing of them")
	}
	t.Logf("%d kills, %d of them before the first acknowledgement; %d changes acknowledged", n, silent, acknowledged)
	if acknowledged < n {
		t.Error("hardly anything was acknowledged: the test says nothing")
	}
}

// runAndKill starts a writing process, kills it a while after its beginning or its first line, and returns
// the lines that it told whole.
func runAndKill(t *testing.T, env, path string, early bool, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+path)
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
