//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// stopGrace is the time between asking a process to end and killing it.
const stopGrace = 3 * time.Second

// process is one that this command started. It ends when this command does, however that ends.
type process struct {
	name   string
	cmd    *exec.Cmd
	output *tail
	exited chan struct{}
}

// prepare makes a command that runs on one processor, or on all when that is negative, and inherits listeners.
func prepare(name string, processor int, listeners []net.Listener, argv ...string) (*process, error) {
	if processor >= 0 {
		argv = append([]string{"taskset", "-c", strconv.Itoa(processor)}, argv...)
	}
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), output: &tail{}, exited: make(chan struct{})}
	for _, l := range listeners {
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return nil, err
		}
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return p, nil
}

// begin starts it.
func (p *process) begin() error {
	defer func() {
		for _, f := range p.cmd.ExtraFiles { // the process has its own
			f.Close()
		}
	}()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its output says why
		close(p.exited)
	}()
	return nil
}

// awaitListener waits until somebody listens at an address.
func (p *process) awaitListener(address string) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended at once: %s", p.name, p.output)
		default:
		}
	}
	return fmt.Errorf("%s does not listen at %s: %s", p.name, address, p.output)
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.exited:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// tail keeps the end of what a process prints.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4 << 10
	t.buf = append(t.buf, p...)
	if len(t.buf) > most {
		t.buf = slices.Clone(t.buf[len(t.buf)-most:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

func listen(n int) (all []net.Listener, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func closeAll(all []net.Listener) {
	for _, l := range all {
		l.Close()
	}
}

// freeAddress is one at which nobody listens now.
func freeAddress() (string, error) {
	all, err := listen(1)
	if err != nil {
		return "", err
	}
	defer closeAll(all)
	return all[0].Addr().String(), nil
}

// find is the path of a command, "" where it is not installed.
func find(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		} else if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			return ""
		}
	}
	return ""
}
