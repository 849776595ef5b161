package localcell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files of a state directory.
const (
	fileLock         = "lock"          // held by the supervisor while the cell runs
	fileRunning      = "running.json"  // addresses, processes and secrets of the running cell
	filePlan         = "plan.json"     // what the supervisor is to run
	fileTopology     = "topology.json" // of a version that kept there what is published in the directory now
	filePlacementKey = "placement-key" // {version: hex}
	fileKeyLock      = "placement-key.lock"
	fileIssuerKey    = "issuer-key.pem"
	fileStore        = "store.json"  // the store process's secrets
	fileRouter       = "router.json" // the router process's settings and secrets
	fileFrontDoor    = "frontdoor.json"
	fileDirectory    = "directory.db"
	fileItems        = "items.db"
	fileQueues       = "queues.db"
	fileSnapshot     = "snapshot"      // what a router serves from while what it asks is down
	fileSnapshotKeys = "snapshot-keys" // that seal it
	dirLogs          = "logs"
)

// Dir is the state directory of one local cell.
type Dir struct{ path string }

// NewDir names a state directory, which need not exist yet.
func NewDir(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("state directory: %w", err)
	}
	return Dir{abs}, nil
}

// String is the absolute path.
func (d Dir) String() string { return d.path }

func (d Dir) file(name string) string { return filepath.Join(d.path, name) }

// cellFiles are the files that each of several cells has for itself, as CELL.FILE.
var cellFiles = []string{fileRouter, fileSnapshot, fileSnapshotKeys, fileSnapshot + ".lock"}

// Log is the path of the log of one process of the cell.
func (d Dir) Log(process string) string { return filepath.Join(d.path, dirLogs, logName(process)) }

// logName is the file of a process's log; one of several cells is named CELL/PROCESS.
func logName(process string) string { return strings.ReplaceAll(process, "/", ".") + ".log" }

// write replaces a file as a whole, or leaves it as it was.
func (d Dir) write(name string, data []byte) error {
	// os.CreateTemp gives mode 0600.
	temp, err := os.CreateTemp(d.path, "."+name+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), d.file(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", d.file(name), err), os.Remove(temp.Name()))
	}
	return nil
}

func (d Dir) writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.write(name, append(data, '\n'))
}

// read reads a file that may hold secrets, and refuses one that others than its owner can read.
func (d Dir) read(name string) ([]byte, error) {
	path := d.file(name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o, so others can read or change it: take it for known, remove it, "+
			"or chmod 600 it if nobody else uses this machine", path, mode)
	}
	return os.ReadFile(path)
}

func (d Dir) readJSON(name string, value any) error {
	data, err := d.read(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, d.file(name), err)
	}
	return nil
}

// remove removes a file that may be gone already.
func (d Dir) remove(name string) error {
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
