package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultFolder is where assemblies are kept, beside the fleet's file.
const DefaultFolder = ".cellwall/assemblies"

const (
	unfinished = ".new-"        // begins the name of what is not whole yet
	abandoned  = 24 * time.Hour // after which nobody is at it any more
)

// Folder keeps assemblies by digest. Nothing in it is ever changed, and nothing taken away.
type Folder struct{ dir string }

// NewFolder returns the folder at dir, which is made when something is kept.
func NewFolder(dir string) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{abs}, nil
}

// Kept is one assembly in the folder.
type Kept struct {
	Digest string
	At     time.Time // it was last kept
}

// path is where an assembly of that digest is.
func (f *Folder) path(digest string) (string, error) {
	if !digestForm.MatchString(digest) {
		return "", fmt.Errorf("%w: %q is no digest, which is sha256: and 64 hexadecimal digits", ErrNoDigest, digest)
	}
	return filepath.Join(f.dir, strings.Replace(digest, ":", "-", 1)), nil
}

// List returns what is kept, the newest first. A folder that is not there is empty.
func (f *Folder) List() ([]Kept, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Kept
	for _, e := range entries {
		digest := strings.Replace(e.Name(), "-", ":", 1)
		if !e.IsDir() || !digestForm.MatchString(digest) {
			continue
		}
		if info, err := e.Info(); err == nil {
			all = append(all, Kept{Digest: digest, At: info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b Kept) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(a.Digest, b.Digest)
	})
	return all, nil
}

// Get returns the assembly of a digest, which it proves to be that. ErrNoDigest, ErrDamaged.
func (f *Folder) Get(digest string) (*Assembly, error) {
	dir, err := f.there(digest)
	if err != nil {
		return nil, err
	}
	a, err := Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	if a.Digest != digest {
		return nil, fmt.Errorf("%w: %s has the digest %s now: delete that folder, and keep the assembly again where it came from", ErrDamaged, dir, a.Digest)
	}
	return a, nil
}

// index reads the stacks of a digest, without their templates and without proof that it is what it says.
func (f *Folder) index(digest string) (*Assembly, error) {
	dir, err := f.there(digest)
	if err != nil {
		return nil, err
	}
	a, err := index(dir, false)
	if err != nil {
		return nil, err
	}
	a.Digest = digest
	return a, nil
}

func (f *Folder) there(digest string) (string, error) {
	dir, err := f.path(digest)
	if err != nil {
		return "", err
	}
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s is not in %s; whoever goes on with a rollout elsewhere needs that folder", ErrNoDigest, digest, f.dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%w: %s is no folder", ErrDamaged, dir)
	}
	return dir, nil
}

// Keep copies an assembly into the folder, unless it is there, and returns the copy. ErrDamaged when it is not the
// same any more as when it was opened.
func (f *Folder) Keep(ctx context.Context, a *Assembly) (*Assembly, error) {
	dir, err := f.path(a.Digest)
	if err != nil {
		return nil, err
	}
	if kept, err := f.Get(a.Digest); !errors.Is(err, ErrNoDigest) {
		if err == nil {
			now := time.Now()
			err = os.Chtimes(dir, now, now)
		}
		return kept, err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	f.sweep()
	scratch, err := os.MkdirTemp(f.dir, unfinished)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch) // nothing, once it has its name
	if err := copyTo(ctx, a.Dir, scratch, a.Digest, true); err != nil {
		return nil, err
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(scratch, dir); err != nil {
		if kept, other := f.Get(a.Digest); other == nil { // somebody else was faster
			return kept, nil
		}
		return nil, err
	}
	if err := syncDir(f.dir); err != nil {
		return nil, err
	}
	return f.Get(a.Digest)
}

// sweep takes away what processes that ended left half done.
func (f *Folder) sweep() {
	entries, _ := os.ReadDir(f.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), unfinished) && time.Since(info.ModTime()) > abandoned {
			os.RemoveAll(filepath.Join(f.dir, e.Name()))
		}
	}
}

// copyTo copies the files of an assembly, and proves by what was copied that it has the digest. Folders are made for
// files alone: an empty one is nothing.
func copyTo(ctx context.Context, from, to, digest string, durable bool) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	sum := newSum()
	dirs := map[string]bool{".": true}
	err = walk(source.FS(), func(name string, f fs.File, info fs.FileInfo) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		native := filepath.FromSlash(name)
		for dir := filepath.Dir(native); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
		if err := target.MkdirAll(filepath.Dir(native), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if executable(info) {
			mode = 0o755
		}
		out, err := target.OpenFile(native, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		hash := sha256.New()
		_, err = io.Copy(io.MultiWriter(out, hash), f)
		if err == nil && executable(info) {
			err = out.Chmod(0o755) // whatever the umask takes
		}
		if err == nil && durable {
			err = out.Sync()
		}
		if err = errors.Join(err, out.Close()); err != nil {
			return err
		}
		line(sum, name, info, hash.Sum(nil))
		return nil
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if got := text(sum.Sum(nil)); got != digest {
		return fmt.Errorf("%w: %s has the digest %s, not %s", ErrDamaged, from, got, digest)
	}
	for dir := range dirs {
		if durable {
			if err := syncDir(filepath.Join(to, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
