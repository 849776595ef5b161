// Package probe sends requests of test tenants to the cells that a rollout looks at, so that a quiet canary is not a blind
// one, and tells what became of them as an alarm of its own beside those of the cell.
//
// A Probe is a run.Gate over another. With each look it sends what is due since the last one, beside the look of the gate below.
// The first look at a cell, which is before its change, sends a few at once: a probe that cannot work is found before anything is
// changed. Requests are not counted here: routers count them as they count all others.
//
// The alarm is called "probe". It rings while more than a fifth of the last 20 requests failed, three at least. Like an alarm of a
// cell it is told to ring elsewhere when it does so in more than half of the unreached cells that have test tenants, which are
// probed too then. What it knows it forgets with its process: who takes over begins anew.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Bounded: to no cell are more requests sent than five, and one for each Every that has gone by.
//  2. FailuresRing: when more than a fifth of the last 20 requests failed, and three at least, "probe" is in Firing; once it was since
//     from, it is in Fired.
//  3. BlindIsMissing: when requests were due and none could be sent, "probe" is in Missing, and rings for none of them.
//  4. GateStands: what the gate below tells is told, whatever becomes of the probe; its error is the error.
package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
)

// Alarm is what the probe's alarm is called.
const Alarm = "probe"

const (
	first   = 5  // requests at once, when a cell is looked at for the first time
	burst   = 10 // at once, at most
	window  = 20 // requests of which the share that failed is taken
	share   = 20 // percent of these, of which more must not fail
	fewest  = 3  // that must have failed at least
	several = 5  // unreached cells that are probed, at most
)

// ErrUnsent is wrapped by errors of a Sender that say nothing of the cell: the request was not sent, or the cell does not know the
// tenant who asks.
var ErrUnsent = errors.New("the probe could not ask")

// Sender sends requests of test tenants.
type Sender interface {
	// Cells are those that have test tenants.
	Cells() []string
	// Send sends one request of one of a cell's test tenants, and returns an error unless it was answered well. It must end by
	// itself within seconds.
	Send(ctx context.Context, cell string) error
}

// Options are what a probe may be told.
type Options struct {
	Every time.Duration    // between two requests to a cell; 1 s by default
	Now   func() time.Time // the clock; by default that of this machine
}

// Probe is a gate with a probe.
type Probe struct {
	gate   run.Gate
	sender Sender
	every  time.Duration
	now    func() time.Time
	probed map[string]bool

	mu    sync.Mutex
	cells map[string]*record
}

var _ run.Gate = (*Probe)(nil)

// record is what is known of a cell.
type record struct {
	last    time.Time // until when requests were sent for
	from    time.Time // of the last look
	results []bool    // of the last requests, whether they failed
	fired   bool      // since from
	unsent  error     // of the last requests that were due, none could be sent
}

// New is a gate over another that probes the sender's cells when they are looked at.
func New(gate run.Gate, sender Sender, o Options) (*Probe, error) {
	if gate == nil || sender == nil || o.Every < 0 {
		return nil, errors.New("a probe needs a gate, a sender, and an interval of at least 0s")
	}
	p := &Probe{gate: gate, sender: sender, every: o.Every, now: o.Now, probed: map[string]bool{}, cells: map[string]*record{}}
	if p.every == 0 {
		p.every = time.Second
	}
	if p.now == nil {
		p.now = time.Now
	}
	for _, cell := range sender.Cells() {
		p.probed[cell], p.cells[cell] = true, &record{}
	}
	return p, nil
}

// Look implements run.Gate.
func (p *Probe) Look(ctx context.Context, cell string, since, from time.Time, unreached []string) (rollout.Observation, error) {
	if !p.probed[cell] {
		return p.gate.Look(ctx, cell, since, from, unreached)
	}
	var o rollout.Observation
	var err error
	var below sync.WaitGroup
	below.Go(func() { o, err = p.look(ctx, cell, since, from, unreached) })
	p.send(ctx, cell)
	rings, fired, unsent := p.judge(cell, from)
	elsewhere := rings && !from.IsZero() && p.elsewhere(ctx, cell, unreached)
	below.Wait()
	if err != nil {
		return o, err
	}
	if rings {
		o.Firing = with(o.Firing, Alarm)
	}
	if fired {
		o.Fired = with(o.Fired, Alarm)
	}
	if elsewhere {
		o.Elsewhere = with(o.Elsewhere, Alarm)
	}
	if unsent != nil {
		o.Missing = with(o.Missing, fmt.Sprintf("%s (%s)", Alarm, oneLine(unsent)))
	}
	return o, nil
}

// look is the gate's below. Its panic is its error, as it is for who calls it directly.
func (p *Probe) look(ctx context.Context, cell string, since, from time.Time, unreached []string) (o rollout.Observation, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return p.gate.Look(ctx, cell, since, from, unreached)
}

// send sends what is due to a cell, and waits for the answers.
func (p *Probe) send(ctx context.Context, cell string) {
	n := p.due(cell)
	results := make(chan error, n)
	for range n {
		go func() {
			var err error
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("%w: panic: %v", ErrUnsent, r)
				}
				results <- err
			}()
			err = p.sender.Send(ctx, cell)
		}()
	}
	var all []error
	for range n {
		all = append(all, <-results)
	}
	if n > 0 && ctx.Err() == nil { // what was cut off says nothing of the cell
		p.note(cell, all)
	}
}

// due is how many requests are to be sent to a cell now. They count as sent.
func (p *Probe) due(cell string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, now := p.cells[cell], p.now()
	if r.last.IsZero() || now.Before(r.last) { // the first time, or a clock that was set back
		n := 0
		if r.last.IsZero() {
			n = first
		}
		r.last = now
		return n
	}
	n := now.Sub(r.last) / p.every
	if n > burst {
		r.last = now
		return burst
	}
	r.last = r.last.Add(n * p.every)
	return int(n)
}

func (p *Probe) note(cell string, all []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.cells[cell]
	r.unsent = nil
	sent := 0
	for _, err := range all {
		if !errors.Is(err, ErrUnsent) {
			r.results = append(r.results, err != nil)
			sent++
		}
	}
	if sent == 0 {
		r.unsent = all[0]
	}
	r.results = r.results[max(0, len(r.results)-window):]
}

// judge is whether the probe of a cell rings, whether it has since from, and why it is blind.
func (p *Probe) judge(cell string, from time.Time) (rings, fired bool, unsent error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.cells[cell]
	if !r.from.Equal(from) {
		r.from, r.fired = from, false
	}
	rings = r.rings()
	r.fired = rings || r.fired
	return rings, r.fired && !from.IsZero(), r.unsent
}

func (r *record) rings() bool {
	failed := 0
	for _, f := range r.results {
		if f {
			failed++
		}
	}
	return failed >= fewest && 100*failed > share*len(r.results)
}

// elsewhere is whether the probe rings in more than half of the unreached cells that have test tenants, as far as they are
// probed.
func (p *Probe) elsewhere(ctx context.Context, own string, unreached []string) bool {
	others := map[string]bool{}
	for _, cell := range unreached {
		if cell != own && p.probed[cell] {
			others[cell] = true
		}
	}
	some := slices.Sorted(maps.Keys(others))
	some = some[:min(len(some), several)]
	var all sync.WaitGroup
	for _, cell := range some {
		all.Go(func() { p.send(ctx, cell) })
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	ringing := 0
	for _, cell := range some {
		if p.cells[cell].rings() {
			ringing++
		}
	}
	return 2*ringing > len(some)
}

func with(list []string, name string) []string {
	list = append(slices.Clone(list), name)
	slices.Sort(list)
	return slices.Compact(list)
}

const longest = 300 // bytes of a reason

func oneLine(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	return text
}
