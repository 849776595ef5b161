package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	copies   = "cellwall-rollout-" // begins the name of a folder with a copy, among the temporary files
	copyName = "assembly"          // the copy in it
	lockName = "lock"              // held for as long as the process lives that made it
	fresh    = time.Minute         // in which a folder gets its lock
)

// use holds copies to deploy from. The CDK's command line writes locks and archives beside an assembly and takes an
// archive that lies there for what it would make itself; so it works on a copy of this process's own.
type use struct {
	folder *Folder
	mu     sync.Mutex
	dirs   map[string]*deployable // by digest
	old    []*deployable          // copies that were spoiled, and that somebody may still read
}

// deployable is a folder with one copy.
type deployable struct {
	dir  string
	lock *os.File
}

func newUse(f *Folder) *use {
	sweepCopies()
	return &use{folder: f, dirs: map[string]*deployable{}}
}

// dir is a copy of an assembly that has the digest now. One that has it no more, as where temporary files are swept away
// in the course of a long rollout, is replaced.
func (u *use) dir(ctx context.Context, digest string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if d, ok := u.dirs[digest]; ok {
		if is(d.copy(), digest) {
			return d.copy(), nil
		}
		u.old = append(u.old, d)
		delete(u.dirs, digest)
	}
	from, err := u.folder.there(digest)
	if err != nil {
		return "", err
	}
	d, err := newDeployable()
	if err != nil {
		return "", err
	}
	if err := copyTo(ctx, from, d.copy(), digest, false); err != nil {
		return "", errors.Join(err, d.remove())
	}
	u.dirs[digest] = d
	return d.copy(), nil
}

func (u *use) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []error
	for _, d := range u.old {
		all = append(all, d.remove())
	}
	u.old = nil
	for digest, d := range u.dirs {
		all = append(all, d.remove())
		delete(u.dirs, digest)
	}
	return errors.Join(all...)
}

func newDeployable() (*deployable, error) {
	dir, err := os.MkdirTemp("", copies)
	if err != nil {
		return nil, err
	}
	d := &deployable{dir: dir}
	if d.lock, err = lockIn(dir); err == nil {
		err = os.Mkdir(d.copy(), 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

func (d *deployable) copy() string { return filepath.Join(d.dir, copyName) }

// remove takes the folder away, and gives the lock back last.
func (d *deployable) remove() error {
	err := os.RemoveAll(d.dir)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// lockIn takes the lock of a folder, which the system gives back when this process ends, however it does.
func lockIn(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// sweepCopies takes away the copies of this user's processes that were killed. What cannot be taken away stays.
func sweepCopies() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), copies+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < fresh {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
			continue
		}
		if lock, err := lockIn(dir); err == nil {
			_ = (&deployable{dir, lock}).remove()
		}
	}
}

func is(dir, digest string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	got, err := Digest(root.FS())
	return err == nil && got == digest
}
