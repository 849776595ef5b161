package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/rollout"
	"cellwall.dev/cellwall/internal/rollout/run"
	"cellwall.dev/cellwall/internal/rollout/show"
)

// redraw is how often a picture changes at most, and how often its clock goes on.
const redraw = 500 * time.Millisecond

// noteTime is how long a picture shows what went wrong and is not told again.
const noteTime = 30 * time.Second

// progress tells how a rollout goes, as a picture that changes, as lines, or as JSON. It is the run.Observer of a
// driver, and follows a journal in the same way.
type progress struct {
	now    func() time.Time
	out    io.Writer // data
	err    io.Writer
	asJSON bool
	screen *screen // nil: lines
	hint   func(rollout.State) string

	mu      sync.Mutex
	replay  *show.Replay
	sights  map[string]show.Sight
	lease   *run.Lease
	trouble string
	told    time.Time // the trouble, last
	failed  error     // of writing
	dirty   chan struct{}
}

func (a *app) newProgress(asJSON bool, now func() time.Time) *progress {
	p := &progress{now: now, out: a.out, err: a.err, asJSON: asJSON, sights: map[string]show.Sight{}, dirty: make(chan struct{}, 1)}
	if _, is := a.terminal(a.out); is && !asJSON {
		p.screen = &screen{out: a.out, look: func() show.Look { look, _ := a.terminal(a.out); return look }}
	}
	return p
}

// Recorded implements run.Observer.
func (p *progress) Recorded(r run.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replay == nil || p.replay.State().Spec.ID != r.State.Spec.ID {
		p.replay = show.NewReplay(r.State)
	}
	var events []show.Event
	var err error
	if r.Seq == p.replay.Seq()+1 {
		events, err = p.replay.Take(r)
	}
	if r.Seq != p.replay.Seq() || err != nil {
		events = p.replay.Jump(r)
	}
	p.tell(events)
	if r.Event != nil {
		p.sight(*r.Event)
	}
	if l := r.State; p.lease != nil && l.Fencing != p.lease.Fencing {
		p.lease = nil
	}
	p.changed()
}

// Seen implements run.Observer.
func (p *progress) Seen(e rollout.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight(e)
	p.changed()
}

// sight keeps what the gate of a cell shows.
func (p *progress) sight(e rollout.Event) {
	switch {
	case e.Kind != rollout.Looked:
	case e.Observation != nil:
		p.sights[e.Cell] = show.Sight{At: e.At, Observation: *e.Observation}
	default:
		delete(p.sights, e.Cell)
	}
}

// Trouble implements run.Observer.
func (p *progress) Trouble(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := show.Clean(err.Error())
	if p.screen == nil {
		if text != p.trouble { // again and again it is one line
			fmt.Fprintf(p.err, "%s %s\n", stamp(p.now()), text)
		}
	}
	p.trouble, p.told = text, p.now()
	p.changed()
}

// holds says who has the lease, as far as it is known.
func (p *progress) holds(l *run.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease = l
	p.changed()
}

// alone says, where there is no picture, that nobody drives, and what to do.
func (p *progress) alone(next string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen == nil && next != "" {
		fmt.Fprintf(p.err, "%s nobody drives the rollout\nhint: %s\n", stamp(p.now()), printed(next))
	}
}

func (p *progress) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// tell prints events as lines, unless there is a picture.
func (p *progress) tell(events []show.Event) {
	for _, e := range events {
		var err error
		switch {
		case p.asJSON:
			err = json.NewEncoder(p.out).Encode(e)
		case p.screen == nil:
			_, err = fmt.Fprintf(p.out, "%s %s\n", stamp(e.Time), e.Line())
		}
		if err != nil && p.failed == nil {
			p.failed = err
		}
	}
}

// stamp is a time at the beginning of a line.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// draw draws the picture until it is told to end, and then once more. It is to be called once.
func (p *progress) draw() (end func() error) {
	if p.screen == nil {
		return func() error { return p.failed }
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				p.picture()
				return
			case <-tick.C:
				p.picture()
			}
		}
	}()
	return func() error {
		close(stop)
		<-ended
		return p.screen.err
	}
}

// picture draws the rollout as it is.
func (p *progress) picture() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replay == nil {
		return
	}
	v := show.View{State: p.replay.State(), Now: p.now(), Sights: p.sights, Lease: p.lease}
	if v.Now.Sub(p.told) < noteTime {
		v.Note = p.trouble
	}
	if p.hint != nil {
		v.Hint = p.hint(v.State)
	}
	p.screen.draw(v.Lines)
}
