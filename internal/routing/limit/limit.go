// Package limit bounds what a router takes on.
package limit

import "time"

// Budget bounds how many repeats are in flight, by the requests that are.
type Budget struct{}

// NewBudget allows ratio (0 to 1) of the active requests to be repeated at a time, and never less than floor.
func NewBudget(ratio float64, floor int) *Budget { return &Budget{} }

// Begin says that a request has come, End that it was answered.
func (b *Budget) Begin() {}

// End says that a request was answered.
func (b *Budget) End() {}

// Spend says whether a repeat may go out now. If it may, Return says that it is over.
func (b *Budget) Spend() bool { return true }

// Return says that a repeat is over.
func (b *Budget) Return() {}

// Config is what a tenant may do. A limit of 0 is none.
type Config struct {
	Rate         float64          // requests a second
	Burst        int              // requests at once, above the rate; default the rate, at least 1
	Concurrent   int              // requests in flight
	Environments int              // how many processes share the limit; 0 and 1 when there is only this one
	Tenants      int              // how many are remembered; default 65,536
	Now          func() time.Time // default time.Now
}

// Tenants limits each tenant.
type Tenants struct{}

// NewTenants checks a configuration.
func NewTenants(c Config) (*Tenants, error) { return &Tenants{}, nil }

// Ticket is one admitted request of a tenant.
type Ticket struct{}

// Others is how many other requests of the tenant are in flight.
func (t Ticket) Others() int { return 0 }

// Release says that the request was answered. It is called once.
func (t Ticket) Release() {}

// Admit counts a request of the tenant. When ok is false, it is over its limit: there is no ticket to
// release, and retry, more than 0, is how long to wait before the next try.
func (l *Tenants) Admit(tenant string) (t Ticket, retry time.Duration, ok bool) { return Ticket{}, 0, true }

// Shards bounds the requests in flight to each shard.
type Shards struct{}

// NewShards allows each shard so many; 0 is no limit.
func NewShards(max int) *Shards { return &Shards{} }

// Acquire says whether the shard may be sent one more. If so, Release says that it is over.
func (s *Shards) Acquire(shard string) bool { return true }

// Release says that a request to the shard is over.
func (s *Shards) Release(shard string) {}

// Shed bounds the requests in flight in the whole router.
type Shed struct{}

// NewShed allows so many; 0 is no limit.
func NewShed(max int) *Shed { return &Shed{} }

// Enter says whether the router takes a request of a tenant that has others in flight (Ticket.Others). If
// so, Leave says that it was answered.
func (s *Shed) Enter(others int) bool { return true }

// Leave says that a request was answered.
func (s *Shed) Leave() {}
