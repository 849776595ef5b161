//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of times in /proc: USER_HZ, which is 100 on all of Linux's architectures that Go has.
const tick = time.Second / 100

// stat is what /proc/PID/stat says of a process (proc_pid_stat(5)).
type stat struct {
	parent int
	cpu    time.Duration // in user and kernel mode, with that of children which were waited for
}

func parseStat(text []byte) (stat, error) {
	// The name in brackets may hold anything.
	at := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[at+1:])
	const state = 3 // the number of the first field here
	if at < 0 || len(fields) <= 17-state {
		return stat{}, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	var s stat
	var err error
	if s.parent, err = strconv.Atoi(string(fields[4-state])); err != nil {
		return stat{}, err
	}
	for i := 14; i <= 17; i++ { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(string(fields[i-state]), 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(n) * tick
	}
	return s, nil
}

// cpuOf is the processor time that a process and all below it took so far.
func cpuOf(pid int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	all := map[int]stat{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // it ended meanwhile
			}
			return 0, err
		}
		s, err := parseStat(text)
		if err != nil {
			return 0, err
		}
		of, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		all[of] = s
	}
	if _, ok := all[pid]; !ok {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	sum := time.Duration(0)
	for of, s := range all {
		if below(all, of, pid) {
			sum += s.cpu
		}
	}
	return sum, nil
}

// below says whether a process is another one or was started by it, or by one that was.
func below(all map[int]stat, pid, top int) bool {
	for range len(all) + 1 {
		if pid == top {
			return true
		}
		s, ok := all[pid]
		if !ok || pid == s.parent {
			return false
		}
		pid = s.parent
	}
	return false
}
