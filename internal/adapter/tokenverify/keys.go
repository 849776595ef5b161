package tokenverify

import (
	"bytes"
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

// keySet is an issuer's keys as they were last seen. While the issuer does not answer, they stay, for as long as that
// lasts; before it answered for the first time, those of the fallback stand for them.
//
// On Lambda a fetch in the background stands still with its environment and goes on, or fails by its time-out, with
// the next request; what is known stays meanwhile.
type keySet struct {
	issuer   *issuer
	fallback func() json.RawMessage
	now      func() time.Time

	known atomic.Pointer[known]

	mu      sync.Mutex
	tried   time.Time     // when the last fetch began
	err     error         // of the last fetch
	running chan struct{} // closed at the end of the fetch that is under way; nil when none is
}

// known is what there is of keys. It does not change.
type known struct {
	own     keys      // the issuer's
	fetched time.Time // when own were; zero before the first time
	given   keys      // the fallback's
	raw     json.RawMessage
	newer   bool // the fallback changed since the issuer answered
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
// fetches the keys anew, as the issuer may have changed them.
func (s *keySet) find(ctx context.Context, id, algorithm string) (found keys, generation uint64, err error) {
	k := s.current()
	if k.fetched.IsZero() {
		k = s.adopt()
	}
	if found = k.believed().find(id, algorithm); len(found) > 0 {
		s.renew(s.now(), k)
		return found, k.generation, nil
	}
	if running := s.fetch(); running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
		}
	}
	if k = s.current(); len(k.own.find(id, algorithm)) > 0 {
		return k.own.find(id, algorithm), k.generation, nil
	}
	s.mu.Lock()
	failed := s.err
	s.mu.Unlock()
	if failed != nil {
		k = s.adopt() // somebody else may have seen the issuer since
		if found = k.given.find(id, algorithm); k.newer && len(found) > 0 {
			return found, k.generation, nil
		}
	}
	if k.fetched.IsZero() {
		return nil, 0, fmt.Errorf("the keys of issuer %s are not known: %w", s.issuer.name, failed)
	}
	return nil, 0, refuse("the issuer has no such key")
}

// believed are the issuer's own keys, or what stands for them.
func (k *known) believed() keys {
	if k.fetched.IsZero() {
		return k.given
	}
	return k.own
}

// renew starts what the age of the keys calls for, and waits for nothing.
func (s *keySet) renew(now time.Time, k *known) {
	if now.Sub(k.fetched) > maxAge {
		if k.fetched.IsZero() {
			s.adopt()
		}
		s.fetch()
	}
}

// adopt takes the fallback's keys as they are now.
func (s *keySet) adopt() *known {
	raw := s.fallback()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.current()
	if len(raw) == 0 || bytes.Equal(raw, k.raw) {
		return k
	}
	next := *k
	next.raw, next.newer = bytes.Clone(raw), true
	if given, err := parseKeys(raw); err == nil { // else those from before are better than none
		if next.given = given; !k.given.within(given) {
			next.generation++
		}
	}
	s.known.Store(&next)
	return &next
}

// fetch starts fetching the keys, unless that happened a moment ago. It returns what is closed when the
// fetch that is under way ends, nil when none is.
func (s *keySet) fetch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, pause := s.now(), minPause
	if k := s.current(); len(k.believed()) == 0 {
		pause = firstPause
	}
	if s.running == nil && (s.tried.IsZero() || now.Sub(s.tried) >= pause) {
		running := make(chan struct{})
		s.running, s.tried = running, now
		go func() {
			defer close(running)
			// Not the caller's context: the request that asked first may be over before the others.
			ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
			defer cancel()
			own, err := s.issuer.download(ctx)
			s.took(own, err, now)
		}()
	}
	return s.running
}

// took takes the result of a fetch that began at some time.
func (s *keySet) took(own keys, err error, began time.Time) {
	if err == nil {
		s.adopt() // what the fallback says by now is older than this
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.err = nil, err
	if err != nil {
		return
	}
	k := s.current()
	next := *k
	next.newer = false
	if next.own, next.fetched = own, began; !k.own.within(own) || !k.given.within(own) {
		next.generation++
	}
	s.known.Store(&next)
}
