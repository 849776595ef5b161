package tokenverify

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxAge is when the keys are fetched anew in the background, so that a key which the issuer took
	// back is not believed for much longer.
	maxAge = 5 * time.Minute
	// minPause lies between two fetches, so that tokens with made-up key ids are no way to make us
	// flood the issuer; firstPause while there are no keys at all, which nobody can do without.
	minPause     = 10 * time.Second
	firstPause   = time.Second
	fetchTimeout = 5 * time.Second
)

// keySet is an issuer's keys as they were last seen, here or by the fallback. While the issuer does not answer,
// they stay, for as long as that lasts.
//
// On Lambda a fetch in the background stands still with its environment and goes on, or fails by its time-out, with
// the next request; what is known stays meanwhile, and who needs what is not known has another fetch begin at once.
type keySet struct {
	issuer   *issuer
	fallback func() (set json.RawMessage, taken time.Time, ok bool)
	now      func() time.Time // by the wall clock, as another may stand still with the environment

	known atomic.Pointer[known]

	mu       sync.Mutex    // whoever changes known holds it
	tried    time.Time     // when the last fetch began
	err      error         // of the last fetch
	answered bool          // the issuer gave its keys here at least once
	adopted  bool          // the fallback had keys at least once
	taken    time.Time     // when the last of those were given, as it said
	running  chan struct{} // closed at the end of the fetch that is under way; nil when none is, or one that stands still
}

// known is what there is of keys. It does not change.
type known struct {
	keys keys
	seen time.Time // when the issuer gave them
	// generation rises when a key is no longer believed: what was verified before may not be good any more.
	generation uint64
}

var nothing = &known{}

func (s *keySet) current() *known {
	if k := s.known.Load(); k != nil {
		return k
	}
	return nothing
}

// find returns the keys that may have signed a token, and the generation that they are of. When there is none it
// looks whether the fallback has it, and then fetches the keys anew, as the issuer may have changed them.
func (s *keySet) find(ctx context.Context, id, algorithm string) (keys, uint64, error) {
	for _, step := range []func(context.Context) error{s.younger, s.adopt, s.await} {
		if err := step(ctx); err != nil {
			return nil, 0, err
		}
		if k := s.current(); len(k.keys.find(id, algorithm)) > 0 {
			return k.keys.find(id, algorithm), k.generation, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered || s.err != nil { // it may have such a key by now, and cannot be asked
		return nil, 0, fmt.Errorf("the keys of issuer %s cannot be known: %w", s.issuer.name, s.err)
	}
	return nil, 0, refuse("the issuer has no such key")
}

// younger has keys that are old looked for, and waits for nothing.
func (s *keySet) younger(ctx context.Context) error {
	s.renew(s.now())
	return nil
}

// renew starts what the age of the keys calls for.
func (s *keySet) renew(now time.Time) {
	old := func() bool { k := s.current(); return len(k.keys) > 0 && now.Sub(k.seen) > maxAge }
	if old() {
		s.adopt(context.Background())
		if old() {
			s.fetch()
		}
	}
}

// adopt takes the fallback's keys where they are newer than those that are known.
func (s *keySet) adopt(context.Context) error {
	set, taken, ok := s.fallback()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || s.adopted && !taken.After(s.taken) {
		return nil // it was looked at before
	}
	s.adopted, s.taken = true, taken
	if now := s.now(); taken.After(now) {
		taken = now // by a clock that is ahead of ours: what the issuer says next is newer
	}
	if found, err := parseKeys(set); err == nil { // else those that are known are better than none
		s.believe(found, taken)
	}
	return nil
}

// believe takes keys that the issuer gave at some time, unless newer ones are known. The lock is held.
func (s *keySet) believe(given keys, at time.Time) {
	k := s.current()
	if len(k.keys) > 0 && !at.After(k.seen) {
		return
	}
	next := &known{given, at, k.generation}
	if !k.keys.within(given) {
		next.generation++
	}
	s.known.Store(next)
}

// await fetches the keys, unless that happened a moment ago, and waits for the end of the fetch that is under way.
func (s *keySet) await(ctx context.Context) error {
	running := s.fetch()
	if running == nil {
		return nil
	}
	select {
	case <-running:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
	}
}

// fetch starts fetching the keys, unless that happened a moment ago. It returns what is closed when the
// fetch that is under way ends, nil when none is.
func (s *keySet) fetch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, pause := s.now(), minPause
	if len(s.current().keys) == 0 {
		pause = firstPause
	}
	if now.Sub(s.tried) > 2*fetchTimeout {
		s.running = nil // it was not let go on; another takes its place
	}
	if s.running == nil && (s.tried.IsZero() || now.Sub(s.tried) >= pause) {
		running := make(chan struct{})
		s.running, s.tried = running, now
		go func() {
			defer close(running)
			// Not the caller's context: the request that asked first may be over before the others.
			ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
			defer cancel()
			given, err := s.issuer.download(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil {
				s.answered = true
				s.believe(given, now)
			}
			if s.running != running {
				return // another took its place
			}
			s.running, s.err = nil, err
		}()
	}
	return s.running
}
