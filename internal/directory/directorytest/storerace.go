package directorytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

func oneWriterWinsEachEpoch(t *testing.T, s suite) {
	const writers, epochs = 64, 5
	s.create(t, s.entry("acme", "op-0"))
	for epoch := uint64(1); epoch <= epochs; epoch++ {
		won := race(t, writers, func(ctx context.Context, w int) error {
			e := s.entry("acme", fmt.Sprintf("op-%d-%d", epoch, w))
			_, err := s.CompareAndSet(ctx, epoch, e)
			return err
		}, directory.ErrStale)
		want := s.entry("acme", fmt.Sprintf("op-%d-%d", epoch, won))
		want.Epoch = epoch + 1
		s.stands(t, want)
	}
}

func oneCreatorWins(t *testing.T, s suite) {
	won := race(t, 64, func(ctx context.Context, w int) error {
		_, err := s.Create(ctx, s.entry("acme", fmt.Sprintf("op-%d", w)))
		return err
	}, directory.ErrExists)
	want := s.entry("acme", fmt.Sprintf("op-%d", won))
	want.Epoch = 1
	s.stands(t, want)
}

// race runs n writers at once, of which exactly one may succeed and all others must fail with lost.
func race(t *testing.T, n int, write func(context.Context, int) error, lost error) (won int) {
	t.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			<-start
			errs[w] = write(t.Context(), w)
		})
	}
	close(start)
	wg.Wait()
	won = -1
	for w, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("writers %d and %d both won", won, w)
		case err == nil:
			won = w
		case !errors.Is(err, lost):
			t.Fatalf("writer %d: %v, want %q", w, err, lost)
		}
	}
	if won < 0 {
		t.Fatal("nobody won")
	}
	return won
}
