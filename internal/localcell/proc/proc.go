// Package proc is what a local cell needs of the operating system: a process is known by its pid and the
// moment it started, so that a pid given to somebody else meanwhile is never taken for ours; a lock that
// its holder's death gives back; and a process group that dies as one.
package proc

import "errors"

// Process is one process for all time: pids are given again, pids with their start are not.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // opaque; equal only for the same process
}

// ErrUnsupported is what everything here answers on systems other than Unix.
var ErrUnsupported = errors.New("a local cell runs on Linux and macOS only")

// Of returns the running process with this pid.
func Of(pid int) (Process, error) {
	start, err := startOf(pid)
	return Process{pid, start}, err
}

// Alive says whether the process still runs. One that has ended and was not waited for yet does not.
func (p Process) Alive() bool {
	if p.PID <= 0 || p.Start == "" {
		return false
	}
	start, err := startOf(p.PID)
	return err == nil && start == p.Start
}
