package routing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestAReadingThatStoodStill is of no use to the next invocation of an environment that was frozen during it, whether
// it is still under way or fails as the environment goes on: the value is read anew at once. One that merely took its
// time stands, as failures do.
func TestAReadingThatStoodStill(t *testing.T) {
	const limit = time.Second
	for name, test := range map[string]struct {
		frozen     time.Duration
		failsFirst bool
		reads      int
		err        bool
	}{
		"under way":                {time.Hour, false, 2, false},
		"fails as it goes on":      {time.Hour, true, 2, false},
		"fails after its own time": {limit, true, 1, true},
	} {
		c := newClock()
		began, goOn := make(chan struct{}, 1), make(chan error)
		var mu sync.Mutex
		reads := 0
		v := newVersions(limit, c.now, func(context.Context, uint64) (int, error) {
			mu.Lock()
			reads++
			n := reads
			mu.Unlock()
			if n > 1 {
				return 7, nil
			}
			began <- struct{}{}
			return 0, <-goOn
		})
		leaving, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			if _, err := v.get(leaving, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}()
		<-began
		leave()
		<-left
		first := v.readings[1]
		c.pass(test.frozen)
		fail := func() { goOn <- errors.New("the time is over"); <-first.done }
		if test.failsFirst {
			fail()
		}
		value, err := v.get(t.Context(), 1)
		if reads != test.reads || (err != nil) != test.err || err == nil && value != 7 {
			t.Errorf("%s: %d, %v after %d readings", name, value, err, reads)
		}
		if !test.failsFirst {
			fail() // which is nobody's business any more
			if value, err := v.get(t.Context(), 1); value != 7 || err != nil {
				t.Errorf("%s, later: %d, %v", name, value, err)
			}
		}
	}
}
