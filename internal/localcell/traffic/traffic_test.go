package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeCell serves orders as a cell does; its hooks spoil that.
type fakeCell struct {
	mu       sync.Mutex
	orders   map[string]string // by token and path
	broken   bool
	breaks   int
	restores int
	fellBack map[string]int64

	fail  func(token string, broken bool) bool // answer 503
	store func(key, value string) (string, bool)
	wait  time.Duration
}

func (f *fakeCell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	key := token + r.URL.Path
	body, _ := io.ReadAll(r.Body)
	time.Sleep(f.wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil && f.fail(token, f.broken) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch r.Method {
	case http.MethodPut:
		value, keep := string(body), true
		if f.store != nil {
			value, keep = f.store(key, value)
		}
		if keep {
			f.orders[key] = value
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet:
		if value, ok := f.orders[key]; ok {
			io.WriteString(w, value)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

const tenants, rounds = 20, 5

// config is traffic of 20 tenants, of which t00 to t04 have the shard s01 in their subsets of two.
func (f *fakeCell) config(t *testing.T) Config {
	t.Helper()
	f.orders, f.fellBack = map[string]string{}, map[string]int64{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c := Config{
		URL: server.URL, Rounds: rounds, Concurrency: 4, Limit: time.Hour, Broken: "s01",
		Break: func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.broken = true
			f.breaks++
			return nil
		},
		Restore: func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.broken = false
			f.restores++
			return nil
		},
		FellBack: func(context.Context) (map[string]int64, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			out := map[string]int64{}
			for k, v := range f.fellBack {
				out[k] = v
			}
			return out, nil
		},
	}
	for i := range tenants {
		id := fmt.Sprintf("t%02d", i)
		subset := []string{"s02", "s03"}
		if i < 5 {
			subset[i%2] = "s01"
		}
		c.Tenants = append(c.Tenants, Tenant{id, "token-" + id, subset})
	}
	return c
}

func run1(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Untouched+r.Felt+r.FullyDown != r.Tenants {
		t.Errorf("%d untouched, %d that felt it and %d fully down are not the %d tenants", r.Untouched, r.Felt, r.FullyDown, r.Tenants)
	}
	return r
}

func TestCalmTraffic(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	c.Broken, c.Rounds = "", 1
	r := run1(t, c)
	if r.Tenants != tenants || r.Untouched != tenants || r.Requests != 2*tenants || r.Acknowledged != tenants ||
		r.Failures != 0 || r.Lost != 0 || r.ByPlacement != nil || !r.Complete || r.DuringBreak != 0 || f.breaks != 0 || r.Fault() != nil {
		t.Errorf("report %+v", r)
	}
	if r.Calm.Median <= 0 || r.Calm.Median > r.Calm.P99 || r.Calm.P99 > r.Calm.Max {
		t.Errorf("latencies %+v", r.Calm)
	}
	if len(f.orders) != tenants {
		t.Errorf("%d orders", len(f.orders))
	}
}

func TestABreakThatNobodyFeels(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	r := run1(t, c)
	if *r.ByPlacement != (Prediction{Degraded: 5}) || r.Felt != 0 || r.Untouched != tenants || r.FellBack != 0 || r.FullyDown != 0 || r.Fault() != nil {
		t.Errorf("report %+v", r)
	}
	// Every tenant had at least one round that lies wholly in the break, and at least one outside.
	if r.Asked != tenants || r.DuringBreak < 2*tenants || r.Requests-r.DuringBreak < 2*tenants {
		t.Errorf("%d tenants asked; %d of %d requests during the break", r.Asked, r.DuringBreak, r.Requests)
	}
	if f.breaks != 1 || f.broken || f.restores == 0 {
		t.Errorf("%d breaks, %d restores, broken now: %t", f.breaks, f.restores, f.broken)
	}
}

func TestFallbacksAreTheRoutersCount(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	f.fellBack["t07"] = 3 // before the run
	f.fail = func(token string, broken bool) bool {
		if broken && token == "token-t01" {
			f.fellBack["t01"]++
		}
		return false
	}
	base := c.Break
	c.Break = func(ctx context.Context) error {
		f.mu.Lock()
		f.fellBack["t07"]++ // one who is no member
		f.mu.Unlock()
		return base(ctx)
	}
	r := run1(t, c)
	if r.FellBack != 2 || r.Fallbacks != 1+f.fellBack["t01"] || f.fellBack["t01"] == 0 {
		t.Errorf("%d tenants fell back, %d times; want 2 and %d", r.FellBack, r.Fallbacks, 1+f.fellBack["t01"])
	}
	if r.ByPlacement.Degraded != 5 || r.Felt != 2 {
		t.Errorf("%d degraded by placement, %d measured; want 5 and 2", r.ByPlacement.Degraded, r.Felt)
	}
}

func TestFullyDown(t *testing.T) {
	f := &fakeCell{fail: func(token string, broken bool) bool { return broken && (token == "token-t00" || token == "token-t02") }}
	c := f.config(t)
	c.Tenants[2].Subset = []string{"s01"} // has but one
	r := run1(t, c)
	if r.FullyDown != 2 || *r.ByPlacement != (Prediction{Degraded: 5, FullyDown: 1}) || r.Felt != 0 || r.Failures < 4 || r.FirstFailure == "" {
		t.Errorf("report %+v", r)
	}
	if err := r.Fault(); err == nil || !strings.Contains(err.Error(), "2 of 20 tenants were fully down") {
		t.Errorf("fault: %v", err)
	}
}

// TestFullyDownWithoutABreak counts over the whole run.
func TestFullyDownWithoutABreak(t *testing.T) {
	f := &fakeCell{fail: func(token string, _ bool) bool { return token == "token-t07" }}
	c := f.config(t)
	c.Broken, c.Rounds = "", 2
	r := run1(t, c)
	if r.FullyDown != 1 || r.Failures != 4 || r.Untouched != tenants-1 {
		t.Errorf("report %+v", r)
	}
	if err := r.Fault(); err == nil || !strings.Contains(err.Error(), "1 of 20 tenants were fully down") || !strings.Contains(err.Error(), "4 of 80 requests failed") {
		t.Errorf("fault: %v", err)
	}
	f = &fakeCell{fail: func(string, bool) bool { return true }}
	c = f.config(t)
	c.Broken, c.Rounds = "", 1
	if r := run1(t, c); r.FullyDown != tenants || r.Fault() == nil {
		t.Errorf("everything failed: %+v, fault %v", r, r.Fault())
	}
}

func TestOneAnswerIsEnoughNotToBeDown(t *testing.T) {
	n := 0
	f := &fakeCell{fail: func(token string, broken bool) bool {
		if !broken || token != "token-t00" {
			return false
		}
		n++
		return n > 2 // the first round during the break is answered, later ones are not
	}}
	c := f.config(t)
	c.Rounds = 8
	if r := run1(t, c); r.FullyDown != 0 || r.Failures == 0 || r.Felt != 1 || r.Fault() == nil {
		t.Errorf("report %+v", r)
	}
}

func TestAFailureOutsideTheSubsetIsNoBystander(t *testing.T) {
	once := sync.Once{}
	f := &fakeCell{fail: func(token string, _ bool) (failed bool) {
		if token == "token-t19" {
			once.Do(func() { failed = true })
		}
		return failed
	}}
	if r := run1(t, f.config(t)); r.Failures != 1 || r.Felt != 1 || r.Untouched != tenants-1 || r.Fault() == nil {
		t.Errorf("report %+v", r)
	}
}

func TestLostWrites(t *testing.T) {
	for name, store := range map[string]func(key, value string) (string, bool){
		"dropped": func(key, value string) (string, bool) { return value, !strings.HasPrefix(key, "token-t03") },
		"mangled": func(key, value string) (string, bool) {
			if strings.HasPrefix(key, "token-t03") {
				value += "!"
			}
			return value, true
		},
	} {
		f := &fakeCell{store: store}
		r := run1(t, f.config(t))
		if r.Lost != rounds || r.WrongReads != rounds || r.Fault() == nil {
			t.Errorf("%s: %d lost, %d wrong reads, fault %v", name, r.Lost, r.WrongReads, r.Fault())
		}
	}
}

func TestAWriteLostAfterItWasRead(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	c.Restore = func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for key := range f.orders {
			delete(f.orders, key) // once, some order of those before
			break
		}
		return nil
	}
	r := run1(t, c)
	if r.Lost == 0 || r.WrongReads != 0 || r.Fault() == nil {
		t.Errorf("%d lost, %d wrong reads, fault %v", r.Lost, r.WrongReads, r.Fault())
	}
}

func TestAWriteThatCannotBeReadBackIsNotLost(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	var over bool
	base := c.FellBack
	calls := 0
	c.FellBack = func(ctx context.Context) (map[string]int64, error) {
		calls++
		f.mu.Lock()
		over = calls == 2 // the sending is over
		f.mu.Unlock()
		return base(ctx)
	}
	f.fail = func(token string, _ bool) bool { return over && token == "token-t09" }
	c.Rounds = MinBreakRounds
	r, err := Run(t.Context(), c)
	if err == nil || r.Unread != c.Rounds || r.Lost != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheTimeLimitEndsTheSending(t *testing.T) {
	f := &fakeCell{wait: 5 * time.Millisecond}
	c := f.config(t)
	c.Rounds, c.Limit = 1_000_000, 100*time.Millisecond
	r := run1(t, c)
	if r.Complete || r.Requests == 0 || r.Lost != 0 {
		t.Errorf("report %+v", r)
	}
	if f.broken {
		t.Error("the shard stays broken")
	}
}

func TestTheShardComesBackWhateverHappens(t *testing.T) {
	f := &fakeCell{wait: time.Millisecond}
	c := f.config(t)
	ctx, cancel := context.WithCancel(t.Context())
	base := c.Break
	c.Break = func(ctx context.Context) error { defer cancel(); return base(ctx) }
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if f.breaks != 1 || f.broken {
		t.Errorf("%d breaks, broken now: %t", f.breaks, f.broken)
	}

	f = &fakeCell{}
	c = f.config(t)
	no := errors.New("no such shard")
	c.Break = func(context.Context) error { return no }
	if _, err := Run(t.Context(), c); !errors.Is(err, no) || f.restores == 0 {
		t.Errorf("a break that fails: %v, %d restores", err, f.restores)
	}
}

func TestCountersThatWereLost(t *testing.T) {
	f := &fakeCell{}
	c := f.config(t)
	f.fellBack["t01"] = 5
	base := c.Break
	c.Break = func(ctx context.Context) error {
		f.mu.Lock()
		clear(f.fellBack) // the router was started again
		f.mu.Unlock()
		return base(ctx)
	}
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("fallbacks are reported though the router forgot them")
	}
}

func TestRateSpacesTurns(t *testing.T) {
	p := newPace(1000)
	first := p.next()
	for i := 1; i <= 10; i++ {
		if got, want := p.next().Sub(first), time.Duration(i)*time.Millisecond; got != want {
			t.Errorf("turn %d is due after %v, want %v", i, got, want)
		}
	}
	f := &fakeCell{}
	c := f.config(t)
	c.Rate = 5000
	if r := run1(t, c); r.Requests != 2*tenants*rounds || r.Failures != 0 {
		t.Errorf("report %+v", r)
	}
}

func TestCheck(t *testing.T) {
	f := &fakeCell{}
	for name, change := range map[string]func(*Config){
		"no tenants":     func(c *Config) { c.Tenants = nil },
		"no rounds":      func(c *Config) { c.Rounds = 0 },
		"few rounds":     func(c *Config) { c.Rounds = MinBreakRounds - 1 },
		"no concurrency": func(c *Config) { c.Concurrency = 0 },
		"negative rate":  func(c *Config) { c.Rate = -1 },
		"no number":      func(c *Config) { c.Rate = math.NaN() },
		"no end of rate": func(c *Config) { c.Rate = math.Inf(1) },
		"tiny rate":      func(c *Config) { c.Rate = 1e-300 },
		"no time":        func(c *Config) { c.Limit = 0 },
	} {
		c := f.config(t)
		change(&c)
		if _, err := Run(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLatency(t *testing.T) {
	var took []time.Duration
	for ms := 200; ms >= 1; ms-- {
		took = append(took, time.Duration(ms)*time.Millisecond)
	}
	if got, want := latency(took), (Latency{Median: 100, P99: 198, Max: 200}); got != want {
		t.Errorf("latency of 1 to 200 ms: %+v, want %+v", got, want)
	}
	// "99 % within" must hold of few, too: of 11 that is all of them.
	for n := 1; n <= 200; n++ {
		took := took[:n]
		got, within := latency(took), 0
		for _, d := range took {
			if float64(d.Milliseconds()) <= got.P99 {
				within++
			}
		}
		if 100*within < 99*n || 100*(within-1) >= 99*n {
			t.Errorf("of %d, %d took no longer than the 99 %% of %v ms", n, within, got.P99)
		}
	}
	if got := latency(nil); got != (Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
