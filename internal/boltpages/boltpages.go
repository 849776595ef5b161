// Package boltpages keeps the memory of a process that works through a large bbolt file small.
//
// bbolt maps the whole file, and each page that is touched counts as the process's memory, with its
// neighbours, until the system needs the memory for something else. A container's limit, or whoever looks
// at the process, does not see that it could be taken back. A Window gives it back as the work goes on. The
// pages stay in the system's cache of files, so that touching one again costs no read from disk.
//
// A transaction that writes keeps each page that it changes as its own until its end, decoded and encoded, and
// reads the page's place in the file once more when it commits, where no Window can give it back. In
// scattered order each record is on pages of its own. Full bounds that: who puts many writes into one
// transaction asks after each.
package boltpages

import (
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// every is how many records are touched between two trims. Scattered, a record brings up to three pages,
// and Linux maps 64 KiB around each: about 100 MB at worst.
const every = 512

// maxNodes is how many pages a transaction changes before it is full: 64 MiB of the file with 64 KiB around
// each, and about 20 MB of the process's own.
const maxNodes = 1024

// Full says whether tx has changed so many pages that what else is to be written belongs in the next one.
func Full(tx *bbolt.Tx) bool {
	stats := tx.Stats()
	return stats.GetNodeCount() >= maxNodes
}

// Window counts what is touched of one file. The zero Window is ready; it is safe for concurrent use.
type Window struct{ touched atomic.Int64 }

// Touched tells that n more records were read or written in tx, and gives the file's pages back when there
// are enough. tx is any transaction that is not yet over: as long as it is not, the mapping stays where it is.
func (w *Window) Touched(tx *bbolt.Tx, n int) {
	if w.touched.Add(int64(n)) < every {
		return
	}
	w.touched.Store(0) // one that is added meanwhile is lost, and the next trim comes as much later
	trim(tx)
}
