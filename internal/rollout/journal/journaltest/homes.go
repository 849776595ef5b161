package journaltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"cellwall.dev/cellwall/internal/directory"
)

// scrambled is a text that does not compress.
func scrambled(i int) string {
	sum := sha256.Sum256(fmt.Append(nil, i))
	return hex.EncodeToString(sum[:])
}

// counting counts what is written.
type counting struct {
	directory.Home
	writes, bytes, largest, event int
}

func (c *counting) Write(ctx context.Context, b directory.Batch) error {
	c.writes++
	for _, o := range b.Ops {
		c.bytes += len(o.Body)
		c.largest = max(c.largest, len(o.Body))
		if o.Family() == "EVENT" {
			c.event = len(o.Body)
		}
	}
	return c.Home.Write(ctx, b)
}

// errLost is a failure after which nobody knows whether a batch was written.
var errLost = errors.New("the answer was lost")

// flaky is a home on a bad line: requests are turned away, get lost, or their answers do.
type flaky struct {
	directory.Home
	mu  sync.Mutex
	rng *rand.Rand
}

func (f *flaky) chance() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(100)
}

func (f *flaky) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if f.chance() < 5 {
		return nil, directory.ErrBusy
	}
	return f.Home.Read(ctx, c, keys...)
}

func (f *flaky) Write(ctx context.Context, b directory.Batch) error {
	switch p := f.chance(); {
	case p < 10:
		return directory.ErrBusy
	case p < 30:
		if err := f.Home.Write(ctx, b); err != nil {
			return err
		}
		return errLost
	case p < 35:
		return errLost // before the write
	case p < 40: // it is sent twice, and what came of the second is told
		_ = f.Home.Write(ctx, b)
	}
	return f.Home.Write(ctx, b)
}

// Forgetful is a home that loses every other operation on its way there, or the answer to it, at the first try alone:
// nobody has to wait for it.
func Forgetful(home directory.Home) directory.Home {
	return &forgetful{Home: home, tried: map[string]bool{}}
}

type forgetful struct {
	directory.Home
	mu    sync.Mutex
	tried map[string]bool
}

func (f *forgetful) Write(ctx context.Context, b directory.Batch) error {
	f.mu.Lock()
	n, again := len(f.tried), f.tried[b.Operation]
	f.tried[b.Operation] = true
	f.mu.Unlock()
	switch {
	case again || n%2 == 0:
		return f.Home.Write(ctx, b)
	case n%4 == 1:
		return errLost
	}
	if err := f.Home.Write(ctx, b); err != nil {
		return err
	}
	return errLost
}

// dying is the home of a process that dies at one of its writes, before it or after it.
type dying struct {
	directory.Home
	die   int // number of the write, from 1
	after bool
	kill  func() // ends the process's context
	n     int
	dead  bool
}

var errDead = errors.New("this process is dead")

func (d *dying) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	if d.dead {
		return nil, errDead
	}
	return d.Home.Read(ctx, c, keys...)
}

func (d *dying) Write(ctx context.Context, b directory.Batch) error {
	if d.dead {
		return errDead
	}
	d.n++
	dies := d.n == d.die
	var err error
	if !dies || d.after {
		err = d.Home.Write(ctx, b)
	}
	if dies {
		d.dead = true
		d.kill()
		return errDead
	}
	return err
}

// tampering gives records as tamper leaves them.
type tampering struct {
	directory.Home
	tamper func(*directory.Record)
}

func (h *tampering) Read(ctx context.Context, c directory.Consistency, keys ...directory.Key) ([]directory.Record, error) {
	records, err := h.Home.Read(ctx, c, keys...)
	for i := range records {
		h.tamper(&records[i])
	}
	return records, err
}

func (h *tampering) List(ctx context.Context, r directory.Range, after directory.Key, limit int) ([]directory.Record, error) {
	records, err := h.Home.List(ctx, r, after, limit)
	for i := range records {
		h.tamper(&records[i])
	}
	return records, err
}
