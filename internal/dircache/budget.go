package dircache

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

// ErrTooMany means that the directory was not asked, because too many questions like this one brought nothing
// lately.
var ErrTooMany = errors.New("too many look-ups brought nothing lately: ask again in a moment")

// Limits bound the readings that bring nothing: those of tenants that do not exist or live in another cell,
// and again those afresh of tenants of whom nothing is new. Within t seconds there are at most
// Burst + PerSecond·t + AtOnce of either.
type Limits struct {
	PerSecond float64
	Burst     int
	AtOnce    int // readings at once that may turn out to be such
}

// LimitsOf returns the limits of a router process and, with single, those of one Lambda environment, which
// knows of no other: as many environments as there are together read as many times as much.
func LimitsOf(single bool) Limits {
	if single {
		return Limits{PerSecond: 1, Burst: 20, AtOnce: 1}
	}
	return Limits{PerSecond: 100, Burst: 1000, AtOnce: 128}
}

// budget holds Limits. Readings that bring something cost nothing.
type budget struct {
	slots   chan struct{}
	limiter *rate.Limiter
}

func newBudget(l Limits) *budget {
	return &budget{make(chan struct{}, l.AtOnce), rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst)}
}

// enter says whether a reading may begin, and waits for those under way. Whoever may has to leave.
func (b *budget) enter(ctx context.Context, now func() int64) error {
	if b.empty(now()) {
		return ErrTooMany
	}
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.empty(now()) {
		<-b.slots
		return ErrTooMany
	}
	return nil
}

func (b *budget) empty(now int64) bool { return b.limiter.TokensAt(time.Unix(0, now)) < 1 }

// leave ends a reading. Those that were let in together may leave a debt, which is paid before the next enter.
func (b *budget) leave(now int64, wasted bool) {
	if wasted {
		b.limiter.ReserveN(time.Unix(0, now), 1)
	}
	<-b.slots
}
