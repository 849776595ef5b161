package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Offset is when the schedule fires in a shard of a cell: every s.Every, the first time at that time after midnight
// UTC. It is in whole minutes, from 0 to less than s.Every, and follows from cell, shard and name by a hash, so that
// neither the shards of a cell nor cells do the same thing at once, and other shards' coming and going changes no
// shard's times. The schedule must be of a fleet that was loaded.
func (s Schedule) Offset(cell, shard string) time.Duration {
	// The first 64 bits of SHA-256 modulo at most 1,440: no minute is more likely than another by more than 2^-53.
	sum := sha256.Sum256(fmt.Appendf(nil, "cellwall/schedule/v1\n%s\n%s\n%s", cell, shard, s.Name))
	return time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(s.Every/time.Minute)) * time.Minute
}
