//go:build linux

// Command coldstart measures how long the functions take to start beside one that does nothing and links the same
// SDK clients, each many times and in turn, behind a runtime API that is this process. No network is in it: the
// addresses that the functions are given refuse connections, but for a bucket in this process that is empty. It
// prints Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

type options struct {
	dist    string
	linking string
	times   int
	inits   int
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("coldstart", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dist, "dist", "dist", "the functions, built for this machine")
	f.StringVar(&o.linking, "linking", "", "the function to measure beside, built as they are")
	f.IntVar(&o.times, "times", 100, "starts of each")
	f.IntVar(&o.inits, "inits", 8, "packages to list whose initialisation takes longest")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.times < 2 || o.linking == "" || o.inits < 0 {
		fmt.Fprintln(stderr, "error: want a function to measure beside, two starts or more and no arguments: see -help")
		return o, errors.New("wrong use")
	}
	return o, nil
}

// subject is a function as it is started.
type subject struct {
	name      string
	binary    string
	variables []string
	event     []byte
}

const (
	nameLinking  = "links the same clients"
	nameBuilding = "the same, and builds them at its start"
)

// refusing is an address at which nobody listens: the discard port, which takes privileges to listen at.
const refusing = "http://127.0.0.1:9"

func subjects(o options, bucket string) []subject {
	aws := []string{
		"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_ENDPOINT_URL=" + refusing,
		"AWS_LAMBDA_FUNCTION_NAME=f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512", "HOME=/nonexistent",
	}
	with := func(more ...string) []string { return append(slices.Clone(aws), more...) }
	auth := `CELLWALL_AUTH={"source":"jwt","issuer":"https://login.example.com/","audience":"orders","claim":"tenant_id"}`
	directory := []string{"CELLWALL_SERVICE=orders", "CELLWALL_DIRECTORY=orders-directory", "CELLWALL_DIRECTORY_REGION=eu-west-1", "CELLWALL_DIRECTORY_HOME_REGION=eu-west-1", auth}
	router := append(slices.Clone(directory), "CELLWALL_CELL=eu-1", "CELLWALL_KEY_SECRET=key", `CELLWALL_ROUTES=[{"path":"/*","via":"lambda"}]`,
		`CELLWALL_RULES={"attemptTimeout":"5s","reserved":100,"queue":true}`)
	// Nobody's request: it is refused without asking anybody.
	stranger := []byte(`{"version":"2.0","routeKey":"$default","rawPath":"/","rawQueryString":"","headers":{},"requestContext":{"http":{"method":"GET","path":"/"}},"isBase64Encoded":false}`)
	bootstrap := func(function string) string { return filepath.Join(o.dist, function, "bootstrap") }
	return []subject{
		{nameLinking, o.linking, aws, []byte(`{}`)},
		{nameBuilding, o.linking, with("BUILD=1"), []byte(`{}`)},
		{"router, no bucket for snapshots", bootstrap("router"), with(router...), stranger},
		{"router, its bucket is empty", bootstrap("router"), with(append(router, "CELLWALL_SNAPSHOT_BUCKET=bucket", "AWS_ENDPOINT_URL_S3="+bucket)...), stranger},
		{"front door", bootstrap("frontdoor"), with(append(directory, `CELLWALL_CELLS={"eu-1":"eu-west-1/111111111111"}`,
			"CELLWALL_ROLE=arn:aws:iam::111111111111:role/front-door")...), stranger},
	}
}

func run(ctx context.Context, stdout io.Writer, o options) error {
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	}))
	defer bucket.Close()
	all := subjects(o, bucket.URL)
	starts := make([][]start, len(all))
	for n := range o.times + 1 {
		for i := range all {
			at := (n + i) % len(all)
			s, err := launch(ctx, all[at].binary, all[at].variables, all[at].event)
			if err != nil {
				return fmt.Errorf("%s: %w", all[at].name, err)
			}
			if n > 0 { // the first has its files read from disk
				starts[at] = append(starts[at], s)
			}
		}
	}
	seed := uint64(time.Now().UnixNano())
	fmt.Fprintf(stdout, "%d starts of each, in turn; medians. Intervals of 95 %% by 2,000 bootstrap samples (seed %d).\n\n", o.times, seed)
	fmt.Fprintln(stdout, "| | until it asks for work | beside the first | processor time until then | beside the first | until its first answer |")
	fmt.Fprintln(stdout, "|---|---:|---:|---:|---:|---:|")
	random := rand.New(rand.NewPCG(seed, 0))
	ready := func(s start) time.Duration { return s.ready }
	cpu := func(s start) time.Duration { return s.cpu }
	for i, s := range all {
		fmt.Fprintf(stdout, "| %s | %s | %s | %s | %s | %s |\n", s.name,
			millis(median(times(starts[i], ready))), ratio(random, times(starts[i], ready), times(starts[0], ready)),
			millis(median(times(starts[i], cpu))), ratio(random, times(starts[i], cpu), times(starts[0], cpu)),
			millis(median(times(starts[i], func(s start) time.Duration { return s.answered }))))
	}
	for _, s := range all {
		if s.name == nameBuilding {
			continue
		}
		if err := explain(ctx, stdout, s, o.inits); err != nil {
			return err
		}
	}
	return nil
}

func times(all []start, of func(start) time.Duration) (values []time.Duration) {
	for _, s := range all {
		values = append(values, of(s))
	}
	return values
}

func median(values []time.Duration) time.Duration {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratio is that of the medians of a and b, with a bootstrap interval.
func ratio(random *rand.Rand, a, b []time.Duration) string {
	const samples = 2000
	again := func(values []time.Duration) []time.Duration {
		drawn := make([]time.Duration, len(values))
		for i := range drawn {
			drawn[i] = values[random.IntN(len(values))]
		}
		return drawn
	}
	of := func(a, b []time.Duration) float64 { return float64(median(a)) / float64(median(b)) }
	var ratios []float64
	for range samples {
		ratios = append(ratios, of(again(a), again(b)))
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", of(a, b), ratios[samples/40], ratios[samples-samples/40-1])
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
