package limit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Config is what each tenant may do. A limit of 0 is none.
type Config struct {
	Rate         float64          // requests a second
	Burst        int              // requests at once after a quiet time; default one second of the rate
	Concurrent   int              // requests in flight
	Environments int              // in use, each with one request at a time, on Lambda; 0 is one process for all
	Tenants      int              // how many are remembered with a rate; default 65,536, which take 12 MB beside their ids
	Now          func() time.Time // default time.Now
}

const (
	stripes      = 64
	tenants      = 1 << 16
	leastBurst   = 8                // of an environment: see the package comment
	searched     = 32               // tenants looked at to make room for one
	retryBusy    = time.Second      // for a tenant with too much in flight: when that ends, nobody knows
	longestRetry = 10 * time.Minute // for rates so low that the exact time is of no use
)

// Tenants limits each tenant by itself.
type Tenants struct {
	now        func() time.Time
	rate       rate.Limit
	burst      int
	concurrent int
	most       int // remembered in one stripe, where there is a rate
	seed       maphash.Seed
	stripes    [stripes]stripe
}

// stripe is the tenants with one hash, under one lock.
type stripe struct {
	mu      sync.Mutex
	tenants map[string]*bucket
	ring    []*bucket // the same, in the order in which they are looked at for room
	hand    int
	free    []*bucket // of nobody at the moment, where there is no rate to remember
	others  *bucket   // shared by those for whom there was no room
	_       [64]byte
}

// bucket is one tenant's, guarded by its stripe.
type bucket struct {
	stripe   *stripe
	tenant   string
	limit    *rate.Limiter // nil without a rate
	inFlight int
}

// NewTenants checks a configuration.
func NewTenants(c Config) (*Tenants, error) {
	switch {
	case !(c.Rate >= 0) || math.IsInf(c.Rate, 0):
		return nil, fmt.Errorf("a tenant's rate is %v requests a second: want 0 (no limit) or more", c.Rate)
	case c.Burst < 0 || c.Concurrent < 0 || c.Environments < 0 || c.Tenants < 0:
		return nil, errors.New("a tenant's burst, its concurrency, the environments and the tenants that are remembered cannot be less than 0")
	case c.Rate == 0 && c.Burst > 0:
		return nil, fmt.Errorf("a tenant's burst is %d without a rate: give the rate, or leave the burst out", c.Burst)
	}
	if c.Burst == 0 {
		c.Burst = int(min(max(1, math.Ceil(c.Rate)), 1<<30))
	}
	if c.Environments > 0 {
		c.Rate /= float64(c.Environments)
		c.Burst = max(leastBurst, (c.Burst+c.Environments-1)/c.Environments)
		c.Concurrent = 0
	}
	if c.Tenants == 0 {
		c.Tenants = tenants
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &Tenants{
		now: c.Now, rate: rate.Limit(c.Rate), burst: c.Burst, concurrent: c.Concurrent,
		most: (c.Tenants + stripes - 1) / stripes, seed: maphash.MakeSeed(),
	}
	for i := range l.stripes {
		s := &l.stripes[i]
		s.tenants = map[string]*bucket{}
		s.others = l.bucket(s, "")
	}
	return l, nil
}

func (l *Tenants) bucket(s *stripe, tenant string) *bucket {
	b := &bucket{stripe: s, tenant: tenant}
	if l.rate > 0 {
		b.limit = rate.NewLimiter(l.rate, l.burst)
	}
	return b
}

// Ticket is one admitted request of a tenant.
type Ticket struct {
	bucket *bucket
	others int
}

// Others is how many other requests of the tenant were in flight when this one was admitted.
func (t Ticket) Others() int { return t.others }

// Release says that the request was answered. It is called once.
func (t Ticket) Release() {
	if t.bucket == nil {
		return
	}
	b, s := t.bucket, t.bucket.stripe
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.inFlight--; b.inFlight == 0 && b.limit == nil && b != s.others {
		delete(s.tenants, b.tenant)
		s.free = append(s.free, b)
	}
}

// Admit counts a request of the tenant, whose id is verified: unknown names would fill the memory. When ok is
// false the tenant is over a limit: there is nothing to release, and retry, more than 0, is how long it
// should wait.
func (l *Tenants) Admit(tenant string) (t Ticket, retry time.Duration, ok bool) {
	now := l.now()
	s := l.stripe(tenant)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.tenants[tenant]
	if b == nil {
		b = l.room(s, tenant, now)
	}
	// A request that is refused for what is in flight costs nothing of the rate.
	if l.concurrent > 0 && b.inFlight >= l.concurrent {
		return Ticket{}, retryBusy, false
	}
	if b.limit != nil && !b.limit.AllowN(now, 1) {
		return Ticket{}, l.wait(b, now), false
	}
	b.inFlight++
	return Ticket{b, b.inFlight - 1}, 0, true
}

func (l *Tenants) stripe(tenant string) *stripe {
	return &l.stripes[maphash.String(l.seed, tenant)%stripes]
}

// wait is how long until the tenant's bucket has a whole token.
func (l *Tenants) wait(b *bucket, now time.Time) time.Duration {
	seconds := (1 - b.limit.TokensAt(now)) / float64(l.rate)
	if seconds >= longestRetry.Seconds() {
		return longestRetry
	}
	return max(time.Nanosecond, time.Duration(math.Ceil(seconds*float64(time.Second))))
}

// room returns a bucket for a tenant that has none, and forgets another one for it where the stripe is full. Without a
// rate, a tenant has one while it has requests in flight, and there is nothing to remember afterwards.
func (l *Tenants) room(s *stripe, tenant string, now time.Time) *bucket {
	if l.rate == 0 {
		var b *bucket
		if last := len(s.free) - 1; last >= 0 {
			b, s.free = s.free[last], s.free[:last]
			b.tenant = tenant
		} else {
			b = l.bucket(s, tenant)
		}
		s.tenants[tenant] = b
		return b
	}
	if len(s.ring) < l.most {
		b := l.bucket(s, tenant)
		s.tenants[tenant] = b
		s.ring = append(s.ring, b)
		return b
	}
	for range min(searched, len(s.ring)) {
		i := s.hand
		s.hand = (s.hand + 1) % len(s.ring)
		if old := s.ring[i]; l.idle(old, now) {
			delete(s.tenants, old.tenant)
			b := l.bucket(s, tenant)
			if b.limit != nil {
				// It may have been among the others so far, and does not get a burst on top of theirs.
				b.limit.AllowN(now, max(0, l.burst-int(max(0, s.others.limit.TokensAt(now)))))
			}
			s.tenants[tenant] = b
			s.ring[i] = b
			return b
		}
	}
	return s.others
}

// idle says whether the bucket is as a new one would be.
func (l *Tenants) idle(b *bucket, now time.Time) bool {
	return b.inFlight == 0 && (b.limit == nil || b.limit.TokensAt(now) >= float64(l.burst))
}
