package dircache

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Of a directory that does not answer: how many failures in a row shut the gate before it, and for how long
// it is not asked after that, doubled with each further failure.
const (
	shutAfter  = 3
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// errShut means that the directory was not asked because it does not answer.
var errShut = errors.New("the directory did not answer lately and is not asked at the moment")

// gate stands before a directory. After failures in a row it lets one reading through at a time, with growing
// pauses between them, until one is answered.
type gate struct {
	spread func(time.Duration) int64

	mu      sync.Mutex
	fails   int // in a row
	why     error
	until   int64
	probing bool
}

// enter says whether the directory may be asked, and whether that is to find out if it answers again. Whoever
// may has to leave.
func (g *gate) enter(now int64) (probe bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails < shutAfter {
		return false, nil
	}
	if g.probing || now < g.until {
		return false, fmt.Errorf("%w: %w", errShut, g.why)
	}
	g.probing = true
	return true, nil
}

// answered opens the gate.
func (g *gate) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fails, g.why, g.probing = 0, nil, false
}

// failed counts a failure. Those of readings that came in before the gate was shut do not count again.
func (g *gate) failed(now int64, probe bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails >= shutAfter && !probe {
		return
	}
	if probe {
		g.probing = false
	}
	g.fails++
	g.why = why
	g.until = now + g.spread(min(lastPause, firstPause<<max(0, min(g.fails-shutAfter, 10))))
}

// left is told when who asked left before there was an answer.
func (g *gate) left(probe bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe {
		g.probing = false
	}
}
