package shardkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Items is the store of the tenants' state, as one shard sees it. What one tenant has under a key,
// another does not. What has expired is as if it had been deleted, whether the store still has it or not.
// Implementations are safe for concurrent use; package shardkittest holds them to this.
type Items interface {
	// Held returns the epoch of the item that says that this shard holds the tenant, as of now. held is
	// false when there is none.
	Held(ctx context.Context, tenant string) (epoch uint64, held bool, err error)
	// Get returns what the tenant has under the key, as of now. The value is the caller's.
	Get(ctx context.Context, tenant, key string) (value []byte, found bool, err error)
	// List returns the tenant's keys that begin with the prefix, in byte order. Those of idempotency
	// records may be among them, those that say whom a shard holds are not.
	List(ctx context.Context, tenant, prefix string) ([]string, error)
	// Write does all of the writes in one transaction, provided that in it this shard holds the tenant at
	// an epoch that is not above the given one, and that under each key is what its Write wants there.
	// It returns nil when they are durable. Otherwise it does none of them and returns ErrNotHeld, or
	// ErrChanged. After another error they may be done or not, all or none. It does none when ctx is over
	// before the write begins.
	Write(ctx context.Context, tenant string, epoch uint64, writes ...Write) error
}

// Write puts a value under a key, over an older one, or deletes what is there.
//
// Who reads a value and writes another because of it sets Was to what was read: what another request wrote
// in between would be lost otherwise.
type Write struct {
	Key    string `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
	// Absent makes the whole transaction depend on there being nothing under the key.
	Absent bool `json:"absent,omitempty"`
	// Was, unless nil, makes the whole transaction depend on this value being under the key.
	Was []byte `json:"was,omitzero"`
	// Expires is the Unix time, in seconds, from which on the item is gone; 0 for never.
	Expires int64 `json:"expires,omitempty"`
}

// Limits of a transaction, which keep it within DynamoDB's (Developer Guide, "Quotas in Amazon DynamoDB": item
// 400 KB with its keys, sort key 1,024 bytes; transaction 100 items and 4 MB). One item is the condition on
// the holding, and one the idempotency record, which counts towards none of these.
const (
	MaxKey    = 1024      // bytes
	MaxValue  = 390 << 10 // bytes
	MaxWrites = 98        // in one transaction
	MaxTotal  = 3 << 20   // bytes of keys and values, written and wanted, in one transaction
)

// Keys that are not the service's begin with these.
const (
	Reserved = "HOLDS"        // whom a shard holds; no store lets a Write near them
	Records  = "IDEMPOTENCY#" // idempotency records, which the kit writes
)

// Errors of writes. They come wrapped.
var (
	// ErrNotHeld means that this shard does not hold the tenant at the request's epoch. Nothing was
	// written.
	ErrNotHeld = errors.New("this shard does not hold the tenant at this epoch")
	// ErrChanged means that under a key is not what a Write wants there. Nothing was written.
	ErrChanged = errors.New("under a key is not what was to be there")
	// ErrInvalid means that no store takes the writes. Nothing was written.
	ErrInvalid = errors.New("not a valid write")
)

// Check says what is wrong with a transaction, wrapping ErrInvalid. A store asks it first.
func Check(writes ...Write) error {
	total, count, records, seen := 0, 0, 0, make(map[string]bool, len(writes))
	for _, w := range writes {
		if strings.HasPrefix(w.Key, Records) {
			records++
		} else {
			count++
			total += len(w.Key) + len(w.Value) + len(w.Was)
		}
		switch {
		case w.Key == "" || len(w.Key) > MaxKey:
			return fmt.Errorf("%w: a key of %d bytes: want 1 to %d", ErrInvalid, len(w.Key), MaxKey)
		case !utf8.ValidString(w.Key):
			return fmt.Errorf("%w: the key %q is not UTF-8", ErrInvalid, w.Key)
		case strings.HasPrefix(w.Key, Reserved):
			return fmt.Errorf("%w: the key %q: those that begin with %s say whom a shard holds; choose another", ErrInvalid, w.Key, Reserved)
		case len(w.Value) > MaxValue || len(w.Was) > MaxValue:
			return fmt.Errorf("%w: a value of %d bytes: want at most %d", ErrInvalid, max(len(w.Value), len(w.Was)), MaxValue)
		case w.Expires < 0:
			return fmt.Errorf("%w: the key %q expires at %d: want a Unix time", ErrInvalid, w.Key, w.Expires)
		case w.Delete && (w.Absent || w.Expires > 0 || len(w.Value) > 0):
			return fmt.Errorf("%w: the key %q: what is deleted has no value and no end, and is not absent", ErrInvalid, w.Key)
		case w.Absent && w.Was != nil:
			return fmt.Errorf("%w: the key %q: it cannot be absent and have been something", ErrInvalid, w.Key)
		case records > 1:
			return fmt.Errorf("%w: two idempotency records at once", ErrInvalid)
		case seen[w.Key]:
			return fmt.Errorf("%w: the key %q stands twice: a transaction has no order", ErrInvalid, w.Key)
		}
		seen[w.Key] = true
	}
	switch {
	case len(writes) == 0 || count > MaxWrites:
		return fmt.Errorf("%w: %d writes at once: want 1 to %d", ErrInvalid, count, MaxWrites)
	case total > MaxTotal:
		return fmt.Errorf("%w: %d bytes at once: want at most %d", ErrInvalid, total, MaxTotal)
	}
	return nil
}
