package proc

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// startOf joins the boot's id and the process's start in clock ticks since that boot (proc_pid_stat(5),
// field 22).
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	// The second field is the command in parentheses and may hold anything, parentheses too.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, start = 3 - 3, 22 - 3 // the first field after the command is number 3
	if len(fields) <= start {
		return "", fmt.Errorf("process %d: its stat file has %d fields after the command", pid, len(fields))
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return "", fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("id of this boot: %w", err)
	}
	return strings.TrimSpace(string(boot)) + "/" + string(fields[start]), nil
}
