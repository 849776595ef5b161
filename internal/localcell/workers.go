package localcell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/localcell/proc"
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

// worker is the address of one shard's process. It stays the same from the moment that the router knows
// it; until then a port that somebody else took is given up for another.
type worker struct {
	mu    sync.Mutex
	port  int
	fixed bool
}

func (w *worker) url() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port))
}

// choose returns the worker's port, a new one unless it is fixed.
func (w *worker) choose(free func() (int, error)) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fixed {
		return w.port, nil
	}
	port, err := free()
	if err == nil {
		w.port = port
	}
	return port, err
}

func (w *worker) fix() {
	w.mu.Lock()
	w.fixed = true
	w.mu.Unlock()
}

// addProcesses lays out the processes of the cell.
func (s *supervisor) addProcesses() error {
	store, err := s.listenerFile(nameStore)
	if err != nil {
		return err
	}
	public, err := s.listenerFile(nameRouter)
	if err != nil {
		return err
	}
	admin, err := s.listenerFile("admin")
	if err != nil {
		return err
	}
	s.add(nameStore, func() *exec.Cmd { return s.command(nameStore, store) }, func(ctx context.Context) error {
		return probe(ctx, s.running.Store+"/healthz")
	})

	var mu sync.Mutex
	taken := map[int]bool{}
	free := func() (int, error) {
		mu.Lock()
		defer mu.Unlock()
		port, err := freePort(taken)
		taken[port] = true
		return port, err
	}
	s.workers = map[string]*worker{}
	for _, shard := range s.plan.Shards() {
		w := &worker{}
		s.workers[shard] = w
		s.add(shard, func() *exec.Cmd { return s.workerCommand(shard, w, free) }, func(ctx context.Context) error {
			return probe(ctx, w.url()+s.plan.HealthPath)
		})
	}

	s.add(nameRouter, func() *exec.Cmd { return s.command(nameRouter, public, admin) }, func(ctx context.Context) error {
		return probe(ctx, s.running.Admin+"/healthz")
	})
	return nil
}

func (s *supervisor) add(name string, command func() *exec.Cmd, probe func(context.Context) error) {
	inGroup := func() *exec.Cmd {
		cmd := command()
		proc.Join(cmd, s.group)
		return cmd
	}
	s.children = append(s.children, newChild(name, s.dir.Log(name), inGroup, probe, s.log, s.changed))
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
func (s *supervisor) workerCommand(shard string, w *worker, free func() (int, error)) *exec.Cmd {
	cmd := exec.Command(s.plan.Worker)
	port, err := w.choose(free)
	if err != nil {
		cmd.Err = err // Start returns it
		return cmd
	}
	cmd.Env = append(os.Environ(),
		"PORT="+strconv.Itoa(port), "CELLWALL_BIND=127.0.0.1", "CELLWALL_SHARD="+shard, "CELLWALL_CELL="+s.plan.Cell,
		"CELLWALL_TABLE=", "CELLWALL_STORE_URL="+s.running.Store, "CELLWALL_STORE_TOKEN="+s.store.Workers,
		"CELLWALL_ROUTER_SECRET="+s.routerSecret, "CELLWALL_SAMPLE_POISON=1")
	return cmd
}
