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
	"cellwall.dev/cellwall/internal/localcell/jobqueue"
)

// minDatabase is the number of pages of a new database file; it never shrinks, and grows by whole pages.
const minDatabase = 4

// admit enrols the tenants that the directory on disk does not know. ErrDamaged when a database is not
// whole, ErrOtherCell and ErrLostShard when it does not fit the plan.
func (d Dir) admit(ctx context.Context, l Layout, tenants []string) (admitted Admitted, err error) {
	for _, name := range []string{fileDirectory, fileItems, fileQueues} {
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
	queues, err := jobqueue.Create(d.file(fileQueues))
	if err != nil {
		return Admitted{}, damaged(err)
	}
	if err := queues.Close(); err != nil {
		return Admitted{}, err
	}
	keys := func(_ context.Context, cell, version string) ([]byte, error) { return d.key(l.KeyFiles[cell], version) }
	return admitAll(ctx, dir, items.Holds(), keys, l, tenants)
}

// admitAll enrols each cell's tenants. Of several cells, the first that does not fit ends it.
func admitAll(ctx context.Context, dir *directory.Directory, holder directory.ManyHolder, keys directory.Keys, l Layout, tenants []string) (Admitted, error) {
	byCell, err := homes(ctx, dir, l, tenants)
	if err != nil {
		return Admitted{}, err
	}
	sum := Admitted{AsFleet: true}
	for _, p := range l.Cells {
		one, err := enrol(ctx, dir, holder, keys, p, byCell[p.Cell], time.Now(), l.Names()...)
		if err != nil {
			return Admitted{}, err
		}
		sum.Tenants += one.Tenants
		if !one.AsFleet && sum.AsFleet || sum.Topology == 0 {
			sum.Topology = one.Topology
		}
		if !one.AsFleet && sum.Cell == "" {
			sum.Cell = p.Cell
		}
		sum.AsFleet = sum.AsFleet && one.AsFleet
	}
	return sum, nil
}

// homes says which cell each tenant is of: the one where the directory has it, and of those that are new each
// the next in turn.
func homes(ctx context.Context, dir *directory.Directory, l Layout, tenants []string) (map[string][]string, error) {
	names := l.Names()
	if len(names) == 1 {
		return map[string][]string{names[0]: tenants}, nil
	}
	byCell, next := map[string][]string{}, 0
	for _, id := range tenants {
		switch e, err := dir.Get(ctx, id); {
		case err == nil:
			byCell[e.Cell] = append(byCell[e.Cell], id)
		case errors.Is(err, directory.ErrNotFound):
			byCell[names[next]] = append(byCell[names[next]], id)
			next = (next + 1) % len(names)
		default:
			return nil, err
		}
	}
	return byCell, nil
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
