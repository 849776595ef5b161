package localcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/localcell/proc"
)

const (
	startLimit     = 30 * time.Second // for all processes to get ready
	startDeaths    = 4                // quick deaths of one process, after which the cell does not start
	nameGuard      = "guard"
	nameSupervisor = "supervisor"
	nameDirectory  = "directory"
	nameStore      = "store"
	nameIssuer     = "issuer"
	nameKeeper     = "keeper"
	nameRouter     = "router"
	nameFrontDoor  = "frontdoor"
	nameGate       = "gate"
	inheritReady   = firstInherited     // pipe on which the supervisor says how its start went
	inheritLock    = firstInherited + 1 // the state directory's lock
)

// supervisor keeps the processes of its cells running.
type supervisor struct {
	dir       Dir
	self      []string // command line that runs this program's hidden local commands
	layout    Layout
	log       *slog.Logger
	running   Running
	store     storeSecrets
	listeners map[string]net.Listener // by process, and for the supervisor itself
	members   []*member
	doors     []*door  // of all shards
	stages    stages   // the processes, in the order of their start
	children  []*child // all of them, but for gates
	free      func() (int, error)
	faults    faults
	versions  *versions
	signs     *signs
	life      context.Context // ends when the cell is to end; of what goes on without whoever asked for it
	deploys   sync.WaitGroup
	claims    sync.Mutex    // while a deployment takes its shards
	group     int           // process group of all children
	ends      []func()      // of the stages that run, in the order of their start
	changes   chan struct{} // has room for one
	stop      func(*failure)

	ending sync.Mutex
	ended  bool // no gate and no deployment begins any more
}

// member is one of the supervisor's cells.
type member struct {
	plan          Plan
	secret        string // that its router shows its workers
	router, admin string // addresses
}

// stages are the processes that start together.
type stages struct{ base, workers, keepers, routers, front []*child }

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
		faults: faults{byName: map[string]*Fault{}, poisoned: map[string]string{}, refusing: map[string]func(){}},
		log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
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
	s.life = ctx
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
	i, err := s.dir.issuer(s.running.Issuer, s.layout.Cells[0])
	if err != nil {
		return err
	}
	own.Go(func() {
		if err := loopback.Serve(ctx, s.listeners["control"], s.control(i)); err != nil {
			s.stop(&failure{err})
		}
	})
	endGuard, err := s.startGuard(ctx, &own)
	if err != nil {
		return err
	}
	defer endGuard() // last, for whatever the processes left behind
	defer s.endStages()
	defer s.deploys.Wait()
	defer s.endGates()
	defer cancel()
	if err := s.start(ctx); err != nil {
		return err
	}
	if s.signs, err = s.rememberedSigns(time.Now()); err != nil {
		return err
	}
	watch := s.startWatch(ctx)
	defer watch()
	pumps, err := s.startPumps(ctx)
	if err != nil {
		return err
	}
	defer pumps()
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
	var err error
	if s.layout, err = s.dir.readLayout(); err != nil {
		return fmt.Errorf("the supervisor's plan: %w", err)
	}
	if s.versions, err = s.dir.versions(); err != nil {
		return fmt.Errorf("what was deployed: %w", err)
	}
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return err
	}
	s.listeners = map[string]net.Listener{}
	tenants, store := s.listen(nameDirectory, &err), s.listen(nameStore, &err)
	issued, control := s.listen(nameIssuer, &err), s.listen("control", &err)
	for _, p := range s.layout.Cells {
		s.members = append(s.members, &member{
			plan: p, secret: loopback.NewSecret(),
			router: s.listen(s.layout.process(p.Cell, nameRouter), &err), admin: s.listen(s.layout.process(p.Cell, "admin"), &err),
		})
	}
	s.running = Running{
		Cell: s.layout.Cells[0].Cell, Started: time.Now().UTC(), Supervisor: self, Secret: loopback.NewSecret(),
		Router: s.members[0].router, Admin: s.members[0].admin, Issuer: issued, Control: control, DirectoryURL: tenants, Store: store,
	}
	if s.layout.FrontDoor {
		s.running.FrontDoor = s.listen(nameFrontDoor, &err)
		s.running.Router = s.running.FrontDoor
		for _, m := range s.members {
			s.running.Cells = append(s.running.Cells, RunningCell{m.plan.Cell, m.router, m.admin})
		}
	}
	if err != nil {
		return err
	}
	s.store = storeSecrets{Workers: loopback.NewSecret(), Router: loopback.NewSecret(), Operator: s.running.Secret}
	if err := s.dir.writeJSON(fileStore, s.store); err != nil {
		return err
	}
	return s.addProcesses()
}

// listen opens an address and keeps it under a name. Once *err is set it opens no more.
func (s *supervisor) listen(name string, err *error) (url string) {
	if *err != nil {
		return ""
	}
	l, failed := loopback.Listen()
	if failed != nil {
		*err = fmt.Errorf("address of the %s: %w", name, failed)
		return ""
	}
	s.listeners[name] = l
	return "http://" + l.Addr().String()
}

// start starts the processes in stages. Routers come when every worker has its final address and each cell
// its snapshot.
func (s *supervisor) start(ctx context.Context) error {
	s.begin(ctx, s.stages.base)
	s.begin(ctx, s.stages.workers)
	needed := slices.Clone(s.stages.base)
	var deployed []*door
	for _, d := range s.doors {
		if _, was := s.versions.of(d); was {
			deployed = append(deployed, d)
		} else {
			needed = append(needed, d.child)
		}
	}
	if err := s.awaitReady(ctx, needed); err != nil {
		return err
	}
	if err := s.awaitDeployed(ctx, deployed); err != nil {
		return err
	}
	frontSecret := loopback.NewSecret()
	if err := s.writeRouterSettings(frontSecret); err != nil {
		return err
	}
	s.begin(ctx, s.stages.keepers)
	if err := s.awaitReady(ctx, s.stages.keepers); err != nil {
		return err
	}
	s.begin(ctx, s.stages.routers)
	if err := s.awaitReady(ctx, s.stages.routers); err != nil {
		return err
	}
	s.begin(ctx, s.stages.front)
	return s.awaitReady(ctx, s.stages.front)
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
			if !ready && deaths >= startDeaths {
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
	return s.commandOf("", name, files...)
}

// commandOf is a hidden command that is of one of several cells.
func (s *supervisor) commandOf(cell, name string, files ...*os.File) *exec.Cmd {
	args := append(slices.Clone(s.self[1:]), name, "--state-dir", s.dir.String())
	if of := s.cellFlag(cell); of != "" {
		args = append(args, "--of", of)
	}
	cmd := exec.Command(s.self[0], args...)
	cmd.ExtraFiles = files
	return cmd
}

// cellFlag is how a cell's processes are told which cell they are of: by its name where there are several.
func (s *supervisor) cellFlag(cell string) string {
	if s.layout.FrontDoor {
		return cell
	}
	return ""
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

// status is that of every process, in the order of their start, each gate behind its worker.
func (s *supervisor) status() []ProcessStatus {
	var all []ProcessStatus
	for _, c := range s.children {
		status := c.status()
		status.Fault = s.faults.of(c.name)
		d := s.door(c.name)
		if d != nil {
			status.Address = d.url()
			status.Version, status.Deployment = d.chosen(), ""
			if problem, _ := d.deployment(); d.runs() == "" {
				status.Deployment = problem
			}
		}
		all = append(all, status)
		if d == nil {
			continue
		}
		if gate := d.gated(); gate != nil {
			status := gate.status()
			status.Poisoned = s.faults.poisonedIn(d.cell.plan.Cell)
			all = append(all, status)
		}
	}
	return all
}

// door is that of the shard whose process has the name, nil when it has none.
func (s *supervisor) door(name string) *door {
	i := slices.IndexFunc(s.doors, func(d *door) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	return s.doors[i]
}
