package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cellwall.dev/cellwall/internal/adapter/boltdir"
	"cellwall.dev/cellwall/internal/adapter/boltitems"
	"cellwall.dev/cellwall/internal/boltfile"
	"cellwall.dev/cellwall/internal/directory"
)

// holdsSuffix names the file beside a directory's file that says which shards hold whom.
const holdsSuffix = ".holds"

// fileHome is a directory in a file of its own, without shards: who holds whom is in a file beside it. Only
// commands that add cells make a new one.
func (f *directoryFlags) fileHome(ctx context.Context, d *desk) (directory.Home, directory.Keys, error) {
	holds := f.directory + holdsSuffix
	d.files = []string{f.directory, holds}
	made, err := missing(f.directory)
	if err != nil {
		return nil, nil, fileError(err)
	}
	open := boltdir.Open
	if made && f.create {
		if err := noHoldings(ctx, f.directory, holds); err != nil {
			return nil, nil, err
		}
		open = boltdir.Create
	}
	home, err := open(f.directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, hint(usagef("--directory %s: there is no such file", f.directory), "cellwall cell open makes a new directory there; otherwise --directory is local, aws or a file that is there")
	case err != nil:
		return nil, nil, fileError(err)
	}
	items, anew, err := f.holdsBeside(ctx, home, holds)
	if err != nil {
		return nil, nil, fileError(errors.Join(err, home.Close()))
	}
	d.holder, d.where = items.Holds(), f.directory
	d.close = func() error { return errors.Join(home.Close(), items.Close()) }
	if anew != "" {
		kept := false
		d.keep = func() error {
			kept = true
			return rename(anew, holds)
		}
		d.close = func() error {
			err := errors.Join(home.Close(), items.Close())
			if !kept {
				err = errors.Join(err, os.Remove(anew))
			}
			return err
		}
	}
	return home, nil, nil
}

// missing says whether there is no file, or one without a byte, which is what a command leaves that was
// killed while it made one.
func missing(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == 0, err
}

// anewSuffix names a file of who holds whom while it is written anew.
const anewSuffix = ".new"

// holdsBeside opens the file that says who holds whom. Without it nobody would be held, and everybody be
// refused, so that a new one is made only where there is nobody, or by a command that fills it: under the name
// anew then, so that one that is filled in part is never taken for it.
func (f *directoryFlags) holdsBeside(ctx context.Context, home directory.Home, path string) (items *boltitems.Items, anew string, err error) {
	gone, err := missing(path)
	if err != nil {
		return nil, "", err
	}
	if !gone {
		items, err = boltitems.Open(path)
		return items, "", err
	}
	dir, err := directory.Open(ctx, home)
	if err != nil {
		return nil, "", err
	}
	tenants, err := dir.List(ctx, "", 1)
	switch {
	case err != nil:
		return nil, "", err
	case len(tenants) == 0:
		items, err = boltitems.Create(path)
		return items, "", err
	case !f.holdAnew:
		return nil, "", hint(fmt.Errorf("%s is missing or empty: it says which shards hold the tenants of %s", path, f.directory),
			"put it back; or have it written anew, for each of the cells, with cellwall cell reconcile CELL")
	}
	anew = path + anewSuffix
	// One is left when a command was killed. Whoever has the directory's file open has this one alone.
	if err := os.Remove(anew); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	items, err = boltitems.Create(anew)
	return items, anew, err
}

// rename has a file be at another path, also after a power cut.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// noHoldings refuses to make a directory beside a file that says whom shards hold: it belongs to one that is
// gone, and would be taken for the new one's.
func noHoldings(ctx context.Context, path, holds string) error {
	if gone, err := missing(holds); err != nil || gone {
		return fileError(err)
	}
	items, err := boltitems.Open(holds)
	if err != nil {
		return fileError(err)
	}
	any, err := items.HoldsAny(ctx)
	if err = errors.Join(err, items.Close()); err != nil {
		return fileError(err)
	}
	if any {
		return hint(foundf("there is no directory in %s, and %s beside it says which shards hold its tenants", path, holds),
			"put the directory back; to begin a new one, move %s away", holds)
	}
	return nil
}

// fileError gives an error of opening a file its exit status, and says who may have a locked one.
func fileError(err error) error {
	if err == nil {
		return nil
	}
	err = directoryError(err)
	switch {
	case errors.Is(err, boltfile.ErrLocked):
		return hint(err, "a local cell that runs has it, or another cellwall command: use --directory local while the cell runs, and otherwise wait until the command has ended")
	case errors.Is(err, boltfile.ErrNoFile):
		return hint(usagef("%w", err), "--directory is local, aws or a bbolt file")
	case errors.Is(err, fs.ErrPermission):
		return usagef("%w", err)
	}
	return err
}
