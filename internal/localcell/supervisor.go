package localcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/issuer"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

const (
	startLimit     = 30 * time.Second // for all processes to get ready
	startDeaths    = 4                // quick deaths of one process, after which the cell does not start
	nameGuard      = "guard"
	nameSupervisor = "supervisor"
	nameStore      = "store"
	nameRouter     = "router"
	inheritReady   = firstInherited     // pipe on which the supervisor says how its start went
	inheritLock    = firstInherited + 1 // the state directory's lock
)

// supervisor keeps the processes of one cell running.
type supervisor struct {
	dir     Dir
	self    []string // command line that runs this program's hidden local commands
	plan    Plan
	log     *slog.Logger
	running Running
	store   storeSecrets
	// routerSecret is what the router shows the workers.
	routerSecret string
	listeners    map[string]net.Listener // by process, and for the supervisor itself
	children     []*child                // store, workers, router, in the order of their start
	workers      map[string]*worker      // by shard
	group        int                     // process group of all children
	ends         []func()                // of the stages that run, in the order of their start
	changes      chan struct{}           // has room for one
	stop         func(*failure)          // ends the cell; nil when that is what the operator wants
}

// failure is why a cell had to end that nobody asked to end.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }

// Supervise is the supervisor process. self is the command line that runs the hidden commands of
// `cellwall local`. It says on an inherited pipe whether the cell came up, and returns when ctx has ended
// or the operator stopped the cell, and all its processes have ended.
func Supervise(ctx context.Context, d Dir, self []string) error {
	report := proc.Inherited(inheritReady, "start report")
	lock := proc.Inherited(inheritLock, "lock")
	if report == nil || lock == nil {
		return proc.ErrUnsupported
	}
	if _, err := lock.Stat(); err != nil {
		return errors.New("the supervisor was not handed the state directory's lock; `cellwall local up` starts it")
	}
	defer lock.Close() // not before the last process has ended
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := func(f *failure) {
		if f == nil {
			cancel(nil)
			return
		}
		cancel(f)
	}
	s := &supervisor{
		dir: d, self: self, stop: stop, changes: make(chan struct{}, 1),
		log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	err := s.run(ctx, report)
	if err != nil {
		s.log.Error("the cell is down", "why", err)
	}
	return err
}

// startReport is the one line that the supervisor writes to the process that started it.
type startReport struct {
	Error string `json:"error,omitempty"`
}

func (s *supervisor) run(ctx context.Context, report io.WriteCloser) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	reported := false
	say := func(r startReport) {
		reported = true
		// Nobody may be listening any more; the log has it, too.
		_ = json.NewEncoder(report).Encode(r)
		_ = report.Close()
	}
	var own sync.WaitGroup // the servers and the guard's watcher
	defer func() {
		cancel()
		own.Wait()
		err = errors.Join(err, s.dir.remove(fileRunning))
		if !reported && err != nil {
			say(startReport{err.Error()})
		}
	}()
	if err := s.prepare(); err != nil {
		return err
	}
	i, err := s.issuer()
	if err != nil {
		return err
	}
	for name, handler := range map[string]http.Handler{"issuer": i.Public(), "control": s.control(i)} {
		own.Go(func() {
			if err := loopback.Serve(ctx, s.listeners[name], handler); err != nil {
				s.stop(&failure{err})
			}
		})
	}
	endGuard, err := s.startGuard(ctx, &own)
	if err != nil {
		return err
	}
	defer endGuard() // last, for whatever the processes left behind
	defer s.endStages()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.writeRunning(); err != nil {
		return err
	}
	say(startReport{})
	for {
		select {
		case <-s.changes:
			if err := s.writeRunning(); err != nil {
				return err
			}
		case <-ctx.Done():
			if f, ok := context.Cause(ctx).(*failure); ok {
				return f.err
			}
			return nil
		}
	}
}

// prepare reads the plan, opens every address and hands the secrets out in files.
func (s *supervisor) prepare() error {
	if err := s.dir.readJSON(filePlan, &s.plan); err != nil {
		return fmt.Errorf("the supervisor's plan: %w", err)
	}
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return err
	}
	s.listeners = map[string]net.Listener{}
	url := map[string]string{}
	for _, name := range []string{nameStore, nameRouter, "admin", "issuer", "control"} {
		l, err := loopback.Listen()
		if err != nil {
			return fmt.Errorf("address of the %s: %w", name, err)
		}
		s.listeners[name], url[name] = l, "http://"+l.Addr().String()
	}
	s.running = Running{
		Cell: s.plan.Cell, Started: time.Now().UTC(), Supervisor: self, Secret: loopback.NewSecret(),
		Router: url[nameRouter], Admin: url["admin"], Issuer: url["issuer"], Control: url["control"], Store: url[nameStore],
	}
	s.store = storeSecrets{Workers: loopback.NewSecret(), Router: loopback.NewSecret(), Operator: s.running.Secret}
	s.routerSecret = loopback.NewSecret()
	if err := s.dir.writeJSON(fileStore, s.store); err != nil {
		return err
	}
	return s.addProcesses()
}

// start starts the processes in stages. The router comes when every worker has its final address.
func (s *supervisor) start(ctx context.Context) error {
	store, workers, router := s.children[:1], s.children[1:len(s.children)-1], s.children[len(s.children)-1:]
	s.begin(ctx, store)
	s.begin(ctx, workers)
	if err := s.awaitReady(ctx, append(slices.Clone(store), workers...)); err != nil {
		return err
	}
	if err := s.writeRouterSettings(); err != nil {
		return err
	}
	s.begin(ctx, router)
	return s.awaitReady(ctx, router)
}

// begin runs a stage. It is no child of ctx: when ctx ends, the stages end one after the other.
func (s *supervisor) begin(ctx context.Context, stage []*child) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for _, c := range stage {
		wg.Go(func() { c.run(life) })
	}
	s.ends = append(s.ends, func() { cancel(); wg.Wait() })
}

// endStages ends the stages in the reverse order, so that none loses what it needs.
func (s *supervisor) endStages() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

func (s *supervisor) issuer() (*issuer.Issuer, error) {
	text, err := s.dir.read(fileIssuerKey)
	if err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	key, err := issuer.ParseKey(text)
	if err != nil {
		return nil, err
	}
	return issuer.New(issuer.Settings{URL: s.running.Issuer, Audience: s.plan.Audience, Claim: s.plan.Claim}, key)
}

// startGuard starts the leader of the cell's process group. Without it nothing would end the others when
// the supervisor dies, so its own death ends the cell.
func (s *supervisor) startGuard(ctx context.Context, own *sync.WaitGroup) (end func(), err error) {
	cmd := s.command(nameGuard)
	proc.Join(cmd, 0)
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if err := startLogged(cmd, s.dir.Log(nameGuard)); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	s.group = cmd.Process.Pid
	// Not waited for yet, so the pid is still its own.
	if s.running.Guard, err = proc.Of(s.group); err != nil {
		s.log.Error("the guard is gone already", "why", err)
	}
	own.Go(func() {
		err := cmd.Wait()
		if ctx.Err() == nil {
			s.stop(&failure{fmt.Errorf("the guard of the cell's processes ended (%v); without it they could outlive the cell", err)})
		}
	})
	return func() { _ = lifeline.Close() }, nil // an error means that the guard is gone already
}

// awaitReady waits until each of the processes answers.
func (s *supervisor) awaitReady(ctx context.Context, processes []*child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not every process was ready within %v", startLimit))
	defer cancel()
	waiting := slices.Clone(processes)
	for {
		var last error
		waiting = slices.DeleteFunc(waiting, func(c *child) bool {
			ready, deaths, err := c.progress()
			if deaths >= startDeaths {
				last = fmt.Errorf("%s does not start: %w; %s", c.name, err, s.dir.logEnd(c.name))
			}
			return ready
		})
		switch {
		case last != nil:
			return last
		case len(waiting) == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			_, _, err := waiting[0].progress()
			return fmt.Errorf("%w; %s: %v; %s", context.Cause(ctx), waiting[0].name, err, s.dir.logEnd(waiting[0].name))
		case <-time.After(probeEvery):
		}
	}
}

// command is a hidden command of this program.
func (s *supervisor) command(name string, files ...*os.File) *exec.Cmd {
	args := append(slices.Clone(s.self[1:]), name, "--state-dir", s.dir.String())
	cmd := exec.Command(s.self[0], args...)
	cmd.ExtraFiles = files
	return cmd
}

func (s *supervisor) changed() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

func (s *supervisor) writeRunning() error {
	r := s.running
	r.Processes = s.status()
	return s.dir.writeJSON(fileRunning, r)
}

// status is that of every process, in the order of their start.
func (s *supervisor) status() []ProcessStatus {
	var all []ProcessStatus
	for _, c := range s.children {
		status := c.status()
		if w, ok := s.workers[c.name]; ok {
			status.Address = w.url()
		}
		all = append(all, status)
	}
	return all
}
