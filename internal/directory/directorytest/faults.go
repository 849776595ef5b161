package directorytest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/directory"
)

// errLost is a failure after which nobody knows whether the batch was written.
var errLost = errors.New("the answer was lost")

// faulty is a home on a bad line. By chance, a write is turned away; its answer is lost on the way and it
// is sent again, as an SDK does; its answer is lost for good; or it waits.
type faulty struct {
	directory.Home
	mu  sync.Mutex
	rng *rand.Rand
}

// newFaulty logs its seed.
func newFaulty(t *testing.T, home directory.Home) *faulty {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &faulty{Home: home, rng: rand.New(rand.NewPCG(seed, 0))}
}

func (f *faulty) chance() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(100)
}

func (f *faulty) Write(ctx context.Context, b directory.Batch) error {
	switch p := f.chance(); {
	case p < 10:
		return directory.ErrBusy
	case p < 25: // the first answer is lost, and the repetition finds its own success
		_ = f.Home.Write(ctx, b)
	case p < 35:
		if err := f.Home.Write(ctx, b); err != nil {
			return err
		}
		return errLost
	case p < 40:
		return errLost // before the write
	case p < 60:
		time.Sleep(time.Duration(f.chance()) * 10 * time.Microsecond)
	}
	return f.Home.Write(ctx, b)
}

// persist repeats a change as it was until its answer arrives.
func persist[T any](do func() (T, error)) (T, error) {
	for {
		got, err := do()
		if !errors.Is(err, errLost) && !errors.Is(err, directory.ErrBusy) {
			return got, err
		}
	}
}

// busy turns the first n writes away and counts all.
type busy struct {
	directory.Home
	mu    sync.Mutex
	n     int
	tries int
}

func (b *busy) Write(ctx context.Context, batch directory.Batch) error {
	b.mu.Lock()
	b.tries++
	turnAway := b.tries <= b.n
	b.mu.Unlock()
	if turnAway {
		return directory.ErrBusy
	}
	return b.Home.Write(ctx, batch)
}
