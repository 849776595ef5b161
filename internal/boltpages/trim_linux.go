package boltpages

import (
	"syscall"

	"go.etcd.io/bbolt"
)

// trim takes the file's pages out of the process's memory. The mapping is shared and never written to, bbolt
// writes to the file, so that no page has anything to lose: whoever touches one next, also at this
// moment, finds it in the system's cache. A refusal leaves all as it was, which is right, only larger.
//
// The pages up to tx.Size are mapped: bbolt maps more before it hands out pages beyond, and moves the
// mapping only in the one transaction that writes, when no other reads.
func trim(tx *bbolt.Tx) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}
