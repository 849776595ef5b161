package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/show"
)

// writable refuses, before anything is done, a summary that cannot be written.
func (f *rolloutFlags) writable() error {
	if f.summary == "" {
		return nil
	}
	if sameFile(f.summary, f.fleetFile) {
		return hint(usagef("--summary %s is the fleet's description: it would be added to", f.summary), "name another file")
	}
	info, err := os.Stat(f.summary)
	if err == nil && info.IsDir() {
		return usagef("--summary %s is a directory", f.summary)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("--summary: %w", err)
	}
	file, err := os.OpenFile(f.summary, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return usagef("--summary: %w", err)
	}
	return file.Close()
}

// summarise adds the summary of a rollout to the file for it, if there is one. What the file has stays.
func (f *rolloutFlags) summarise(s rollout.State) error {
	if f.summary == "" || s.Spec.ID == "" {
		return nil
	}
	file, err := os.OpenFile(f.summary, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		_, err = file.WriteString(show.Summary(s, f.rollouts.clock.Now()))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}
