package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A home that is busy is asked again, after waits that double from firstWait up to maxWait, each of which
// is shortened at random to anything above nothing: those who were turned away together do not come again
// together. It goes on until the caller's deadline. For a caller without one it ends when patience was
// spent on waits.
const (
	firstWait = 10 * time.Millisecond
	maxWait   = 2 * time.Second
	patience  = time.Minute
)

// untilFree does something again for as long as it fails with ErrBusy. The error is ErrBusy, and the
// context's beside it when that has ended, only if nothing was done by the last time either.
func untilFree(ctx context.Context, do func() error) error {
	_, bounded := ctx.Deadline()
	wait, waited := firstWait, time.Duration(0)
	for {
		err := do()
		if !errors.Is(err, ErrBusy) || !bounded && waited >= patience {
			return err
		}
		pause := rand.N(wait) + 1
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-timer.C:
		}
		wait, waited = min(2*wait, maxWait), waited+pause
	}
}

// write writes a batch, and comes again while the home is busy.
func (d *Directory) write(ctx context.Context, b Batch) error {
	return untilFree(ctx, func() error { return d.home.Write(ctx, b) })
}
