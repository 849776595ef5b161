package shardkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Items is the store of the tenants' state, as one shard sees it. What one tenant has under a key,
// another does not. Implementations are safe for concurrent use; package shardkittest holds them to this.
type Items interface {
	// Held returns the epoch of the item that says that this shard holds the tenant, as of now. held is
	// false when there is none.
	Held(ctx context.Context, tenant string) (epoch uint64, held bool, err error)
	// Get returns what the tenant has under the key, as of now.
	Get(ctx context.Context, tenant, key string) (value []byte, found bool, err error)
	// List returns the tenant's keys that begin with the prefix, in byte order.
	List(ctx context.Context, tenant, prefix string) ([]string, error)
	// Write does all of the writes in one transaction, provided that in it this shard holds the tenant at
	// an epoch that is not above the given one, and returns nil when they are durable. Otherwise it does
	// none of them and returns ErrNotHeld. After another error they may be done or not, all or none.
	// It does none when ctx is over before the write begins.
	Write(ctx context.Context, tenant string, epoch uint64, writes ...Write) error
}

// Write puts a value under a key, over an older one, or deletes what is there.
type Write struct {
	Key    string `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

// Limits of a Write, which keep it within DynamoDB's (Developer Guide, "Quotas in Amazon DynamoDB": item
// 400 KB with its keys, sort key 1,024 bytes; transaction 100 items, one of which is the condition).
const (
	MaxKey    = 1024      // bytes
	MaxValue  = 390 << 10 // bytes
	MaxWrites = 99        // in one transaction
	MaxTotal  = 3 << 20   // bytes of keys and values in one transaction
)

// Reserved begins the keys that are not the service's.
const Reserved = "HOLDS"

// Errors of writes. They come wrapped.
var (
	// ErrNotHeld means that this shard does not hold the tenant at the request's epoch. Nothing was
	// written.
	ErrNotHeld = errors.New("this shard does not hold the tenant at this epoch")
	// ErrLetGo means the same of a later write of a request that wrote before.
	ErrLetGo = errors.New("this shard let go of the tenant in the middle of a request")
	// ErrInvalid means that no store takes the writes.
	ErrInvalid = errors.New("not a valid write")
)

// Check says what is wrong with a transaction, wrapping ErrInvalid.
func Check(writes ...Write) error {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return fmt.Errorf("%w: %d writes at once: want 1 to %d", ErrInvalid, len(writes), MaxWrites)
	}
	total, seen := 0, make(map[string]bool, len(writes))
	for _, w := range writes {
		total += len(w.Key) + len(w.Value)
		switch {
		case w.Key == "" || len(w.Key) > MaxKey:
			return fmt.Errorf("%w: a key of %d bytes: want 1 to %d", ErrInvalid, len(w.Key), MaxKey)
		case strings.HasPrefix(w.Key, Reserved):
			return fmt.Errorf("%w: the key %q: those that begin with %s say whom a shard holds; choose another", ErrInvalid, w.Key, Reserved)
		case len(w.Value) > MaxValue:
			return fmt.Errorf("%w: a value of %d bytes: want at most %d", ErrInvalid, len(w.Value), MaxValue)
		case seen[w.Key]:
			return fmt.Errorf("%w: the key %q stands twice: a transaction has no order", ErrInvalid, w.Key)
		}
		seen[w.Key] = true
	}
	if total > MaxTotal {
		return fmt.Errorf("%w: %d bytes at once: want at most %d", ErrInvalid, total, MaxTotal)
	}
	return nil
}
