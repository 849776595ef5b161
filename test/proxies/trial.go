//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// rig is the load process, and where processes run.
type rig struct {
	self  string
	proxy int // processor of the proxies, negative for any
	rest  int // that of the load process and the worker

	load   *process
	orders *json.Encoder
	in     io.Closer
	out    *json.Decoder
}

func newRig(tokens string) (*rig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &rig{self: self, proxy: -1, rest: -1}
	if pinned() {
		r.proxy, r.rest = 0, 1
	}
	if r.load, err = prepare(roleLoad, r.rest, nil, self, roleLoad, tokens); err != nil {
		return nil, err
	}
	r.load.cmd.Stdout = nil
	in, err := r.load.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.load.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.orders, r.in, r.out = json.NewEncoder(in), in, json.NewDecoder(out)
	return r, r.load.begin()
}

func (r *rig) stop() {
	r.in.Close()
	r.load.stop()
}

// ask has the load process do one run.
func (r *rig) ask(o order) (got result, err error) {
	if err = r.orders.Encode(o); err == nil {
		err = r.out.Decode(&got)
	}
	if err != nil {
		return got, fmt.Errorf("the load process: %w: %s", err, r.load.output)
	}
	return got, nil
}

// trial is one table: all contenders before the same shards, asked by the same tenants.
type trial struct {
	options
	*rig
	dir             string
	issuer          string
	shards, tenants int
	contenders      []contender
}

// turn is what one contender did in one round.
type turn struct {
	perSecond float64
	cpu       time.Duration // of the proxy, for one request
	busy      float64       // the share of its time that the proxy had a processor for
	rest      float64       // the same of the load process and the worker together
	p50, p99  time.Duration // at the rate
}

// row is what was measured of one contender.
type row struct {
	contender
	first  turn // the first request of every tenant
	turns  []turn
	failed int
	why    string // of the first failure
}

// entrant is a contender that runs.
type entrant struct {
	row
	address string
	process *process // nil of nobody
}

func (t trial) run(ctx context.Context) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	directory, err := serveDirectory(ctx, t.shards, t.tenants)
	if err != nil {
		return nil, err
	}
	listeners, err := listen(t.shards)
	if err != nil {
		return nil, err
	}
	worker, err := prepare(roleWorker, t.rest, listeners, t.self, roleWorker, fmt.Sprint(t.shards))
	if err == nil {
		err = worker.begin()
	}
	closeAll(listeners)
	if err != nil {
		return nil, err
	}
	defer worker.stop()
	dir, err := os.MkdirTemp(t.dir, "case-")
	if err != nil {
		return nil, err
	}
	cellwall, err := filepath.Abs(t.cellwall)
	if err != nil {
		return nil, err
	}
	s := setting{t.self, cellwall, dir, t.proxy, addresses(listeners), t.issuer, directory}
	var entrants []*entrant
	for _, c := range t.contenders {
		e := &entrant{row: row{contender: c}}
		entrants = append(entrants, e)
		if c.absent != "" {
			continue
		}
		if e.address, e.process, err = c.start(s); err != nil {
			return nil, err
		}
		if e.process != nil {
			defer e.process.stop()
		}
	}
	if err := t.measure(ctx, worker, entrants); err != nil {
		return nil, err
	}
	for _, e := range entrants {
		rows = append(rows, e.row)
	}
	return rows, nil
}

// measure has every entrant's first requests, and then the rounds.
func (t trial) measure(ctx context.Context, worker *process, entrants []*entrant) error {
	slowest := 0.0
	for _, e := range entrants {
		if e.absent != "" {
			continue
		}
		first, _, err := t.ask(e, worker, order{Each: true})
		if err != nil {
			return err
		}
		e.first = first
		warm, _, err := t.ask(e, worker, order{For: t.each})
		if err != nil {
			return err
		}
		if e.name != nameDirect && (slowest == 0 || warm.perSecond < slowest) {
			slowest = warm.perSecond
		}
		if t.hold > 0 {
			fmt.Fprintf(os.Stderr, "%s: process %d, %.0f requests a second, %v each\n", e.name, e.process.cmd.Process.Pid, warm.perSecond, warm.cpu)
			if _, _, err := t.ask(e, worker, order{For: t.hold}); err != nil {
				return err
			}
		}
	}
	for round := range t.rounds {
		for i := range entrants {
			e := entrants[(round+i)%len(entrants)] // each begins a round now and then
			if e.absent != "" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d shards, %d tenants: round %d of %d, %s\n", t.shards, t.tenants, round+1, t.rounds, e.name)
			fast, _, err := t.ask(e, worker, order{For: t.each, Seed: uint64(round)})
			if err != nil {
				return err
			}
			_, slow, err := t.ask(e, worker, order{For: t.each, Rate: t.share * slowest, Seed: uint64(round)})
			if err != nil {
				return err
			}
			fast.p50, fast.p99 = slow.P50, slow.P99
			e.turns = append(e.turns, fast)
		}
	}
	return nil
}

// ask has an entrant asked, and what that took.
func (t trial) ask(e *entrant, worker *process, o order) (turn, result, error) {
	o.Address, o.Tenants, o.Conns = e.address, t.tenants, t.conns
	pids := []int{worker.cmd.Process.Pid}
	if e.process != nil {
		pids = append(pids, e.process.cmd.Process.Pid)
	}
	before, err := cpusOf(pids)
	if err != nil {
		return turn{}, result{}, err
	}
	r, err := t.rig.ask(o)
	if err != nil {
		return turn{}, r, err
	}
	after, err := cpusOf(pids)
	if err != nil {
		return turn{}, r, err
	}
	if e.failed += r.Failed; e.why == "" {
		e.why = r.Error
	}
	if r.Requests == 0 {
		return turn{}, r, errors.Join(fmt.Errorf("%s answered nothing: %s", e.name, r.Error))
	}
	did := turn{perSecond: r.perSecond(), rest: (r.CPU + after[0] - before[0]).Seconds() / r.Took.Seconds()}
	if e.process != nil {
		took := after[1] - before[1]
		did.cpu, did.busy = took/time.Duration(r.Requests), took.Seconds()/r.Took.Seconds()
	}
	return did, r, nil
}

func cpusOf(pids []int) (all []time.Duration, err error) {
	for _, pid := range pids {
		cpu, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, cpu)
	}
	return all, nil
}
