package localcell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
)

// minDatabase is the number of pages of a new database file; it never shrinks, and grows by whole pages.
const minDatabase = 4

// admit enrols the tenants that the directory on disk does not know. ErrDamaged when a database is not
// whole, ErrOtherCell and ErrLostShard when it does not fit the plan.
func (d Dir) admit(ctx context.Context, p Plan, tenants []string) (admitted Admitted, err error) {
	for _, name := range []string{fileDirectory, fileItems} {
		if err := whole(d.file(name)); err != nil {
			return Admitted{}, err
		}
	}
	// A database maps its file into memory and trusts what it finds there: what lacks, or makes no
	// sense, is a fault or a panic instead of an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			admitted, err = Admitted{}, fmt.Errorf("%w: %s or %s: %v", ErrDamaged, d.file(fileDirectory), d.file(fileItems), cause)
		}
	}()
	home, err := boltdir.Create(d.file(fileDirectory))
	if err != nil {
		return Admitted{}, damaged(err)
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	dir, err := directory.Open(ctx, home)
	if err != nil {
		return Admitted{}, err
	}
	items, err := boltitems.Create(d.file(fileItems))
	if err != nil {
		return Admitted{}, damaged(err)
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	keys := func(_ context.Context, _, version string) ([]byte, error) { return d.key(version) }
	return enrol(ctx, dir, items.Holds(), keys, p, tenants, time.Now())
}

// whole refuses a file that can be no database by its size. None at all is fine: a new one is made.
func whole(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the cell's databases: %w", err)
	case info.Size() < int64(minDatabase*os.Getpagesize()), info.Size()%int64(os.Getpagesize()) != 0:
		return fmt.Errorf("%w: %s was cut off after %d bytes", ErrDamaged, path, info.Size())
	}
	return nil
}

// damaged adds ErrDamaged to an error by which boltfile says so.
func damaged(err error) error {
	if errors.Is(err, boltfile.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
