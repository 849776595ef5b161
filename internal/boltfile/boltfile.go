// Package boltfile opens bbolt files, and says in an error what bbolt would say by a panic or by a fault of
// the whole process: that the file is cut off or damaged.
package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 2 * time.Second

// heads is how many pages every file begins with.
const heads = 2

// Errors of Open. They come wrapped.
var (
	// ErrLocked means that another process has the file open. Nothing was changed.
	ErrLocked = errors.New("another process has it open")
	// ErrDamaged means that the file is not whole, or is none of bbolt's. Nothing was changed.
	ErrDamaged = errors.New("the file is damaged: put a copy of it back")
)

// Open opens the file at path and creates it, readable by its owner only, when there is none. prepare is
// given the open file before anybody else, and what it meets of a damaged one comes back as an error, too;
// with an error, the file is closed again. ErrLocked, ErrDamaged, or what prepare returns.
//
// The list of free pages is kept in the file: without it bbolt would read the whole file on opening, on a
// goroutine on which nobody could take up its panic.
func Open(path string, prepare func(*bbolt.DB) error) (db *bbolt.DB, err error) {
	// bbolt maps the file into memory and trusts what it finds there: a page that lacks is a fault, not an
	// error, and one that makes no sense a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	if err := whole(path); err != nil {
		return nil, err
	}
	if db, err = open(path, false); err != nil {
		return nil, err
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// whole refuses a file that ends before what it holds. Opened for writing, bbolt would lengthen it, or read
// what lacks.
func whole(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0: // a new one is made
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Size() < heads*int64(os.Getpagesize()):
		return fmt.Errorf("%w: it was cut off after %d bytes", ErrDamaged, info.Size())
	}
	db, err := open(path, true)
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		info, err := os.Stat(path)
		if err == nil && info.Size() < tx.Size() {
			err = fmt.Errorf("%w: it was cut off after %d of %d bytes", ErrDamaged, info.Size(), tx.Size())
		}
		return err
	})
	return errors.Join(err, db.Close())
}

// open is bbolt.Open with its errors made ours.
func open(path string, readOnly bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, ReadOnly: readOnly})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	for _, broken := range []error{bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, broken) {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return db, err
}
