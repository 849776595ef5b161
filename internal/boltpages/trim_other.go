//go:build !linux

package boltpages

import "go.etcd.io/bbolt"

// trim leaves it to the system. What the advice does to a shared mapping is for each system to say, and is
// tried on Linux alone.
func trim(*bbolt.Tx) {}
