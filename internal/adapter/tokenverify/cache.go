package tokenverify

import (
	"crypto/sha256"
	"sync"
	"time"
)

// verdict is a token that was found good. There are many of them: its times are numbers, which the garbage collector
// need not look at.
type verdict struct {
	tenant      string
	from, until int64  // by the issuer's clock, in milliseconds since 1970, up to the year 292,277,026
	generation  uint64 // of the keys by which it was verified
}

// cache remembers verified tokens by their SHA-256, so that it holds none that somebody could steal. It has two
// halves: when the newer one is full it becomes the older one, and what was in that is forgotten, unless it was asked
// for since. That is one look into a map for a token in use, and bounds what any flood of tokens may take.
type cache struct {
	half int // verdicts a half

	mu           sync.RWMutex
	newer, older map[[sha256.Size]byte]verdict
}

func newCache(size int) *cache {
	return &cache{half: size / 2, newer: map[[sha256.Size]byte]verdict{}}
}

// get returns the tenant of a token that is as good as when it was verified: with the same keys, or more, and not
// expired. The allowance for skew is not used up here: in that minute a token is verified each time, so that it ends
// when it would have ended.
func (c *cache) get(name [sha256.Size]byte, now time.Time, generation uint64) (tenant string, ok bool) {
	c.mu.RLock()
	v, found := c.newer[name]
	old := !found
	if old {
		v, found = c.older[name]
	}
	c.mu.RUnlock()
	if !found || v.generation != generation || now.UnixMilli() >= v.until || now.Add(skew).UnixMilli() < v.from {
		return "", false
	}
	if old {
		c.put(name, v)
	}
	return v.tenant, true
}

func (c *cache) put(name [sha256.Size]byte, v verdict) {
	if c.half < 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.newer) >= c.half {
		c.newer, c.older = map[[sha256.Size]byte]verdict{}, c.newer
	}
	c.newer[name] = v
}

// size is how many verdicts are held, those that stand in both halves counted twice.
func (c *cache) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.newer) + len(c.older)
}
