//go:build unix && !linux

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// startOf asks ps (POSIX) for the state and the full date and time of the start.
func startOf(pid int) (string, error) {
	cmd := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.Output()
	state, start, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !found || strings.HasPrefix(state, "Z") {
		return "", fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return strings.TrimSpace(start), nil
}
