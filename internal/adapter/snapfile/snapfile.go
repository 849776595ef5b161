// Package snapfile keeps a cell's sealed snapshot in a file, and its keys in another: the form of one
// machine.
package snapfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"cellwall.dev/cellwall/internal/snapshot"
)

// File is the file of a snapshot. Its tag is the SHA-256 of what is in it.
type File struct{ path string }

var _ snapshot.Reader = File{}

// New returns the file of that path, whose folder must be there. A file beside it, with .lock behind its
// name, keeps writers apart.
func New(path string) File { return File{path} }

// Get implements snapshot.Reader.
func (f File) Get(ctx context.Context, unless string) ([]byte, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: %w", snapshot.ErrNone, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() > snapshot.MaxBytes {
		return nil, "", fmt.Errorf("read %s: %w: it has %d bytes, and %d are the most", f.path, snapshot.ErrMalformed, info.Size(), snapshot.MaxBytes)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", f.path, err)
	}
	if tag := tagOf(data); tag != unless {
		return data, tag, nil
	}
	return nil, "", fmt.Errorf("read %s: %w", f.path, snapshot.ErrSame)
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put writes the file over the one with that tag; over none when the tag is "". Readers see the old file or
// the new one. snapshot.ErrChanged when another stands there.
func (f File) Put(ctx context.Context, data []byte, tag string) (err error) {
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	defer lock.Close() // which gives the lock up
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("write %s: %w: another writer is at it: %w", f.path, snapshot.ErrChanged, err)
	}
	_, have, err := f.Get(ctx, "")
	if err != nil && !errors.Is(err, snapshot.ErrNone) && !errors.Is(err, snapshot.ErrMalformed) {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if have != tag {
		return fmt.Errorf("write %s: %w", f.path, snapshot.ErrChanged)
	}
	return replace(f.path, data)
}

// replace puts a whole new file in the place of the old one.
func replace(path string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".next-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // after it was renamed there is none
	_, err = next.Write(data)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}
