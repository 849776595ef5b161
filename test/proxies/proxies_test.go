//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cellwall.dev/cellwall/internal/routing"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 8 0 5 6 7"
	s, err := parseStat([]byte(line))
	if err != nil || s.parent != 7 || s.cpu != 1240*time.Millisecond {
		t.Errorf("got %+v, %v, want parent 7 and 1.24 s", s, err)
	}
	if _, err := parseStat([]byte("42 (a) S 7")); err == nil {
		t.Error("a short line is taken")
	}
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := parseStat(own); err != nil || s.parent != os.Getppid() {
		t.Errorf("of this process: %+v, %v, want parent %d", s, err, os.Getppid())
	}
}

func TestBelow(t *testing.T) {
	all := map[int]stat{1: {}, 2: {parent: 1}, 3: {parent: 2}, 4: {parent: 1}, 5: {parent: 9}}
	for pid, want := range map[int]bool{1: false, 2: true, 3: true, 4: false, 5: false} {
		if below(all, pid, 2) != want {
			t.Errorf("%d below 2: want %t", pid, want)
		}
	}
}

func TestQuantileAndSpread(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(i))
	}
	if p50, p99, none := quantile(values, 0.5), quantile(values, 0.99), quantile(nil, 0.5); p50 != 50 || p99 != 99 || none != 0 {
		t.Errorf("got %v, %v and %v, want 50, 99 and 0", p50, p99, none)
	}
	if got := spreadOf([]float64{4, 1, 3, 2}); got != (spread{1, 2.5, 4}) {
		t.Errorf("got %v, want 1, 2.5 and 4", got)
	}
}

func TestWholeLength(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nA: b\r\n\r\n"
	for answer, want := range map[string]int{head + "he": len(head) + 5, strings.TrimSuffix(head, "\r\n"): -1} {
		if got, err := wholeLength([]byte(answer)); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", answer, got, err, want)
		}
	}
	for _, answer := range []string{"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"} {
		if _, err := wholeLength([]byte(answer)); err == nil {
			t.Errorf("%q: want an error", answer)
		}
	}
}

// startWorkers serves so many shards in this process.
func startWorkers(t testing.TB, n int) []string {
	t.Helper()
	all, err := listen(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(all) })
	for _, l := range all {
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go serveRaw(conn)
			}
		}()
	}
	return addresses(all)
}

// writeWords writes a word for a token of each tenant, and returns their requests.
func writeWords(t *testing.T, tenants int) [][]byte {
	t.Helper()
	var words []string
	for n := range tenants {
		words = append(words, "word-of-"+tenantName(n))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(strings.Join(words, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	requests, err := readRequests(file)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

type words struct{}

func (words) Verify(_ context.Context, token string) (string, error) {
	tenant, ok := strings.CutPrefix(token, "word-of-")
	if !ok || tenant == tenantName(3) {
		return "", fmt.Errorf("%w: of another", routing.ErrToken)
	}
	return tenant, nil
}

// TestEachTenantIsAskedFor: a run over every tenant asks each once by its own token, and counts what is refused.
func TestEachTenantIsAskedFor(t *testing.T) {
	const tenants = 50
	asked := make(chan string, tenants)
	proxy := checked(words{}, newProxies(startWorkers(t, 4)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Tenant")
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	r, err := order{Address: server.Listener.Addr().String(), Tenants: tenants, Conns: 4, Each: true}.run(writeWords(t, tenants))
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != tenants-1 || r.Failed != 1 || !strings.Contains(r.Error, "401") {
		t.Errorf("got %+v, want one request of %d refused with 401", r, tenants)
	}
	close(asked)
	var all []string
	for tenant := range asked {
		all = append(all, tenant)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != tenants {
		t.Errorf("%d tenants of %d asked", len(all), tenants)
	}
}

// TestOthersServe: nginx and HAProxy take the configurations that are written for them, and serve.
func TestOthersServe(t *testing.T) {
	for _, c := range contenders() {
		if c.name == nameCellwall || c.name == nameReverse || c.name == nameDirect {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.absent != "" {
				t.Skip(c.absent)
			}
			address, p, err := c.start(setting{dir: t.TempDir(), processor: -1, workers: startWorkers(t, 16)})
			if err != nil {
				t.Fatal(err)
			}
			defer p.stop()
			r, err := order{Address: address, Tenants: 100, Conns: 4, Each: true}.run(writeWords(t, 100))
			if err != nil || r.Requests != 100 || r.Failed > 0 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-shards", "x"}, {"-tenants", "0"}, {"-share", "1"}, {"more"}} {
		if _, err := parse(args, new(strings.Builder)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if o, err := parse(nil, new(strings.Builder)); err != nil || !slices.Equal(o.shards, []int{16, 256}) || !slices.Equal(o.tenants, []int{1, 100_000}) {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
}
