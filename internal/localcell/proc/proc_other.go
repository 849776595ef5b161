//go:build !unix

package proc

import (
	"os"
	"os/exec"
)

// Lock is held by one process at a time.
type Lock struct{}

func TryLock(string) (*Lock, error)  { return nil, ErrUnsupported }
func (*Lock) Release() error         { return ErrUnsupported }
func (*Lock) File() *os.File         { return nil }
func Inherited(int, string) *os.File { return nil }
func Detach(*exec.Cmd)               {}
func Join(*exec.Cmd, int)            {}
func Owns(os.FileInfo) bool          { return false }
func IsNotDirectory(error) bool      { return false }
func KillGroup() error               { return ErrUnsupported }
func LeadsGroup() bool               { return false }
func (Process) Kill() error          { return ErrUnsupported }
func (Process) Terminate() error     { return ErrUnsupported }
func (Process) Stop() error          { return ErrUnsupported }
func (Process) Continue() error      { return ErrUnsupported }
func startOf(int) (string, error)    { return "", ErrUnsupported }
