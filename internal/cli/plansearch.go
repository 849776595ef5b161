package cli

import "slices"

// planPair is n shards, k for each tenant.
type planPair struct{ n, k int }

// planSearch looks for the fewest shards, and for these the smallest k, that keep a budget. What a pair comes to it
// asks try, whose work is bounded.
type planSearch struct {
	ns    []int       // to look at, ascending
	ks    []int       // to look at, ascending
	floor map[int]int // the least n that is not hopeless, by k; without an entry every n is
	bound planPair    // only smaller pairs are looked for; 0, 0: any
	guess planPair    // where to begin when not everything can be tried
	work  func(planPair) float64
	left  float64 // work that may be done
	tried map[planPair]*planTried
	try   func(planPair) (*planTried, error) // nil when the scheme places nobody so

	count int  // pairs that tenants were placed on
	cut   bool // not every smaller pair was tried
}

// at is one pair, tried at most once; ok is false when there is no work left for it.
func (s *planSearch) at(p planPair) (t *planTried, ok bool, err error) {
	if t, known := s.tried[p]; known {
		return t, true, nil
	}
	if s.left < s.work(p) {
		return nil, false, nil
	}
	if t, err = s.try(p); err != nil {
		return nil, false, err
	}
	s.tried[p] = t
	if t != nil {
		s.count++
		s.left -= s.work(p)
	}
	return t, true, nil
}

// open tells whether the pair is to be looked at.
func (s *planSearch) open(p planPair) bool {
	least, ok := s.floor[p.k]
	return ok && p.n >= max(least, p.k) && (s.bound.n == 0 || p.n < s.bound.n || p.n == s.bound.n && p.k < s.bound.k)
}

// smallest is the smallest pair that is kept, nil when none was found. It tries one pair after another as long as
// the work allows, so that no smaller one is kept; and then it goes on in larger steps, and says so.
func (s *planSearch) smallest() (*planTried, error) {
	reserve := s.left / 3
	s.left -= reserve
	next := 0 // all before are done
	for ; next < len(s.ns); next++ {
		done := true
		for _, k := range s.ks {
			p := planPair{s.ns[next], k}
			if !s.open(p) {
				continue
			}
			t, ok, err := s.at(p)
			if err != nil {
				return nil, err
			}
			if done = ok; !ok {
				break
			}
			if t != nil && t.Kept {
				return t, nil
			}
		}
		if !done {
			break
		}
	}
	if s.left += reserve; next == len(s.ns) {
		return nil, nil
	}
	s.cut = true
	var best *planTried
	for _, k := range s.order() {
		t, err := s.leap(k, next, best)
		if err != nil {
			return nil, err
		}
		if t != nil && (best == nil || t.Shards < best.Shards || t.Shards == best.Shards && t.PerTenant < best.PerTenant) {
			best = t
		}
	}
	return best, nil
}

// order is every k that is not hopeless: the guessed one, then those that may do with the fewest shards.
func (s *planSearch) order() []int {
	ks := slices.DeleteFunc(slices.Clone(s.ks), func(k int) bool { return s.floor[k] == 0 })
	slices.SortStableFunc(ks, func(a, b int) int {
		switch {
		case a == b:
			return 0
		case a == s.guess.k:
			return -1
		case b == s.guess.k:
			return 1
		}
		return s.floor[a] - s.floor[b]
	})
	return ks
}

// leap looks for a kept n with one k, from ns[low] upwards, below what is found already: in growing steps from the
// guess, then by halves. It takes more shards to keep what fewer keep, but for the noise of placement.
func (s *planSearch) leap(k, low int, found *planTried) (best *planTried, err error) {
	var ns []int
	for _, n := range s.ns[low:] {
		if s.open(planPair{n, k}) && (found == nil || n < found.Shards) {
			ns = append(ns, n)
		}
	}
	begin, _ := slices.BinarySearch(ns, s.guess.n)
	if k != s.guess.k {
		begin = 0
	}
	if begin == len(ns) {
		begin = 0
	}
	broken, kept := -1, len(ns)
	for i, step := begin, 1; kept-broken > 1; {
		t, ok, err := s.at(planPair{ns[i], k})
		if err != nil || !ok {
			return best, err
		}
		if t != nil && t.Kept {
			best, kept = t, i
		} else {
			broken = i
		}
		if best != nil {
			i = broken + (kept-broken)/2
			continue
		}
		i = min(i+step, len(ns)-1)
		step *= 2
	}
	return best, nil
}
