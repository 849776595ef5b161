// Package keeper writes a cell's snapshot: it asks every source for what it has, keeps of the last snapshot
// what a source that is down had said, and puts the whole in the place of the last one.
//
//	k, err := keeper.New(keeper.Config{...})
//	o, err := k.Write(ctx, keeper.Options{})     // one run; o.Err() says which sources were down
//	k.Run(ctx, 2*time.Second, observe)           // locally
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. SourcesFailAlone: a source that is down leaves its part as it was in the last snapshot, with the time
//     when it was read, and every other part is new. No part becomes empty because of it.
//  2. FirstIsWhole: the first snapshot of a cell is not written without its entries, topologies and keys.
//  3. Upwards: generations rise from run to run, also when the last snapshot cannot be read, and of keepers
//     at work at once one alone writes; the others leave what it wrote.
//  4. NoGoingBack: a tenant's epoch in the snapshot never falls, and neither a directory that lost more than
//     half of the cell's tenants nor one that lost a topology is believed, unless that is asked for.
//  5. KeysFit: a key that is not the one of which a topology has the fingerprint is not written.
//  6. AllCells: a front door's snapshot has every tenant of its cells, also one that changes its cell while they
//     are listed, and nothing else is asked for it but the issuer.
//  7. BeforeTheDirectory: a cell that the directory does not know yet has a snapshot without tenants, and no run
//     fails for that. One that it knew is another matter.
//  8. Measured: after each run, also after one that fails, Measure tells how old what stands is.
package keeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/snapshot"
)

// Lists lists the tenants of a cell; *directory.Directory does.
type Lists interface {
	ListCell(ctx context.Context, cell, after string, limit int) ([]directory.Entry, error)
}

// Directory is what a cell's keeper reads of the tenant directory; *directory.Directory is one.
type Directory interface {
	Lists
	Topologies(ctx context.Context, cell string, after uint64, limit int) ([]directory.Topology, error)
	Cell(ctx context.Context, name string) (directory.Cell, error)
}

// Issuer publishes the keys that sign tenants' tokens.
type Issuer interface {
	JWKS(ctx context.Context) (json.RawMessage, error)
}

// Count is how many targets of a shard there are, and how many of them are healthy.
type Count struct{ Healthy, Targets int }

// Targets knows the targets of shards. A shard that has none is not in the answer.
type Targets interface {
	Targets(ctx context.Context, shards []string) (map[string]Count, error)
}

// Throttles knows how many invocations of each shard's slice were turned away, per minute.
type Throttles interface {
	Throttles(ctx context.Context, shards []string) (map[string]float64, error)
}

// Queues knows the age of the oldest message in each shard's queue.
type Queues interface {
	QueueAges(ctx context.Context, shards []string) (map[string]time.Duration, error)
}

// Suspects knows the tenants that all routers are to hold.
type Suspects interface {
	Suspects(ctx context.Context) ([]snapshot.Suspect, error)
}

// Store is where the snapshot lies.
type Store interface {
	snapshot.Reader
	// Put writes over the object with that tag, over none when it is "". snapshot.ErrChanged when another
	// stands there.
	Put(ctx context.Context, object []byte, tag string) error
}

// Keyring seals snapshots, and opens the last one.
type Keyring interface {
	snapshot.Sealer
	snapshot.Opener
}

// Config configures a Keeper. Issuer, Targets, Throttles, Queues and Suspects are nil where the cell has none, Loads
// and KeyMade where nobody is told of them.
type Config struct {
	Cell      string
	Store     Store
	Keyring   Keyring
	Directory Directory
	Keys      directory.Keys
	Issuer    Issuer
	Targets   Targets
	Throttles Throttles
	Queues    Queues
	Suspects  Suspects
	Loads     Loads
	KeyMade   func(ctx context.Context) (time.Time, error) // when the newest version of the placement key was made
	// Quarantine are the shards of the cell's quarantine, whose loads are compared with no others'.
	Quarantine []string
	Now        func() time.Time // time.Now when nil
}

// FrontDoor configures the keeper of a front door. Issuer is nil where that verifies no tokens.
type FrontDoor struct {
	Cells     []string // all of the fleet
	Store     Store
	Keyring   Keyring
	Directory Lists
	Issuer    Issuer
	Now       func() time.Time // time.Now when nil
}

// Keeper writes the snapshots of one cell, or of a front door. It remembers nothing from run to run.
type Keeper struct {
	c     Config
	lists Lists
	cells []string // of a front door's; nil of a cell's
}

// Errors of a run. They come wrapped.
var (
	// ErrShrunk means that the directory has much less than it had. Look whether it is the right one, and
	// whether somebody emptied it; a run with Options.Force takes its word.
	ErrShrunk = errors.New("the directory has much less than it had: its part of the snapshot stays as it was")
	// ErrFirst means that a source is down without which there is no first snapshot.
	ErrFirst = errors.New("there is no snapshot to keep it from, and none is written without it")
)

// New returns a Keeper.
func New(c Config) (*Keeper, error) {
	if c.Cell == "" || c.Store == nil || c.Keyring == nil || c.Directory == nil || c.Keys == nil {
		return nil, errors.New("a keeper needs a cell, a store, a keyring, a directory and placement keys")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Keeper{c: c, lists: c.Directory}, nil
}

// ForFrontDoor returns the Keeper of a front door.
func ForFrontDoor(f FrontDoor) (*Keeper, error) {
	if len(f.Cells) == 0 || f.Store == nil || f.Keyring == nil || f.Directory == nil {
		return nil, errors.New("a front door's keeper needs cells, a store, a keyring and a directory")
	}
	if f.Now == nil {
		f.Now = time.Now
	}
	c := Config{Cell: snapshot.Fleet, Store: f.Store, Keyring: f.Keyring, Issuer: f.Issuer, Now: f.Now}
	return &Keeper{c: c, lists: f.Directory, cells: f.Cells}, nil
}

// Options of one run.
type Options struct {
	// Force takes the directory's word whatever it lost since the last snapshot: after a restore from a
	// backup, or when a cell was emptied on purpose.
	Force bool
}

// Outcome is what a run did.
type Outcome struct {
	Generation uint64
	Tenants    int
	Bytes      int           // of the sealed snapshot
	Written    bool          // false: another keeper was faster
	Last       time.Duration // how old the snapshot was that stood there; 0 when there was none
	Unreadable error         // why the snapshot that stood there was of no use; nil when it was, or there was none
	Unknown    bool          // the directory does not know the cell yet, which is no error of the run's
	Parts      []Part

	stands *snapshot.Snapshot // after the run, as far as is known; nil for none
}

// Part is what became of one part of the snapshot.
type Part struct {
	Name  string
	Taken time.Time // when it was read; before this run when the source is down, and zero when it never was
	Err   error
}

// Err joins what was amiss in a run that wrote its snapshot nevertheless; nil when nothing was.
func (o Outcome) Err() error {
	errs := []error{}
	if o.Unreadable != nil {
		errs = append(errs, fmt.Errorf("the last snapshot was of no use, and begun anew: %w", o.Unreadable))
	}
	for _, p := range o.Parts {
		if p.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, p.Err))
		}
	}
	return errors.Join(errs...)
}

// LogValue implements slog.LogValuer.
func (o Outcome) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Uint64("generation", o.Generation), slog.Int("tenants", o.Tenants), slog.Int("bytes", o.Bytes),
		slog.Bool("written", o.Written), slog.Float64("lastAgeSeconds", o.Last.Seconds()),
	}
	if o.Unknown {
		attrs = append(attrs, slog.Bool("unknown", true))
	}
	if err := o.Err(); err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Write is one run. An error means that no snapshot was written; the Outcome says what a written one lacks, and is for
// Measure in either case.
func (k *Keeper) Write(ctx context.Context, o Options) (Outcome, error) {
	last, tag, unreadable, err := k.last(ctx)
	fail := func(err error) (Outcome, error) {
		return Outcome{stands: last}, fmt.Errorf("write the snapshot of cell %q: %w", k.c.Cell, err)
	}
	if err != nil {
		return fail(err)
	}
	r := k.collect(ctx, last, o)
	next, now := r.next, k.c.Now()
	out := Outcome{Unreadable: unreadable, Unknown: r.unknown, Parts: r.parts, stands: last}
	if last == nil {
		for _, p := range r.parts {
			if p.Err != nil && p.Taken.IsZero() && essential[p.Name] {
				return fail(fmt.Errorf("%s: %w: %w", p.Name, ErrFirst, p.Err))
			}
		}
	} else {
		out.Last = max(0, now.Sub(last.Taken))
	}
	next.Cell, next.Taken = k.c.Cell, now.UTC()
	// By the clock, so that it rises also when the last one cannot be read; and by one at least, so that it
	// rises whatever the clock does.
	next.Generation = max(uint64(max(1, now.UnixMilli())), lastGeneration(last)+1)
	sealed, err := snapshot.Seal(ctx, k.c.Keyring, next)
	if err != nil {
		return fail(err)
	}
	out.Generation, out.Tenants, out.Bytes = next.Generation, next.Entries.Len(), len(sealed)
	switch err := k.c.Store.Put(ctx, sealed, tag); {
	case errors.Is(err, snapshot.ErrChanged):
		return out, nil
	case err != nil:
		return fail(err)
	}
	out.Written, out.stands = true, next
	return out, nil
}

func lastGeneration(last *snapshot.Snapshot) uint64 {
	if last == nil {
		return 0
	}
	return last.Generation
}

// last reads the snapshot that stands. unreadable says that it is none of the cell's: it is then replaced. A
// key service that is down is an error: nobody can tell then what stands.
func (k *Keeper) last(ctx context.Context) (last *snapshot.Snapshot, tag string, unreadable, err error) {
	sealed, tag, err := k.c.Store.Get(ctx, "")
	switch {
	case errors.Is(err, snapshot.ErrNone):
		return nil, "", nil, nil
	case err != nil:
		return nil, "", nil, err
	}
	last, err = snapshot.Open(ctx, k.c.Keyring, sealed, snapshot.Want{Cell: k.c.Cell})
	if err != nil && snapshot.Refused(err) {
		return nil, tag, err, nil
	}
	return last, tag, nil, err
}

// Last is the snapshot that stands; nil when there is none that is of use.
func (k *Keeper) Last(ctx context.Context) (*snapshot.Snapshot, error) {
	last, _, _, err := k.last(ctx)
	return last, err
}

// Run writes a snapshot at once and then after each interval, until ctx is done. observe is told of each run.
func (k *Keeper) Run(ctx context.Context, every time.Duration, observe func(Outcome, error)) {
	ticker := time.NewTicker(cmp.Or(max(0, every), snapshot.Interval))
	defer ticker.Stop()
	for {
		o, err := k.Write(ctx, Options{})
		if ctx.Err() != nil {
			return
		}
		observe(o, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
