//go:build linux

// Command proxies measures cellwall's local router beside other proxies before the same worker, in one run on one
// machine: a bare httputil.ReverseProxy with the same token check, nginx and HAProxy. It prints Markdown.
//
// On a machine with two processors or more the proxy that is measured has one for itself, and the worker and the
// load process share another, so that the proxy is what is measured as long as its processor is the busy one; the
// tables say how busy each was. Contenders take turns within each round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options is what the flags say.
type options struct {
	cellwall string
	shards   []int
	tenants  []int
	rounds   int
	each     time.Duration
	conns    int
	share    float64
	only     string
	hold     time.Duration
}

// The roles that this command has as another process.
const (
	roleWorker  = "worker"
	roleLoad    = "load"
	roleReverse = "reverse"
)

func main() {
	if err := role(os.Args[1:]); !errors.Is(err, errNoRole) {
		end(err)
		return
	}
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	end(run(ctx, os.Stdout, o))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

var errNoRole = errors.New("no role")

func role(args []string) error {
	if len(args) < 2 {
		return errNoRole
	}
	switch args[0] {
	case roleWorker:
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return work(n)
	case roleLoad:
		return load(args[1], os.Stdin, os.Stdout)
	case roleReverse:
		return reverse(args[1], args[2:])
	}
	return errNoRole
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var shards, tenants string
	f := flag.NewFlagSet("proxies", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.cellwall, "cellwall", "bin/cellwall", "the command line whose router is measured")
	f.StringVar(&shards, "shards", "16,256", "numbers of shards")
	f.StringVar(&tenants, "tenants", "1,100000", "numbers of tenants")
	f.IntVar(&o.rounds, "rounds", 7, "in which each contender has its turn")
	f.DurationVar(&o.each, "each", 3*time.Second, "for how long each is asked in a round, once as fast as it answers and once at a rate")
	f.IntVar(&o.conns, "conns", 64, "connections of the load process")
	f.Float64Var(&o.share, "share", 0.5, "the rate, as a share of what the slowest contender can do")
	f.StringVar(&o.only, "only", "", "contenders to measure, by name, separated by commas; all by default")
	f.DurationVar(&o.hold, "hold", 0, "keep asking as fast as it answers the contender that -only names, for a profiler, and print no table")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	var err error
	if o.shards, err = counts(shards); err == nil {
		o.tenants, err = counts(tenants)
	}
	if err == nil && (f.NArg() > 0 || o.rounds < 1 || o.each <= 0 || o.conns < 1 || o.share <= 0 || o.share >= 1) {
		err = errors.New("want one round or more, some time, one connection or more, a share between 0 and 1, and no arguments")
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v: see -help\n", err)
	}
	return o, err
}

func counts(list string) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of shards or tenants", text)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, stdout io.Writer, o options) (err error) {
	if _, err := os.Stat(o.cellwall); err != nil {
		return fmt.Errorf("the command line to measure: %w; `make build` makes it", err)
	}
	dir, err := os.MkdirTemp("", "cellwall-proxies-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	most := 0
	for _, n := range o.tenants {
		most = max(most, n)
	}
	issuer, err := newIssuer(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "signing %d tokens\n", most)
	tokens := filepath.Join(dir, "tokens")
	if err := issuer.writeTokens(tokens, most); err != nil {
		return err
	}
	rig, err := newRig(tokens)
	if err != nil {
		return err
	}
	defer rig.stop()
	taking := taking(o.only)
	writePreamble(stdout, o, rig, taking)
	for _, shards := range o.shards {
		for _, tenants := range o.tenants {
			c := trial{options: o, rig: rig, dir: dir, issuer: issuer.url, shards: shards, tenants: tenants, contenders: taking}
			rows, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("%d shards and %d tenants: %w", shards, tenants, err)
			}
			writeTable(stdout, c, rows)
		}
	}
	return nil
}

// taking are those that take part.
func taking(only string) (all []contender) {
	for _, c := range contenders() {
		if only == "" || strings.Contains(","+strings.ToLower(only)+",", ","+strings.ToLower(c.name)+",") {
			all = append(all, c)
		}
	}
	return all
}

// pinned says whether processes can have a processor each: with taskset (util-linux), on two processors or more.
func pinned() bool { return runtime.NumCPU() >= 2 && find("taskset") != "" }
