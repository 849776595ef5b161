package localcell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/issuer"
	"cellwall.dev/cellwall/internal/localcell/proc"
	"cellwall.dev/cellwall/internal/snapshot"
)

const probeLimit = 2 * time.Second // for one answer to a health check

// probes are made without keeping connections, so that a dead process is not mistaken for a live one.
var probes = &http.Client{Timeout: probeLimit, Transport: &http.Transport{DisableKeepAlives: true}}

// probe asks a URL whether its server is healthy.
func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := probes.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the health check answered %s", resp.Status)
	}
	return nil
}

// addProcesses lays the processes out.
func (s *supervisor) addProcesses() error {
	s.free = s.freePorts()
	tenants, err := s.listenerFile(nameDirectory)
	if err != nil {
		return err
	}
	store, err := s.listenerFile(nameStore)
	if err != nil {
		return err
	}
	issued, err := s.listenerFile(nameIssuer)
	if err != nil {
		return err
	}
	s.stages.base = append(s.stages.base,
		s.newChild(nameDirectory, func() *exec.Cmd { return s.command(nameDirectory, tenants) }, func(ctx context.Context) error {
			return probe(ctx, s.running.DirectoryURL+"/healthz")
		}),
		s.newChild(nameStore, func() *exec.Cmd { return s.command(nameStore, store) }, func(ctx context.Context) error {
			return probe(ctx, s.running.Store+"/healthz")
		}),
		s.newChild(nameIssuer, func() *exec.Cmd { return s.command(nameIssuer, issued) }, func(ctx context.Context) error {
			return probe(ctx, s.running.Issuer+issuer.DiscoveryPath)
		}))
	for _, m := range s.members {
		if err := s.addCell(m); err != nil {
			return err
		}
	}
	if s.layout.FrontDoor {
		public, err := s.listenerFile(nameFrontDoor)
		if err != nil {
			return err
		}
		s.stages.front = append(s.stages.front, s.newChild(nameFrontDoor, func() *exec.Cmd { return s.command(nameFrontDoor, public) },
			func(ctx context.Context) error { return probe(ctx, s.running.FrontDoor+frontDoorHealth) }))
		s.stages.keepers = append(s.stages.keepers,
			s.newChild(nameFrontKeeper, func() *exec.Cmd { return s.commandOf(snapshot.Fleet, nameKeeper) }, func(context.Context) error {
				return s.dir.frontSnapshot().fresh()
			}))
	}
	s.children = slices.Concat(s.stages.base, s.stages.workers, s.stages.keepers, s.stages.routers, s.stages.front)
	return nil
}

// addCell lays out the processes of one cell.
func (s *supervisor) addCell(m *member) error {
	name := func(process string) string { return s.layout.process(m.plan.Cell, process) }
	public, err := s.listenerFile(name(nameRouter))
	if err != nil {
		return err
	}
	admin, err := s.listenerFile(name("admin"))
	if err != nil {
		return err
	}
	for _, shard := range m.plan.Shards() {
		d := &door{cell: m, shard: shard, name: name(shard)}
		d.child = s.newChild(d.name, func() *exec.Cmd { return s.workerCommand(d) }, func(ctx context.Context) error {
			return probe(ctx, d.worker()+m.plan.HealthPath)
		})
		s.doors = append(s.doors, d)
		s.stages.workers = append(s.stages.workers, d.child)
	}
	s.stages.routers = append(s.stages.routers,
		s.newChild(name(nameRouter), func() *exec.Cmd { return s.commandOf(m.plan.Cell, nameRouter, public, admin) }, func(ctx context.Context) error {
			return probe(ctx, m.admin+"/healthz")
		}))
	s.stages.keepers = append(s.stages.keepers,
		s.newChild(name(nameKeeper), func() *exec.Cmd { return s.commandOf(m.plan.Cell, nameKeeper) }, func(context.Context) error {
			return s.dir.snapshot(routerSettings{Plan: m.plan}, s.cellFlag(m.plan.Cell)).fresh()
		}))
	return nil
}

// freePorts returns a function that gives a free port to one worker each time.
func (s *supervisor) freePorts() func() (int, error) {
	var mu sync.Mutex
	taken := map[int]bool{}
	return func() (int, error) {
		mu.Lock()
		defer mu.Unlock()
		port, err := freePort(taken)
		taken[port] = true
		return port, err
	}
}

// newChild is a process in the group of all of the supervisor's.
func (s *supervisor) newChild(name string, command func() *exec.Cmd, probe func(context.Context) error) *child {
	inGroup := func() *exec.Cmd {
		cmd := command()
		proc.Join(cmd, s.group)
		return cmd
	}
	return newChild(name, s.dir.Log(name), inGroup, probe, s.log, s.changed)
}

// listenerFile is the socket of a listener, to be passed on.
func (s *supervisor) listenerFile(name string) (*os.File, error) {
	l, ok := s.listeners[name].(*net.TCPListener)
	if !ok {
		return nil, errors.New("not a TCP listener")
	}
	file, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("pass the address of the %s on: %w", name, err)
	}
	return file, nil
}

// workerCommand starts the service as its shard's instances on AWS are started, plus what is local: the
// loopback address, the cell's store, a secret by which it knows the router among all who can connect to
// loopback, and a sample that may be poisoned.
func (s *supervisor) workerCommand(d *door) *exec.Cmd {
	version, _ := s.versions.of(d)
	d.mu.Lock()
	d.version = version
	d.mu.Unlock()
	file, err := s.versions.file(version)
	if err != nil {
		return &exec.Cmd{Path: version, Err: err} // Start returns it
	}
	cmd := exec.Command(file)
	port, err := d.choose(s.free)
	if err != nil {
		cmd.Err = err // Start returns it
		return cmd
	}
	cmd.Env = append(os.Environ(),
		"PORT="+strconv.Itoa(port), "CELLWALL_BIND=127.0.0.1", "CELLWALL_SHARD="+d.shard, "CELLWALL_CELL="+d.cell.plan.Cell,
		"CELLWALL_TABLE=", "CELLWALL_STORE_URL="+s.running.Store, "CELLWALL_STORE_TOKEN="+s.store.Workers,
		"CELLWALL_DISPATCH_URL="+s.running.Store+"/v1/dispatch/"+d.cell.plan.Cell,
		"CELLWALL_ROUTER_SECRET="+d.cell.secret, "CELLWALL_SAMPLE_POISON=1")
	return cmd
}
