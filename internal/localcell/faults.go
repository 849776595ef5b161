package localcell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How a process fails on purpose.
const (
	HowKill     = "kill"     // SIGKILL, and no restart
	HowHang     = "hang"     // SIGSTOP
	HowSlow     = "slow"     // Factor times as long
	HowErrors   = "errors"   // each request is answered with Status, and the worker is not asked
	HowThrottle = "throttle" // each request is answered as by a slice whose concurrency is used up
)

// Bounds and defaults of a fault's numbers.
const (
	MinFactor, MaxFactor, DefaultFactor = 1.1, 10_000, 10
	DefaultStatus                       = http.StatusInternalServerError
)

// Fault is what is wrong with a process on purpose, until it is healed.
type Fault struct {
	How    string    `json:"how"`
	Factor float64   `json:"factor,omitempty"` // of HowSlow: times the worker's own time
	Status int       `json:"status,omitempty"` // of HowErrors: 500 to 599
	Since  time.Time `json:"since"`            // UTC
}

// String is the fault in words.
func (f Fault) String() string {
	switch f.How {
	case HowSlow:
		return fmt.Sprintf("slow (%g times)", f.Factor)
	case HowErrors:
		return fmt.Sprintf("errors (%d)", f.Status)
	}
	return f.How
}

// same says whether two faults do the same.
func (f *Fault) same(g *Fault) bool {
	if f == nil || g == nil {
		return f == g
	}
	return f.How == g.How && f.Factor == g.Factor && f.Status == g.Status
}

// gated says whether the fault needs a gate before the worker.
func (f *Fault) gated() bool {
	return f != nil && (f.How == HowSlow || f.How == HowErrors || f.How == HowThrottle)
}

// checked fills the numbers in that are not given and refuses those that make no sense; worker says whether
// the process is a shard's.
func (f Fault) checked(worker bool) (Fault, error) {
	hows := []string{HowKill, HowHang}
	if worker {
		hows = append(hows, HowSlow, HowErrors, HowThrottle)
	}
	switch {
	case !slices.Contains(hows, f.How):
		return f, fmt.Errorf("it fails by %s, not by %q", strings.Join(hows, ", "), f.How)
	case f.How == HowSlow && f.Factor == 0:
		f.Factor = DefaultFactor
	case f.How == HowErrors && f.Status == 0:
		f.Status = DefaultStatus
	}
	switch {
	case f.How == HowSlow && !(f.Factor >= MinFactor && f.Factor <= MaxFactor):
		return f, fmt.Errorf("%g times as slow: want %g to %g", f.Factor, MinFactor, float64(MaxFactor))
	case f.How == HowErrors && (f.Status < 500 || f.Status > 599):
		return f, fmt.Errorf("status %d: an error of the shard is 500 to 599", f.Status)
	case f.How != HowSlow && f.Factor != 0, f.How != HowErrors && f.Status != 0:
		return f, fmt.Errorf("only %s has a factor, and only %s a status", HowSlow, HowErrors)
	}
	f.Since = time.Now().UTC()
	return f, nil
}

// faults are what is broken on purpose in a running cell.
type faults struct {
	mu       sync.Mutex // one change at a time
	byName   map[string]*Fault
	poisoned map[string]string // tenant → the cell whose workers it kills

	read sync.Mutex // of the two maps, for who only looks

	refusing map[string]func() // ends the refusing at the address of a process that is down
}

// of is the fault of a process, nil when there is none.
func (f *faults) of(name string) *Fault {
	f.read.Lock()
	defer f.read.Unlock()
	return f.byName[name]
}

func (f *faults) set(name string, fault *Fault) {
	f.read.Lock()
	defer f.read.Unlock()
	if fault == nil {
		delete(f.byName, name)
		return
	}
	f.byName[name] = fault
}

// poisonedIn are the tenants that kill the cell's workers.
func (f *faults) poisonedIn(cell string) (tenants []string) {
	f.read.Lock()
	defer f.read.Unlock()
	for t, c := range f.poisoned {
		if c == cell {
			tenants = append(tenants, t)
		}
	}
	slices.Sort(tenants)
	return tenants
}

// broken are the names of the processes with a fault, and the tenants that are poisonous.
func (f *faults) broken() (names, tenants []string) {
	f.read.Lock()
	defer f.read.Unlock()
	for name := range f.byName {
		names = append(names, name)
	}
	for tenant := range f.poisoned {
		tenants = append(tenants, tenant)
	}
	slices.Sort(names)
	slices.Sort(tenants)
	return names, tenants
}

var errNoProcess = errors.New("no such process")

// faulty is the process that a fault is for: a shard, the directory, the store, the issuer or a keeper.
func (s *supervisor) faulty(name string) (*child, *door, error) {
	if d := s.door(name); d != nil {
		return d.child, d, nil
	}
	for _, c := range s.children {
		if c.name == name && s.mayFail(name) {
			return c, nil, nil
		}
	}
	return nil, nil, fmt.Errorf("%w %q that fails on purpose: want one of %s", errNoProcess, name, strings.Join(s.failing(), ", "))
}

// mayFail says whether a process other than a shard's fails on purpose.
func (s *supervisor) mayFail(name string) bool {
	return name == nameDirectory || name == nameStore || name == nameIssuer || name == nameKeeper || strings.HasSuffix(name, "/"+nameKeeper)
}

// failing are the names of all processes that fail on purpose.
func (s *supervisor) failing() (names []string) {
	for _, c := range s.children {
		if s.door(c.name) != nil || s.mayFail(c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// fail breaks a process, and returns once it is broken. A fault that it has is replaced; the same one is
// left as it is, and changed is false.
func (s *supervisor) fail(ctx context.Context, name string, f Fault) (changed bool, err error) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	c, d, err := s.faulty(name)
	if err != nil {
		return false, err
	}
	if f, err = f.checked(d != nil); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	had := s.faults.of(name)
	if f.same(had) {
		return false, nil
	}
	s.log.Info("fail", "process", name, "how", f.String())
	if err := s.undo(c, had); err != nil {
		return false, err
	}
	s.faults.set(name, &f)
	defer s.changed()
	switch f.How {
	case HowKill:
		_, err = c.down(ctx)
		s.refuse(name)
		return true, err
	case HowHang:
		if d != nil {
			if err := s.settle(ctx, d); err != nil {
				return true, err
			}
		}
		if err := c.freeze(); err != nil {
			return true, err
		}
		return true, s.awaitReady(ctx, []*child{c}) // it is stopped at that moment
	}
	return true, s.settle(ctx, d)
}

// refuse has connections to a process that is down end at once, where the supervisor holds its socket: nobody
// would take them, nor refuse them.
func (s *supervisor) refuse(name string) {
	l, ok := s.listeners[name].(*net.TCPListener)
	if !ok {
		return // it is the process's own socket, and gone
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			_ = c.SetLinger(0) // a reset, as of a machine without the process
			_ = c.Close()
		}
	}()
	s.faults.refusing[name] = func() {
		_ = l.SetDeadline(time.Now())
		<-ended
		_ = l.SetDeadline(time.Time{})
	}
}

func (s *supervisor) acceptAgain(name string) {
	if end := s.faults.refusing[name]; end != nil {
		end()
		delete(s.faults.refusing, name)
	}
}

// undo ends what kill and hang did to a process itself.
func (s *supervisor) undo(c *child, f *Fault) error {
	if f == nil {
		return nil
	}
	switch f.How {
	case HowKill:
		s.acceptAgain(c.name)
		c.up()
	case HowHang:
		return c.thaw()
	}
	return nil
}

// heal ends the fault of a process, or of all when name is "", with the poison of all tenants, and returns the
// names of the processes and tenants that were broken, once they are whole.
func (s *supervisor) heal(ctx context.Context, name string) (healed, tenants []string, err error) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	names := []string{name}
	if name == "" {
		if names, tenants = s.faults.broken(); len(tenants) > 0 {
			s.antidote(tenants)
		}
	} else if _, _, err := s.faulty(name); err != nil {
		return nil, nil, err
	}
	defer s.changed()
	var errs []error
	for _, name := range names {
		f := s.faults.of(name)
		if f == nil {
			continue
		}
		c, _, err := s.faulty(name)
		if err == nil {
			s.log.Info("heal", "process", name)
			err = s.undo(c, f)
		}
		s.faults.set(name, nil)
		healed, errs = append(healed, name), append(errs, err)
	}
	errs = append(errs, s.settleAll(ctx))
	for _, name := range healed {
		c, _, err := s.faulty(name)
		if err == nil {
			err = s.awaitReady(ctx, []*child{c})
		}
		errs = append(errs, err)
	}
	return healed, tenants, errors.Join(errs...)
}

// poison has a tenant's requests kill the workers of a cell from now on; heal says of which tenants that ends.
func (s *supervisor) poison(ctx context.Context, cell, tenant string, heal bool) (changed bool, err error) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	_, tenants := s.faults.broken()
	if slices.Contains(tenants, tenant) != heal {
		return false, nil
	}
	defer s.changed()
	if heal {
		s.antidote([]string{tenant})
		return true, s.settleAll(ctx)
	}
	if !slices.Contains(s.layout.Names(), cell) {
		return false, fmt.Errorf("%w: the tenant is of cell %q, which does not run here", errNoProcess, cell)
	}
	s.log.Info("poison", "tenant", tenant, "cell", cell)
	s.faults.read.Lock()
	s.faults.poisoned[tenant] = cell
	s.faults.read.Unlock()
	return true, s.settleAll(ctx)
}

// antidote forgets that tenants are poisonous.
func (s *supervisor) antidote(tenants []string) {
	s.faults.read.Lock()
	defer s.faults.read.Unlock()
	for _, t := range tenants {
		delete(s.faults.poisoned, t)
	}
}

// ShardName is the name of the process of the shard that an operator means by CELL/SHARD or SHARD, where SHARD
// is an id, or the number in it: of names, those of the processes that there are, exactly one must fit.
func ShardName(names []string, word string) (string, error) {
	cell, shard, in := strings.Cut(word, "/")
	if !in {
		cell, shard = "", word
	}
	var fits []string
	for _, name := range names {
		c, id, many := strings.Cut(name, "/")
		if !many {
			c, id = "", name
		}
		if (cell == "" || c == "" || c == cell) && (id == shard || sameNumber(id, shard)) {
			fits = append(fits, name)
		}
	}
	switch len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		return "", fmt.Errorf("no such shard %q here: want one of %s", word, strings.Join(names, ", "))
	}
	return "", fmt.Errorf("%q may be any of %s: name the cell, too", word, strings.Join(fits, ", "))
}

// sameNumber says whether number, in digits, is the one that an id ends with.
func sameNumber(id, number string) bool {
	digits := strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz-")
	n, err := strconv.ParseUint(number, 10, 32)
	m, idErr := strconv.ParseUint(digits, 10, 32)
	return err == nil && idErr == nil && n == m
}
