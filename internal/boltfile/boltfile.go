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
	// ErrDamaged means that the file is not whole, or is none of bbolt's. From Open, nothing was changed.
	ErrDamaged = errors.New("the file is damaged: put a copy of it back")
	// ErrNoFile means that the path is that of a folder, or of something else that is no file.
	ErrNoFile = errors.New("it is no file")
)

// Open opens the file at path, which is there. prepare is given the open file before anybody else; with an
// error, the file is closed again. fs.ErrNotExist, ErrNoFile, ErrLocked, ErrDamaged, or what prepare returns.
//
// The list of free pages is kept in the file: without it bbolt would read the whole file on opening, on a
// goroutine on which nobody could take up its panic.
func Open(path string, prepare func(*DB) error) (*DB, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && info.Size() == 0:
		return nil, fmt.Errorf("%w: it has 0 bytes", ErrDamaged)
	}
	return openOrMake(path, prepare)
}

// Create is Open, but makes a file that is not there, or that has 0 bytes, readable by its owner only.
func Create(path string, prepare func(*DB) error) (*DB, error) {
	return openOrMake(path, prepare)
}

func openOrMake(path string, prepare func(*DB) error) (db *DB, err error) {
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
	bolt, err := open(path, false)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	db = &DB{bolt: bolt, file: file}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// whole refuses a file that ends before what it holds, and one whose list of free pages cannot be. Opened for
// writing, bbolt would lengthen it, or read what lacks.
func whole(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a new one is made
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w, but a %s", ErrNoFile, kind(info.Mode()))
	case info.Size() == 0:
		return nil
	case info.Size() < heads*int64(os.Getpagesize()):
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
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		size := db.Info().PageSize
		list, err := readFreelist(file, size, uint64(tx.ID()))
		if err == nil {
			err = list.check(file, size)
		}
		return errors.Join(err, file.Close())
	})
	return errors.Join(err, db.Close())
}

func kind(m fs.FileMode) string {
	if m.IsDir() {
		return "folder"
	}
	return "device or pipe"
}

// open is bbolt.Open with its errors made ours.
func open(path string, readOnly bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, ReadOnly: readOnly})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	return db, damaged(err)
}
