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
	Cell         string       `json:"cell"`
	Started      time.Time    `json:"started"`    // UTC
	Supervisor   proc.Process `json:"supervisor"` //
	Guard        proc.Process `json:"guard"`      // leads the process group of all the others
	Router       string       `json:"router"`     // where tenants send their requests, http://127.0.0.1:port
	Admin        string       `json:"admin"`      // the router's counters, for the operator
	Issuer       string       `json:"issuer"`     // OpenID Connect discovery below it
	Control      string       `json:"control"`    // the supervisor's address
	DirectoryURL string       `json:"directory"`  // the tenant directory
	Store        string       `json:"store"`      // the cells' items and queues
	Secret       string       `json:"secret"`     // the operator's, for admin, control, directory and store
	// FrontDoor is where tenants send their requests, and Cells are the cells behind it; empty without one.
	FrontDoor string        `json:"frontDoor,omitempty"`
	Cells     []RunningCell `json:"cells,omitempty"`
	// Processes are those that the supervisor started, as of their last change.
	Processes []ProcessStatus `json:"processes"`
}

// RunningCell is one of several cells.
type RunningCell struct {
	Cell   string `json:"cell"`
	Router string `json:"router"` // where the front door sends its tenants
	Admin  string `json:"admin"`  // the router's counters, for the operator
}

// Only is the cell that runs alone, "" when there are several.
func (r *Running) Only() string {
	if len(r.Cells) > 0 {
		return ""
	}
	return r.Cell
}

// Names are those of the cells that run.
func (r *Running) Names() []string {
	if len(r.Cells) == 0 {
		return []string{r.Cell}
	}
	var all []string
	for _, c := range r.Cells {
		all = append(all, c.Cell)
	}
	return all
}

// ProcessStatus is one process of the cell.
type ProcessStatus struct {
	Name      string     `json:"name"`  // directory, store, issuer, router, keeper, or a shard's id; with several cells CELL/ before what is of one, and global/keeper
	State     string     `json:"state"` // starting, ready, waiting, held, frozen or stopped
	PID       int        `json:"pid,omitempty"`
	Start     string     `json:"start,omitempty"`     // tells the process from a later one with its pid
	Address   string     `json:"address,omitempty"`   // of a worker
	Version   string     `json:"version,omitempty"`   // of a worker that was started, sha256:…
	Starts    int        `json:"starts"`              // 1 when it never died
	HeldUntil *time.Time `json:"heldUntil,omitempty"` // broken on purpose until then
	Fault     *Fault     `json:"fault,omitempty"`     // broken on purpose until it is healed
	Poisoned  []string   `json:"poisoned,omitempty"`  // of a gate: tenants whose requests kill the worker behind it
	LastError string     `json:"lastError,omitempty"` // why it is not ready
	// Deployment is why a worker does not answer whose version was deployed and failed.
	Deployment string `json:"deployment,omitempty"`
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

// control is a client of the supervisor.
func (r *Running) control() *loopback.Client { return loopback.NewClient(r.Control, r.Secret) }

// Alive says whether the process still runs.
func (p ProcessStatus) Alive() bool { return proc.Process{PID: p.PID, Start: p.Start}.Alive() }

// Kill kills the process, if it still runs.
func (p ProcessStatus) Kill() error { return proc.Process{PID: p.PID, Start: p.Start}.Kill() }
