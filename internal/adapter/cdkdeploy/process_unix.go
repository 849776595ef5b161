//go:build unix

package cdkdeploy

import (
	"os/exec"
	"syscall"
)

// group gives a process a group of its own, which a signal for it reaches whole: a Ctrl-C at the terminal is cellwall's,
// which ends the group in good order.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// ended ends what is left of the group.
func ended(cmd *exec.Cmd) {
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
