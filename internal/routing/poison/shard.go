package poison

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	slots = 512                   // in which a shard counts its tenants' attempts, 4 KB
	burst = 10 * time.Millisecond // what fails so soon after the first failure is part of the episode
)

// slotOf takes bits of the hash that neither its lowest one, which is always set, nor its stripe decides.
func slotOf(hash uint64) uint64 { return hash >> 32 % slots }

// shard is what all tenants' attempts say of one.
type shard struct {
	own      [slots]atomic.Uint64 // attempts, by the tenant's hash
	all      atomic.Uint64
	answerer atomic.Uint64 // hash of the first tenant that it answered since its last failure; 0 is nobody
	several  atomic.Bool   // and it answered another one, too

	mu    sync.Mutex
	sum   tally // since ever
	aged  tally // sum at the beginning of the last window
	older tally // and of the one before
	turn  int64 // when that was
	began int64 // the last episode
}

// tally is episodes, and the failures that were part of them.
type tally struct{ episodes, failures uint64 }

func (t tally) less(u tally) tally { return tally{t.episodes - u.episodes, t.failures - u.failures} }

func (s *shard) total() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// before is what does not count when a tenant is first found in an episode: what was a window ago or more.
func (s *shard) before() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.older
}

// answered notes an answer. Once two tenants had one, nothing is written any more.
func (s *shard) answered(hash uint64) {
	first := s.answerer.Load()
	if first == 0 {
		if s.answerer.CompareAndSwap(0, hash) {
			return
		}
		first = s.answerer.Load()
	}
	if first != hash && !s.several.Load() {
		s.several.Store(true)
	}
}

// fail notes a failure of the tenant with that hash. It begins an episode if the shard has answered another
// tenant since the failure before. part says whether the failure belongs to the last episode.
func (s *shard) fail(now int64, hash uint64) (episode uint64, part bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	several := s.several.Swap(false)
	first := s.answerer.Swap(0)
	if now-s.turn > int64(window) {
		s.older, s.aged = s.aged, s.sum
		if now-s.turn > 2*int64(window) {
			s.older = s.sum
		}
		s.turn = now
	}
	part = s.sum.episodes > 0 && now-s.began <= int64(burst)
	if !part && first != 0 && (first != hash || several) {
		s.sum.episodes++
		s.began = now
		part = true
	}
	if part {
		s.sum.failures++
	}
	return s.sum.episodes, part
}
