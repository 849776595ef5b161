//go:build unix

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Lock is held by one process at a time. The system gives it back when its holder dies.
type Lock struct{ file *os.File }

// TryLock takes the lock at path, and creates the file when there is none. Without an error, a nil lock
// means that another process holds it.
func TryLock(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the lock: %w", err)
	}
	// Go opens files close-on-exec, so no child keeps the lock alive.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Lock{file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("take the lock %s: %w", path, err)
}

// File is the lock as a file that another process can be given; the lock is given back when every process
// that has it released it or died.
func (l *Lock) File() *os.File { return l.file }

// Inherited is a file that the process was started with, as number fd. It is not passed on to processes
// that this one starts.
func Inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }

// Owns says whether what info describes belongs to the user that this process acts as.
func Owns(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// IsNotDirectory says whether err came of a path that leads through a file.
func IsNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// Detach makes cmd the leader of its own session, so that it outlives the terminal and its signals.
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Join puts cmd into the process group, or into a new one with its own pid as number when group is 0.
func Join(cmd *exec.Cmd, group int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// KillGroup kills every process of the caller's own group, the caller included.
func KillGroup() error { return syscall.Kill(0, syscall.SIGKILL) }

// LeadsGroup says whether the calling process leads its process group.
func LeadsGroup() bool { return syscall.Getpgrp() == os.Getpid() }

// Kill kills the process if it still is the one that p names.
func (p Process) Kill() error { return p.signal(syscall.SIGKILL) }

// Terminate asks the process to end if it still is the one that p names.
func (p Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Stop stops the process, which then does nothing until Continue, if it still is the one that p names.
func (p Process) Stop() error { return p.signal(syscall.SIGSTOP) }

// Continue lets the process go on if it still is the one that p names.
func (p Process) Continue() error { return p.signal(syscall.SIGCONT) }

func (p Process) signal(s syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}
