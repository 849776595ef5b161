//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start is one start of a function.
type start struct {
	ready    time.Duration // from the start of the process until it asks for its first invocation
	cpu      time.Duration // that the process took until then
	answered time.Duration // until its first invocation is answered
	output   string        // what it printed
}

// limit is the time for one start.
const limit = 20 * time.Second

// launch starts a function behind a runtime API of Lambda ("Using the Lambda runtime API", AWS Lambda developer
// guide), gives it one event, and ends it when that is answered.
func launch(ctx context.Context, binary string, variables []string, event []byte) (s start, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	var output bytes.Buffer
	cmd := exec.Command(binary)
	cmd.Env = append([]string{"AWS_LAMBDA_RUNTIME_API=" + l.Addr().String(), "_HANDLER=bootstrap"}, variables...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	began := time.Time{}
	running, asked, answered := make(chan struct{}), make(chan error, 1), make(chan struct{}, 1)
	first := true
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		if !first {
			<-r.Context().Done()
			return
		}
		first = false
		s.ready = time.Since(began)
		<-running
		var err error
		s.cpu, err = cpuOf(cmd.Process.Pid)
		asked <- err
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:111111111111:function:f")
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(limit).UnixMilli(), 10))
		began = began.Add(time.Since(began) - s.ready) // what was measured here is not the function's
		w.Write(event)
	})
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/1/{how}", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the answer is whole then
		s.answered = time.Since(began)
		w.WriteHeader(http.StatusAccepted)
		answered <- struct{}{}
	})
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	defer server.Close()

	began = time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	close(running)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(exited)
	}()
	select {
	case <-answered:
		err = <-asked
	case <-exited:
		return s, fmt.Errorf("%s ended before it answered: %s", filepath.Base(filepath.Dir(binary)), output.String())
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = cmd.Process.Kill() // it may have ended
	<-exited
	s.output = output.String()
	return s, err
}

// cpuOf is the processor time of all threads of a process so far (proc_pid_schedstat, in nanoseconds).
func cpuOf(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, errors.New("the kernel keeps no schedstat")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		on, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(on, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, nil
}
