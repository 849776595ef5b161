package localcell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"cellwall.dev/cellwall/internal/localcell/proc"
)

// fileMark is in every state directory, from before anything else is, and tells it from a directory of
// the user's in which nothing may be overwritten or removed.
const fileMark = "cellwall-state"

const markText = "This directory is the state of a local cell, see `cellwall local --help`.\n" +
	"The cell overwrites its own files here, and `cellwall local down --purge` removes them.\n"

// ErrNotState means that a state directory was named in which no cell may keep anything.
var ErrNotState = errors.New("not a state directory")

// ErrDamaged means that a file of the cell on disk cannot be used.
var ErrDamaged = errors.New("the cell on disk is damaged")

// create makes the directory, for its owner only, unless it is a cell's already. fresh says that no cell
// was in it before. ErrNotState when it is somebody else's or holds anything else.
func (d Dir) create() (fresh bool, err error) {
	if err := os.MkdirAll(d.path, 0o700); errors.Is(err, fs.ErrExist) || proc.IsNotDirectory(err) {
		return false, fmt.Errorf("%w: %s is, or lies below, a file", ErrNotState, d)
	} else if err != nil {
		return false, fmt.Errorf("state directory: %w", err)
	}
	if fresh, err = d.unused(); err != nil {
		return false, err
	}
	if fresh {
		// Two commands may get here at once; the lock tells them apart later.
		mark, err := os.OpenFile(d.file(fileMark), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_, err = mark.WriteString(markText)
			err = errors.Join(err, mark.Close())
		}
		if fresh = !errors.Is(err, fs.ErrExist); fresh && err != nil {
			return false, fmt.Errorf("mark the state directory: %w", err)
		}
	}
	if err := os.MkdirAll(d.file(dirLogs), 0o700); err != nil {
		return fresh, fmt.Errorf("state directory: %w", err)
	}
	return fresh, nil
}

// unused looks at the directory before anything in it is read, changed or removed. It says whether
// nothing is there yet, neither a cell nor anything else.
func (d Dir) unused() (bool, error) {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case proc.IsNotDirectory(err), err == nil && !info.IsDir():
		return false, fmt.Errorf("%w: %s is, or lies below, a file", ErrNotState, d)
	case err != nil:
		return false, fmt.Errorf("state directory: %w", err)
	case !proc.Owns(info):
		return false, fmt.Errorf("%w: %s belongs to another user, who could change the cell's data and keys", ErrNotState, d)
	case info.Mode().Perm()&0o022 != 0:
		return false, fmt.Errorf("%w: others can write to %s (mode %#o), and so change the cell's data and keys; chmod go-w it", ErrNotState, d, info.Mode().Perm())
	}
	mark, err := os.Lstat(d.file(fileMark))
	switch {
	case err == nil && mark.Mode().IsRegular():
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("state directory: %w", err)
	}
	entries, err := os.ReadDir(d.path)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		// Another cell's directory below this one is in nobody's way.
		_, err := os.Lstat(filepath.Join(d.path, e.Name(), fileMark))
		return e.IsDir() && err == nil
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("state directory: %w", err)
	case len(entries) > 0:
		return false, fmt.Errorf("%w: %s has files (such as %s) and no cell made it, for it has no file %s", ErrNotState, d, entries[0].Name(), fileMark)
	}
	return true, nil
}

// processesOnDisk are the processes of the cells in d, as far as its files still tell.
func (d Dir) processesOnDisk() (names []string, l Layout) {
	var older struct{ Shards []string }
	// What cannot be read names no logs, and those stay.
	_ = d.readJSON(fileTopology, &older)
	l, _ = d.readLayout()
	names = l.processes()
	alone := l // each cell may have run alone before
	alone.FrontDoor = false
	names = append(names, alone.processes()...)
	for _, id := range older.Shards {
		if shardID.MatchString(id) {
			names = append(names, id)
		}
	}
	return names, l
}

// shardID keeps what a changed file names from leading out of the directory of logs.
var shardID = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// temporary is what write leaves behind when its process is killed.
var temporary = regexp.MustCompile(`^\.(.+)-[0-9]+$`)

// purge removes what a local cell keeps, each file by its name, and the directory itself when nothing
// else is in it. The mark goes last, so that an interrupted purge can be repeated.
func (d Dir) purge() error {
	processes, l := d.processesOnDisk()
	names := slices.Concat([]string{
		fileRunning, filePlan, fileTopology, filePlacementKey, fileKeyLock, fileIssuerKey, fileStore, fileFrontDoor,
		fileDirectory, fileItems, fileQueues, fileLock, fileVersions, fileSigns,
	}, l.files())
	remove := logNames(processes)
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if m := temporary.FindStringSubmatch(e.Name()); m != nil && slices.Contains(names, m[1]) {
			remove = append(remove, e.Name())
		}
	}
	logs, _ := os.ReadDir(d.file(dirLogs)) // that is not there has none
	for _, e := range logs {
		if l.isLog(e.Name()) {
			remove = append(remove, filepath.Join(dirLogs, e.Name()))
		}
	}
	errs := []error{err, d.purgeWorkers()}
	for _, name := range slices.Concat(remove, names) {
		errs = append(errs, d.remove(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	// These stay when somebody else's files are in them.
	_ = os.Remove(d.file(dirLogs))
	if err := d.remove(fileMark); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	_ = os.Remove(d.path)
	return nil
}

// clearLogs removes the logs of the last run, so that they do not grow from run to run.
func (d Dir) clearLogs(l Layout) error {
	for _, name := range logNames(l.processes()) {
		if err := d.remove(name); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
	return nil
}

func logNames(processes []string) []string {
	var names []string
	for _, process := range processes {
		names = append(names, filepath.Join(dirLogs, logName(process)))
	}
	return names
}
