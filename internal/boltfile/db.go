package boltfile

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// DB is an open file. What bbolt finds damaged comes back as ErrDamaged from whichever goroutine asks, and
// never as a panic or a fault that ends the process. It is safe for concurrent use.
//
// Three things cannot be taken up. A branch page whose number and type are intact, and that leads back to itself
// or above, has bbolt search until its stack is at its end, which Go does not survive: single bits that turn
// can make one, a page that is lost or overwritten cannot. In the same way a page may say, by single bits, that it
// goes on for up to four billion pages, and bbolt fills the memory with them when a change frees it; that of the list of
// free pages, which every change frees, is looked at before. And when both heads are overwritten while the file
// is open, transactions that are on their way may not return.
type DB struct {
	bolt   *bbolt.DB
	file   *os.File    // the same, to look at what bbolt does not
	torn   atomic.Bool // a transaction that writes met damage: what bbolt remembers of free pages is not to be trusted
	wedged atomic.Bool // a lock of bbolt's is held for good
}

// View runs do in a transaction that reads, as bbolt does. ErrDamaged, or what do returns.
func (d *DB) View(do func(*bbolt.Tx) error) error {
	return d.guard(d.bolt.View, do)
}

// Update runs do in a transaction that writes, as bbolt does: with an error, nothing is written. ErrDamaged,
// or what do returns. After ErrDamaged the file takes no more: what is written into a file that makes no
// sense may overwrite what does.
func (d *DB) Update(do func(*bbolt.Tx) error) error {
	if d.torn.Load() {
		return fmt.Errorf("%w: nothing more is written to it", ErrDamaged)
	}
	err := d.guard(d.bolt.Update, func(tx *bbolt.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		_, err := readFreelist(d.file, d.bolt.Info().PageSize, uint64(tx.ID()-1))
		return err
	})
	if errors.Is(err, ErrDamaged) {
		d.torn.Store(true)
	}
	return err
}

// guard runs a transaction. bbolt rolls it back on its way out of a panic; when that fails as well, or the
// transaction did not even begin, bbolt keeps its locks, and nothing more may ask for them.
func (d *DB) guard(run func(func(*bbolt.Tx) error) error, do func(*bbolt.Tx) error) (err error) {
	if d.wedged.Load() {
		return fmt.Errorf("%w: a part that all of it needs was found damaged before", ErrDamaged)
	}
	var tx *bbolt.Tx
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if tx == nil || tx.DB() != nil {
			d.wedged.Store(true)
		}
		err = fmt.Errorf("%w: %v", ErrDamaged, p)
	}()
	err = run(func(begun *bbolt.Tx) error {
		tx = begun
		return do(begun)
	})
	return damaged(err)
}

// damaged adds ErrDamaged to the errors that bbolt has only of a file that is not whole.
func damaged(err error) error {
	for _, broken := range []error{
		bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch, // heads
		bolterrors.ErrIncompatibleValue, bolterrors.ErrBucketNotFound, // a bucket that is none any more
	} {
		if errors.Is(err, broken) && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return err
}

// Close waits for transactions to end and lets go of the file. A file that was found so damaged that this
// cannot be done stays open and locked until the process ends; all that was acknowledged is on disk.
func (d *DB) Close() (err error) {
	defer func() { err = errors.Join(err, d.file.Close()) }()
	if d.wedged.Load() {
		return nil // whoever met the damage was told
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return d.bolt.Close()
}

// Bolt is the database itself, for its figures. Transactions go through View and Update.
func (d *DB) Bolt() *bbolt.DB { return d.bolt }
