// Package poison finds the tenant whose requests take down one member of its subset after another.
package poison

import "time"

// Config is what a Watch is made of. Each field may be left out.
type Config struct {
	Now       func() time.Time // default time.Now
	Lambda    bool             // this process is a Lambda environment: one request at a time, one of many
	OnVerdict func(Verdict)    // told of each verdict, on the goroutine of the request; default nobody
}

// Verdict says that a tenant is under suspicion, and why. It names shards and must not reach a tenant.
type Verdict struct {
	Tenant  string
	Shards  []string  // the members that went down under it
	Downs   int       // how often one did
	Of      int       // how often any request took those members down in the same time
	Chance  float64   // of seeing that if the tenant had nothing to do with it
	Until   time.Time // it is failed over again from then on
	Repeats int       // verdicts before this one, without a quiet time between
}

// Watch looks at all attempts of a router. It is safe for concurrent use.
type Watch struct{}

// New returns a Watch that suspects nobody.
func New(c Config) *Watch { return &Watch{} }

// Observe takes what became of one attempt: failed is a failure or a time-out. A throttled attempt, one that
// the client left, and one that was not sent say nothing and are not given.
func (w *Watch) Observe(tenant, shard string, failed bool) {}

// Suspect says that the tenant's requests are not to be sent to another member after a failure.
func (w *Watch) Suspect(tenant string) bool { return false }

// Hold puts a tenant under suspicion until then, as when somebody who sees more than this process said so.
func (w *Watch) Hold(tenant string, until time.Time) {}
