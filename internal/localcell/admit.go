package localcell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	bolterrors "go.etcd.io/bbolt/errors"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/directory"
)

// minDatabase is the number of pages of a new database file; it never shrinks, and grows by whole pages.
const minDatabase = 4

// admit adds the tenants that the directory on disk does not know. ErrDamaged when its file is not whole.
func (d Dir) admit(ctx context.Context, tenants []directory.Entry) (added int, err error) {
	path := d.file(fileDirectory)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, fmt.Errorf("the directory: %w", err)
	case info.Size() < int64(minDatabase*os.Getpagesize()), info.Size()%int64(os.Getpagesize()) != 0:
		return 0, fmt.Errorf("%w: %s was cut off after %d bytes", ErrDamaged, path, info.Size())
	}
	// The database maps its file into memory and trusts what it finds there: what lacks, or makes no
	// sense, is a fault or a panic instead of an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			added, err = 0, fmt.Errorf("%w: %s: %v", ErrDamaged, path, p)
		}
	}()
	dir, err := boltdir.Open(path)
	for _, broken := range []error{bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, broken) {
			return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	if err != nil {
		return 0, err
	}
	added, err = dir.Import(ctx, tenants)
	return added, errors.Join(err, dir.Close())
}
