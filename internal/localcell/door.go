package localcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"sync"
)

// gateSuffix follows a shard's name in that of its gate.
const gateSuffix = ".gate"

// door is where the router finds a shard: its worker, or while that is broken in a way that a signal does not
// bring about, a gate before the worker, which then listens elsewhere.
type door struct {
	cell  *member
	shard string
	name  string // of the worker's process
	child *child

	mu      sync.Mutex
	port    int  // the router's way to the shard
	fixed   bool // the router knows it
	private int  // where the worker listens behind a gate; 0 without one
	gate    *child
	spec    gateSpec
	endGate func() // ends the gate and waits for it

	version   string // of the worker that was started last
	deploying bool
	begun     int    // deployments, ever
	problem   string // of the last deployment
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// url is where the router finds the shard.
func (d *door) url() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "http://" + address(d.port)
}

// worker is where the worker itself listens.
func (d *door) worker() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.private != 0 {
		return "http://" + address(d.private)
	}
	return "http://" + address(d.port)
}

// choose returns the worker's port: a new one until the router knows it, since somebody may have taken the
// last one.
func (d *door) choose(free func() (int, error)) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.private != 0:
		return d.private, nil
	case d.fixed:
		return d.port, nil
	}
	port, err := free()
	if err == nil {
		d.port = port
	}
	return port, err
}

func (d *door) fix() {
	d.mu.Lock()
	d.fixed = true
	d.mu.Unlock()
}

// gated is the gate's process, nil when there is none.
func (d *door) gated() *child {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gate
}

// settleAll brings every shard's gate to what the faults say. One after the other: a tenant's shards are not
// all to be without a worker at once.
func (s *supervisor) settleAll(ctx context.Context) error {
	var errs []error
	for _, d := range s.doors {
		errs = append(errs, s.settle(ctx, d))
	}
	return errors.Join(errs...)
}

// settle brings a shard's gate to what the faults say: puts one before the worker, changes it, or takes it
// away. The worker is asked to end in good order and starts again where it is to listen then; requests that
// come meanwhile are refused, which tells the router that they were not sent.
func (s *supervisor) settle(ctx context.Context, d *door) error {
	fault := s.faults.of(d.name)
	want := gateSpec{Shard: d.name, Secret: d.cell.secret, Poisoned: s.faults.poisonedIn(d.cell.plan.Cell)}
	if fault.gated() {
		want.Fault = fault
	}
	needed := want.Fault != nil || len(want.Poisoned) > 0
	d.mu.Lock()
	gate, spec := d.gate, d.spec
	d.mu.Unlock()
	switch {
	case !needed && gate == nil:
		return nil
	case !needed:
		return s.takeGate(ctx, d)
	case gate == nil:
		return s.putGate(ctx, d, want)
	case want.Fault.same(spec.Fault) && slices.Equal(want.Poisoned, spec.Poisoned):
		return nil
	}
	d.mu.Lock()
	want.Listen, want.Target = spec.Listen, spec.Target
	d.spec = want
	d.mu.Unlock()
	if err := gate.restart(ctx); err != nil {
		return err
	}
	return s.awaitGate(ctx, d)
}

// putGate moves the worker to a port of its own and starts a gate where it was.
func (s *supervisor) putGate(ctx context.Context, d *door, want gateSpec) error {
	private, err := s.free()
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.private = private
	want.Listen, want.Target = address(d.port), address(private)
	d.spec = want
	d.mu.Unlock()
	if err := d.child.restart(ctx); err != nil {
		return err
	}
	c := s.newChild(d.name+gateSuffix, func() *exec.Cmd { return s.gateCommand(d) },
		func(ctx context.Context) error { return probeGate(ctx, want.Listen) })
	// Its end is the cell's or that of the faults, and not that of the request which began it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	s.ending.Lock()
	if s.ended {
		s.ending.Unlock()
		cancel()
		return errors.New("the cell is going down")
	}
	wg.Go(func() { c.run(life) })
	d.mu.Lock()
	d.gate, d.endGate = c, sync.OnceFunc(func() { cancel(); wg.Wait() })
	d.mu.Unlock()
	s.ending.Unlock()
	return s.awaitGate(ctx, d)
}

// takeGate ends the gate and lets the worker listen itself again.
func (s *supervisor) takeGate(ctx context.Context, d *door) error {
	d.mu.Lock()
	end := d.endGate
	d.gate, d.endGate, d.private, d.spec = nil, nil, 0, gateSpec{}
	d.mu.Unlock()
	end()
	if err := d.child.restart(ctx); err != nil {
		return err
	}
	return s.awaitWorker(ctx, d)
}

// awaitGate waits until the gate listens, unless its worker is down on purpose.
func (s *supervisor) awaitGate(ctx context.Context, d *door) error {
	if f := s.faults.of(d.name); f != nil && f.How == HowKill {
		return nil
	}
	if err := s.awaitWorker(ctx, d); err != nil {
		return err
	}
	return s.awaitReady(ctx, []*child{d.gated()})
}

// awaitWorker waits until the worker answers, unless it is broken on purpose.
func (s *supervisor) awaitWorker(ctx context.Context, d *door) error {
	if f := s.faults.of(d.name); f != nil && (f.How == HowKill || f.How == HowHang) {
		return nil
	}
	return s.awaitReady(ctx, []*child{d.child})
}

func (s *supervisor) gateCommand(d *door) *exec.Cmd {
	cmd := s.command(nameGate)
	d.mu.Lock()
	text, err := json.Marshal(d.spec)
	d.mu.Unlock()
	if err != nil {
		cmd.Err = fmt.Errorf("the gate's settings: %w", err) // Start returns it
	}
	cmd.Env = append(cmd.Environ(), envGate+"="+string(text))
	return cmd
}

// endGates ends every gate, and sees to it that none begins.
func (s *supervisor) endGates() {
	s.ending.Lock()
	s.ended = true
	s.ending.Unlock()
	for _, d := range s.doors {
		d.mu.Lock()
		end := d.endGate
		d.mu.Unlock()
		if end != nil {
			end()
		}
	}
}
