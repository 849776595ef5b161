package localcell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/proc"
)

const (
	firstBackoff = 100 * time.Millisecond // before the first restart
	maxBackoff   = 5 * time.Second        // a broken process is tried at least this often, for ever
	steadyAfter  = 10 * time.Second       // a process that lived this long starts again without a record
	stopGrace    = 3 * time.Second        // between asking a process to end and killing it
	probeEvery   = 20 * time.Millisecond  // while a process gets ready
	maxHold      = 10 * time.Minute       // the longest break that may be asked for
)

// backoff is the wait before a restart, after so many quick deaths in a row: it doubles from
// firstBackoff and stays at maxBackoff.
func backoff(deaths int) time.Duration {
	wait := firstBackoff
	for ; deaths > 1 && wait < maxBackoff; deaths-- {
		wait *= 2
	}
	return min(wait, maxBackoff)
}

// childState is where a process of the cell is in its life.
type childState string

const (
	childStarting childState = "starting" // runs, does not answer yet
	childReady    childState = "ready"    // has answered since it started
	childWaiting  childState = "waiting"  // died; comes back after its back-off
	childHeld     childState = "held"     // broken on purpose
	childFrozen   childState = "frozen"   // was ready, and is stopped on purpose
	childStopped  childState = "stopped"  // the cell is going down
)

// child is one process of the cell that its supervisor keeps running.
type child struct {
	name    string
	logFile string                      // what the process prints is added to it
	command func() *exec.Cmd            // a new, not yet started command, in the cell's process group
	probe   func(context.Context) error // nil once the process answers
	log     *slog.Logger
	changed func() // told of every start and every end; must not block

	mu      sync.Mutex
	state   childState
	process proc.Process
	kill    func() error  // of the running process
	exited  chan struct{} // closed when the running process has been waited for; nil when none runs
	starts  int
	deaths  int       // quick ones in a row
	until   time.Time // held until; zero when not held
	killed  bool      // held until it is healed
	frozen  bool      // stopped by a signal as soon as it is ready, until it is healed
	anew    bool      // was asked to end, and is to start again at once
	lastErr error     // of the last start or probe, until ready
	crashed time.Time // when it last died and nobody had asked it to
	wake    chan struct{}
}

func newChild(name, logFile string, command func() *exec.Cmd, probe func(context.Context) error, log *slog.Logger, changed func()) *child {
	return &child{
		name: name, logFile: logFile, command: command, probe: probe, log: log.With("process", name), changed: changed,
		state: childStarting, wake: make(chan struct{}, 1),
	}
}

// run keeps the process running until ctx ends, and then ends it.
func (c *child) run(ctx context.Context) {
	for {
		if !c.waitForTurn(ctx) {
			c.set(func() { c.state = childStopped })
			return
		}
		started := time.Now()
		err := c.once(ctx)
		c.set(func() {
			c.process, c.kill, c.exited = proc.Process{}, nil, nil
			switch {
			case ctx.Err() != nil:
				c.state = childStopped
			case c.held(): // on purpose, so no record
				c.state, c.deaths = childHeld, 0
			case c.anew:
				c.state, c.deaths = childStarting, 0
			default:
				c.state = childWaiting
				if time.Since(started) >= steadyAfter {
					c.deaths = 0
				}
				c.deaths++
				c.lastErr, c.crashed = err, time.Now()
			}
			c.anew = false
		})
		if ctx.Err() == nil {
			c.log.Warn("process ended", "why", err, "after", time.Since(started).Round(time.Millisecond))
		}
	}
}

// waitForTurn waits out a hold or a back-off. It returns false when ctx has ended.
func (c *child) waitForTurn(ctx context.Context) bool {
	begun := time.Now()
	for {
		c.mu.Lock()
		wait := time.Duration(0)
		if c.deaths > 0 { // restart forgets them
			wait = time.Until(begun.Add(backoff(c.deaths)))
		}
		switch {
		case c.killed:
			wait, c.state = maxBackoff, childHeld // whoever heals it wakes it
		case !c.until.IsZero():
			if held := time.Until(c.until); held > 0 {
				wait = held
				c.state = childHeld
			} else {
				c.until = time.Time{}
			}
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if wait <= 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.wake: // held, or let go
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// once starts the process, waits for its end, and says how it ended.
func (c *child) once(ctx context.Context) error {
	cmd := c.command()
	if err := startLogged(cmd, c.logFile); err != nil {
		return err
	}
	exited := make(chan struct{})
	life, end := context.WithCancel(ctx)
	process, err := proc.Of(cmd.Process.Pid) // ours until it is waited for, so the pid is not another's
	c.set(func() {
		c.state, c.process, c.kill, c.exited = childStarting, process, cmd.Process.Kill, exited
		c.starts++
		if err != nil && !errors.Is(err, os.ErrProcessDone) { // of one that has ended, its status says why
			c.lastErr = err
		}
	})
	c.mu.Lock()
	if c.held() { // between two looks
		_ = cmd.Process.Kill()
	}
	c.mu.Unlock()

	var watchers sync.WaitGroup
	watchers.Go(func() { c.awaitReady(life) })
	watchers.Go(func() {
		select {
		case <-ctx.Done():
		case <-exited:
			return
		}
		askToEnd(process, exited, cmd.Process.Kill, stopGrace)
	})
	err = cmd.Wait()
	end()
	close(exited)
	watchers.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// startLogged starts cmd, which prints into a file.
func startLogged(cmd *exec.Cmd, logFile string) error {
	file, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer file.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// awaitReady asks the process until it answers or life ends.
func (c *child) awaitReady(life context.Context) {
	for {
		err := c.probe(life)
		if life.Err() != nil {
			return
		}
		c.set(func() {
			c.lastErr = err
			if err != nil {
				return
			}
			c.state = childReady
			if c.frozen {
				c.lastErr = c.process.Stop()
			}
		})
		if err == nil {
			c.log.Info("process is ready")
			return
		}
		select {
		case <-life.Done():
			return
		case <-time.After(probeEvery):
		}
	}
}

// hold kills the process and keeps it down for d. It returns when the process has ended, with its
// identity; that is zero when none was running.
func (c *child) hold(ctx context.Context, d time.Duration) (proc.Process, error) {
	return c.fell(ctx, func() { c.until = time.Now().Add(d) })
}

// down kills the process and keeps it down until up is called. It returns as hold does.
func (c *child) down(ctx context.Context) (proc.Process, error) {
	return c.fell(ctx, func() { c.killed = true })
}

// up lets a process that is down start again.
func (c *child) up() {
	c.set(func() { c.killed = false })
	c.poke()
}

// fell keeps the process down, as hold says under the lock, and kills it.
func (c *child) fell(ctx context.Context, hold func()) (proc.Process, error) {
	c.mu.Lock()
	hold()
	victim, kill, exited := c.process, c.kill, c.exited
	c.mu.Unlock()
	c.poke()
	if exited == nil {
		return proc.Process{}, nil
	}
	if err := kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return victim, fmt.Errorf("kill %s: %w", c.name, err)
	}
	select {
	case <-exited:
		return victim, nil
	case <-ctx.Done():
		return victim, fmt.Errorf("%s was killed and has not ended yet: %w", c.name, ctx.Err())
	}
}

// freeze stops the process by SIGSTOP, as soon as it is ready, and each that follows it, until thaw.
func (c *child) freeze() (err error) {
	c.set(func() {
		c.frozen = true
		if c.state == childReady {
			err = c.process.Stop()
		}
	})
	return err
}

// thaw lets a stopped process go on.
func (c *child) thaw() (err error) {
	c.set(func() {
		c.frozen = false
		err = c.process.Continue()
	})
	return err
}

// strike kills the running process as a fault of its own would: it counts as a death.
func (c *child) strike() error {
	c.mu.Lock()
	victim := c.process
	c.mu.Unlock()
	return victim.Kill()
}

// restart asks the process to end and has it start again at once, without a record, by what command says then. It
// returns when the old one has ended. One that waits out a back-off waits no longer.
func (c *child) restart(ctx context.Context) error { return c.drain(ctx, stopGrace) }

// drain is restart with the time that the process has to end what it has begun.
func (c *child) drain(ctx context.Context, grace time.Duration) error {
	c.mu.Lock()
	c.deaths = 0 // of what is no more
	process, exited, kill := c.process, c.exited, c.kill
	if exited != nil {
		c.anew, c.state = true, childStarting
	}
	c.mu.Unlock()
	if exited == nil {
		c.poke()
		return nil
	}
	go askToEnd(process, exited, kill, grace) // no longer than the grace; who asked may leave before
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s was asked to end and has not ended yet: %w", c.name, ctx.Err())
	}
}

// askToEnd asks a process to end, one that is stopped, too, and kills it when it does not.
func askToEnd(p proc.Process, exited <-chan struct{}, kill func() error, grace time.Duration) {
	_ = p.Terminate() // it is gone, or is killed below
	_ = p.Continue()
	select {
	case <-exited:
	case <-time.After(grace):
		_ = kill()
	}
}

// held says, under the lock, whether the process is to stay down.
func (c *child) held() bool { return c.killed || !c.until.IsZero() }

// broken says whether the process is down, or stopped, on purpose.
func (c *child) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen || c.held()
}

// release ends a hold now.
func (c *child) release() {
	c.mu.Lock()
	if !c.until.IsZero() {
		c.until = time.Now()
	}
	c.mu.Unlock()
	c.poke()
}

func (c *child) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *child) set(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.changed()
}

// progress says whether the process has answered since it started; else how often in a row it died
// quickly, and what was last wrong.
func (c *child) progress() (ready bool, deaths int, last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == childReady, c.deaths, c.lastErr
}

// lastCrash is when the process last died and nobody had asked it to, zero when it never did.
func (c *child) lastCrash() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed
}

// status is a snapshot for the operator.
func (c *child) status() ProcessStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ProcessStatus{Name: c.name, State: string(c.state), PID: c.process.PID, Start: c.process.Start, Starts: c.starts}
	if c.frozen && c.state == childReady {
		s.State = string(childFrozen)
	}
	if !c.until.IsZero() {
		until := c.until.UTC()
		s.HeldUntil = &until
	}
	if c.lastErr != nil && c.state != childReady {
		s.LastError = c.lastErr.Error()
	}
	return s
}
