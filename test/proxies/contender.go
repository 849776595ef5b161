//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// setting is what all contenders of a case stand before.
type setting struct {
	self      string   // this command
	cellwall  string   // path of the command line
	dir       string   // for files
	processor int      // on which the proxies run, negative for any
	workers   []string // addresses, one of each shard
	issuer    string
	directory string // where the directory listens
}

// shardName is the id of a shard by its number.
func shardName(i int) string { return fmt.Sprintf("s%03d", i+1) }

// contender is one way to the workers.
type contender struct {
	name    string
	version string // as it says itself; "" where there is nothing to say
	note    string // what is not the same as with the others
	absent  string // why it does not take part
	start   func(s setting) (address string, p *process, err error)
}

const (
	nameCellwall = "cellwall"
	nameReverse  = "ReverseProxy"
	nameDirect   = "no proxy"
)

func contenders() []contender {
	all := []contender{
		{name: nameCellwall, note: "`cellwall local`'s router process; subsets of 2", start: startCellwall},
		{name: nameReverse, note: "`httputil.ReverseProxy` behind the same token check; one shard a tenant, by a hash", start: startReverse},
	}
	for _, c := range []contender{
		{name: "nginx", note: "`hash … consistent` over a header; no token check", start: startNginx},
		{name: "HAProxy", note: "`hash-type consistent` over a header; no token check", start: startHAProxy},
	} {
		program := strings.ToLower(c.name)
		path := find(program, "/usr/sbin/"+program)
		if path == "" {
			c.absent = fmt.Sprintf("not installed (Debian: apt-get install %s)", program)
		} else if out, err := exec.Command(path, "-v").CombinedOutput(); err == nil {
			c.version, _, _ = strings.Cut(string(out), "\n")
		}
		all = append(all, c)
	}
	return append(all, contender{name: nameDirect, note: "the load process and the worker alone: what they can do at most", start: startDirect})
}

func startDirect(s setting) (string, *process, error) { return s.workers[0], nil, nil }

// started starts a process and waits until it listens.
func started(p *process, err error, address string) (string, *process, error) {
	if err != nil {
		return "", nil, err
	}
	if err := p.begin(); err != nil {
		return "", nil, err
	}
	if err := p.awaitListener(address); err != nil {
		p.stop()
		return "", nil, err
	}
	return address, p, nil
}

func startReverse(s setting) (string, *process, error) {
	listeners, err := listen(1)
	if err != nil {
		return "", nil, err
	}
	defer closeAll(listeners)
	p, err := prepare(nameReverse, s.processor, listeners, append([]string{s.self, roleReverse, s.issuer}, s.workers...)...)
	return started(p, err, listeners[0].Addr().String())
}

// startCellwall starts the command that `cellwall local up` starts as a cell's router, with files as it writes
// them.
func startCellwall(s setting) (string, *process, error) {
	state := filepath.Join(s.dir, "state")
	if err := writeState(state, s); err != nil {
		return "", nil, err
	}
	listeners, err := listen(2) // for tenants, for the operator
	if err != nil {
		return "", nil, err
	}
	defer closeAll(listeners)
	p, err := prepare(nameCellwall, s.processor, listeners, s.cellwall, "local", "router", "--state-dir", state)
	return started(p, err, listeners[0].Addr().String())
}

func startNginx(s setting) (string, *process, error) {
	return startConfigured(s, "nginx", func(listen string) string {
		var b strings.Builder
		fmt.Fprintf(&b, `daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  upstream shards {
    hash $http_x_tenant consistent;
`, s.dir)
		for _, worker := range s.workers {
			fmt.Fprintf(&b, "    server %s;\n", worker)
		}
		fmt.Fprintf(&b, `    keepalive 4096;
    keepalive_requests 1000000000;
  }
  server {
    listen %s;
    keepalive_requests 1000000000;
    location / {
      proxy_pass http://shards;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`, listen)
		return b.String()
	}, func(path, config string) []string {
		return []string{path, "-p", s.dir, "-e", "stderr", "-c", config}
	})
}

func startHAProxy(s setting) (string, *process, error) {
	return startConfigured(s, "haproxy", func(listen string) string {
		var b strings.Builder
		fmt.Fprintf(&b, `global
  maxconn 4096
  nbthread 1
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend tenants
  bind %s
  default_backend shards
backend shards
  balance hdr(x-tenant)
  hash-type consistent
  http-reuse always
`, listen)
		for i, worker := range s.workers {
			fmt.Fprintf(&b, "  server %s %s\n", shardName(i), worker)
		}
		return b.String()
	}, func(path, config string) []string { return []string{path, "-db", "-f", config} })
}

// startConfigured starts a program with a configuration of its own at a free address.
func startConfigured(s setting, program string, config func(listen string) string, argv func(path, config string) []string) (string, *process, error) {
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(s.dir, program+".conf")
	if err := os.WriteFile(file, []byte(config(address)), 0o600); err != nil {
		return "", nil, err
	}
	p, err := prepare(program, s.processor, nil, argv(find(program, "/usr/sbin/"+program), file)...)
	return started(p, err, address)
}

// addresses are those of listeners.
func addresses(all []net.Listener) (s []string) {
	for _, l := range all {
		s = append(s, l.Addr().String())
	}
	return s
}
