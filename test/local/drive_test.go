package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/localcell"
	"cellwall.dev/cellwall/internal/localcell/rolling"
	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/journal"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// asDriver makes this test's executable the process that drives a rollout; it is the state directory.
const asDriver = "CELLWALL_TEST_DRIVES"

// drive is the driver process: it begins the rollout that stands on standard input, or goes on with the latest.
func drive(state string) error {
	d, err := localcell.NewDir(state)
	if err != nil {
		return err
	}
	driver, _, err := driverOf(d)
	if err != nil {
		return err
	}
	var spec rollout.Spec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return err
	}
	if spec.ID == "" {
		_, err = driver.Resume(context.Background(), "", run.Wish{})
	} else {
		_, err = driver.Start(context.Background(), spec)
	}
	return err
}

func driverOf(d localcell.Dir) (*run.Driver, *journal.Store, error) {
	r, err := d.Find()
	if err != nil {
		return nil, nil, err
	}
	home, err := r.Directory()
	if err != nil {
		return nil, nil, err
	}
	cells, err := rolling.New(d)
	if err != nil {
		return nil, nil, err
	}
	store := journal.New(home)
	driver, err := run.New(run.Config{
		Service: cells.Service(), Holder: fmt.Sprintf("process %d", os.Getpid()), Leases: store, Journal: store, Wishes: store, Stacks: cells, Gate: cells,
		Interval: 200 * time.Millisecond, TTL: 3 * time.Second, Patience: time.Minute,
	})
	return driver, store, err
}

// driving is a driver process.
type driving struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	errs  strings.Builder
}

// drives starts a driver process for a rollout, or with an empty one for the latest.
func (c *cell) drives(spec rollout.Spec) *driving {
	c.t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	d := &driving{t: c.t, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	d.cmd.Env, d.cmd.Stdin, d.cmd.Stderr = append(os.Environ(), asDriver+"="+c.state), strings.NewReader(string(text)), &d.errs
	if err := d.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { d.kill() })
	go func() { d.cmd.Wait(); close(d.ended) }()
	return d
}

// kill ends the process at once, as nothing that it could see coming.
func (d *driving) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// end waits until the process ends by itself.
func (d *driving) end() {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(2 * time.Minute):
		d.t.Fatal("the driver does not come to an end")
	}
	if !d.cmd.ProcessState.Success() {
		d.t.Fatalf("the driver ended with %v: %s", d.cmd.ProcessState, &d.errs)
	}
}

// latest is the service's latest rollout.
func (c *cell) latest() rollout.State {
	c.t.Helper()
	_, store, err := driverOf(c.dir())
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := store.Latest(c.t.Context(), "orders")
	if err != nil {
		c.t.Fatal(err)
	}
	return r.State
}

// until waits for something of a rollout, which is to be the latest.
func (c *cell) until(id, what string, is func(rollout.State) bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s := c.latest()
		if s.Spec.ID == id && is(s) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("in vain: %s; the rollout is %s (%s), cells %+v", what, s.Status, s.Why, s.Cells)
		}
	}
}
