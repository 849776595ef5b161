package routing

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
)

// State says where the state of the service lives, as shard.state.mode of the fleet.
type State string

const (
	StateNone State = "none" // shards are stateless; the zero value means the same
	StateCell State = "cell" // one store of the cell, which every member of a subset reaches
	StateHome State = "home" // each resource key has one member of the subset
)

// errTwoKeys is of a path that names one resource to one server and another to the next. Sent by either
// reading, the two could meet different members under one name.
var errTwoKeys = errors.New("the path can be read as two resources: what names it has no slash, backslash, semicolon or percent sign, in whatever encoding, and the path neither dot segments nor empty ones")

// homeKey is the resource key of a path that a route matches: what its star stands for, decoded, up to the next
// slash; "" where it has no star, or nothing there. rawPath was found valid. A key that depends on how a
// service reads the path is refused.
func (r route) homeKey(rawPath string) (string, error) {
	if !r.rest {
		return "", nil
	}
	if plain(rawPath) {
		return r.keyIn(rawPath), nil
	}
	readings, ok := Readings(rawPath)
	if !ok {
		return "", errBadPath
	}
	key := r.keyIn(readings[0])
	for _, reading := range readings[1:] {
		if r.keyIn(reading) != key {
			return "", errTwoKeys
		}
	}
	return key, nil
}

// keyIn is the key in one reading of a path.
func (r route) keyIn(p string) string {
	key, _, _ := strings.Cut(strings.TrimPrefix(p, r.pattern), "/")
	return key
}

// home is the member at which a tenant's resource lives: the one of the highest score by rendezvous hashing
// (Thaler and Ravishankar, 1998), so that a member more or less moves no key between the others. The score is
// the first 8 bytes of SHA-256 over tenant, key and member, each led by its length in 4 bytes, big-endian;
// equal ones go by the member's id. members are at least one.
func home(tenant, key string, members []string) string {
	var buf [512]byte // ids and keys are short: nothing is allocated
	led := func(b []byte, s string) []byte { return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) }
	base := led(led(buf[:0], tenant), key)
	best, highest := members[0], [sha256.Size]byte{}
	for i, member := range members {
		sum := sha256.Sum256(led(base, member))
		c := bytes.Compare(sum[:8], highest[:8])
		if i == 0 || c > 0 || c == 0 && member < best {
			best, highest = member, sum
		}
	}
	return best
}
