package localcell

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

// Running is a running cell as its state directory describes it. It holds secrets.
type Running struct {
	Cell       string       `json:"cell"`
	Started    time.Time    `json:"started"`    // UTC
	Supervisor proc.Process `json:"supervisor"` //
	Guard      proc.Process `json:"guard"`      // leads the process group of all the others
	Router     string       `json:"router"`     // where tenants send their requests, http://127.0.0.1:port
	Admin      string       `json:"admin"`      // the router's counters, for the operator
	Issuer     string       `json:"issuer"`     // OpenID Connect discovery below it
	Control    string       `json:"control"`    // the supervisor's address
	Store      string       `json:"store"`      // the directory and the cell's items
	Secret     string       `json:"secret"`     // the operator's, for admin, control and store
	// Processes are those that the supervisor started, as of their last change.
	Processes []ProcessStatus `json:"processes"`
}

// ProcessStatus is one process of the cell.
type ProcessStatus struct {
	Name      string     `json:"name"`  // store, router, or a shard's id
	State     string     `json:"state"` // starting, ready, waiting, held or stopped
	PID       int        `json:"pid,omitempty"`
	Start     string     `json:"start,omitempty"`     // tells the process from a later one with its pid
	Address   string     `json:"address,omitempty"`   // of a worker
	Starts    int        `json:"starts"`              // 1 when it never died
	HeldUntil *time.Time `json:"heldUntil,omitempty"` // broken on purpose until then
	LastError string     `json:"lastError,omitempty"` // why it is not ready
}

// ErrNotRunning and ErrRunning say how a cell is, to somebody who expected the other.
var (
	ErrNotRunning = errors.New("no local cell is running here")
	ErrRunning    = errors.New("a local cell is running here already")
)

// Find returns the cell that runs in d. ErrNotRunning when none does, even if one left its traces.
// ErrNotState when d is no cell's directory.
func (d Dir) Find() (*Running, error) {
	if _, err := d.unused(); err != nil {
		return nil, err
	}
	running, err := d.traces()
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !running.Supervisor.Alive():
		return nil, fmt.Errorf("%w (%s)", ErrNotRunning, d)
	case err != nil:
		return nil, err
	}
	return running, nil
}

// traces is what the last cell in d wrote down, running or not.
func (d Dir) traces() (*Running, error) {
	var r Running
	if err := d.readJSON(fileRunning, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// control is a client of the supervisor, admin of the router.
func (r *Running) control() *loopback.Client { return loopback.NewClient(r.Control, r.Secret) }
func (r *Running) admin() *loopback.Client   { return loopback.NewClient(r.Admin, r.Secret) }

// Alive says whether the process still runs.
func (p ProcessStatus) Alive() bool { return proc.Process{PID: p.PID, Start: p.Start}.Alive() }

// Kill kills the process, if it still runs.
func (p ProcessStatus) Kill() error { return proc.Process{PID: p.PID, Start: p.Start}.Kill() }
