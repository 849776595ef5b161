package traffic

import (
	"encoding/json"
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

// fakeService serves orders and jobs as the sample does; its hooks spoil that.
type fakeService struct {
	mu      sync.Mutex
	orders  map[string]string // by token and id
	creates map[string]string // id by token and key
	n       int

	doubles func(n int) bool     // the n-th create or job is done twice
	loses   func(id string) bool // acknowledged, and not kept
	fails   func(method string) bool
	stall   time.Duration // of the first write
	stalled bool
}

func (f *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stall > 0 && !f.stalled && r.Method == http.MethodPut && !strings.Contains(r.URL.Path, "-jobs-") {
		f.stalled = true
		time.Sleep(f.stall)
	}
	if f.fails != nil && f.fails(r.Method) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id := strings.TrimPrefix(r.URL.Path, "/orders/")
	switch {
	case r.Method == http.MethodPut:
		if f.loses == nil || !f.loses(id) {
			f.orders[token+" "+id] = string(body)
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/orders" && r.Method == http.MethodPost:
		key := token + " " + r.Header.Get("Idempotency-Key")
		for again := true; again; {
			f.n++
			again = f.doubles != nil && f.doubles(f.n)
			f.creates[key] = fmt.Sprintf("made-%d", f.n)
			f.orders[token+" "+f.creates[key]] = string(body)
		}
		w.Header().Set("Location", "/orders/"+f.creates[key])
		w.WriteHeader(http.StatusCreated)
	case r.URL.Path == "/orders":
		ids := []string{}
		for k := range f.orders {
			if owner, id, _ := strings.Cut(k, " "); owner == token {
				ids = append(ids, id)
			}
		}
		json.NewEncoder(w).Encode(ids)
	case strings.HasPrefix(r.URL.Path, "/jobs/"):
		order := token + " " + r.URL.Query().Get("append")
		for again := true; again; {
			f.n++
			again = f.doubles != nil && f.doubles(f.n)
			f.orders[order] += string(body)
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		value, ok := f.orders[token+" "+id]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, value)
	}
}

func (f *fakeService) load(t *testing.T) Load {
	t.Helper()
	f.orders, f.creates = map[string]string{}, map[string]string{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	l := Load{URL: server.URL, RPS: 800, For: 500 * time.Millisecond, AtOnce: 64, Keyed: true, Seed: 7}
	for i, share := range []float64{6, 3, 1, 0} {
		id := fmt.Sprintf("t%d", i)
		l.Tenants = append(l.Tenants, Loaded{id, "token-" + id, share})
	}
	return l
}

func runLoad(t *testing.T, l Load) *LoadReport {
	t.Helper()
	r, err := RunLoad(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACalmLoad(t *testing.T) {
	r := runLoad(t, (&fakeService{}).load(t))
	plan, err := Load{RPS: 800, For: 500 * time.Millisecond, Seed: 7, Tenants: []Loaded{{Load: 6}, {Load: 3}, {Load: 1}, {Load: 0}}}.arrivals()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Fault(); err != nil || !r.Complete || r.Unclear != 0 || len(r.Failed()) != 0 {
		t.Errorf("report %+v, %v", r, err)
	}
	if r.Requests != len(plan) || r.Tenants != 3 || len(r.ByTenant) != 3 || r.Acknowledged != r.ByKind["write"].Requests+r.ByKind["create"].Requests || r.Jobs != r.ByKind["job"].Requests {
		t.Errorf("of %d requests: report %+v", len(plan), r)
	}
	sum := 0
	for _, of := range r.ByTenant {
		sum += of.Requests
	}
	if sum != r.Requests {
		t.Errorf("the tenants sent %d of %d requests", sum, r.Requests)
	}
}

// TestArrivals: requests come at the rate, exponentially apart, each kind and tenant in its proportion, within
// five standard deviations of drawing them.
func TestArrivals(t *testing.T) {
	l := Load{RPS: 1000, For: 20 * time.Second, Seed: 3, Tenants: []Loaded{{Load: 6}, {Load: 0}, {Load: 3}, {Load: 1}}}
	t.Logf("seed %d", l.Seed)
	plan, err := l.arrivals()
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(plan))
	if math.Abs(n-20000) > 5*math.Sqrt(20000) {
		t.Errorf("%d arrivals, want about 20000", len(plan))
	}
	var byTenant, byKind [4]float64
	long := 0.0 // gaps longer than the mean
	last := time.Duration(0)
	for _, a := range plan {
		if a.due < last || a.due >= l.For {
			t.Fatalf("due at %v after %v", a.due, last)
		}
		if a.due-last > time.Millisecond {
			long++
		}
		last = a.due
		byTenant[a.tenant]++
		byKind[a.kind]++
	}
	near := func(what string, got, p float64) {
		if math.Abs(got-n*p) > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%s: %.0f of %.0f, want %.3f of them", what, got, n, p)
		}
	}
	for i, p := range []float64{0.6, 0, 0.3, 0.1} {
		near(fmt.Sprint("tenant ", i), byTenant[i], p)
	}
	for k, p := range []float64{0.5, 0.3, 0.1, 0.1} {
		near(Kind(k).String(), byKind[k], p)
	}
	near("gaps longer than the mean", long, 1/math.E)
	again, err := l.arrivals()
	if err != nil || len(again) != len(plan) || again[100] != plan[100] {
		t.Error("the same seed gives other arrivals")
	}
}

// TestNoCoordinatedOmission: while the service stalls, requests go on being due, and each counts its wait.
func TestNoCoordinatedOmission(t *testing.T) {
	f := &fakeService{stall: 400 * time.Millisecond}
	l := f.load(t)
	l.AtOnce = 2 // so that the stall holds up what is due behind it
	r := runLoad(t, l)
	// Of the half second's requests most were due during the stall. A client that waits for each answer before
	// it sends the next would have two slow samples.
	slow := 0
	for _, of := range r.ByTenant {
		if of.Latency.Median >= 20 {
			slow += of.Requests
		}
	}
	if r.Late < 20 || slow == 0 {
		t.Errorf("%d requests of %d had to wait; report %+v", r.Late, r.Requests, r)
	}
}

func TestWhatIsDoneTwiceIsCounted(t *testing.T) {
	twice := 0
	f := &fakeService{doubles: func(n int) bool {
		if n%10 == 0 {
			twice++
		}
		return n%10 == 0
	}}
	r := runLoad(t, f.load(t))
	if twice == 0 || r.Doubled+r.JobsDoubled != twice || r.Fault() == nil {
		t.Errorf("%d were done twice: report %d creates and %d jobs, %v", twice, r.Doubled, r.JobsDoubled, r.Fault())
	}
}

func TestWhatIsLostIsCounted(t *testing.T) {
	lost := 0
	f := &fakeService{loses: func(id string) bool {
		if strings.HasSuffix(id, "5") && !strings.Contains(id, "jobs") {
			lost++
			return true
		}
		return false
	}}
	r := runLoad(t, f.load(t))
	if lost == 0 || r.Lost != lost || r.Fault() == nil {
		t.Errorf("%d were lost: report %d, %v", lost, r.Lost, r.Fault())
	}
}

// TestFailuresAreTheTenants: whose requests fail is told, and whether they are safe to repeat.
func TestFailuresAreTheTenants(t *testing.T) {
	f := &fakeService{fails: func(method string) bool { return method == http.MethodPost }}
	l := f.load(t)
	for _, keyed := range []bool{true, false} {
		l.Keyed = keyed
		r := runLoad(t, l)
		creates, jobs := r.ByKind["create"].Failures, r.ByKind["job"].Failures
		want, unclear := creates, jobs
		if !keyed {
			want, unclear = 0, creates+jobs
		}
		if creates == 0 || jobs == 0 || r.Failures != want || r.Unclear != unclear || (r.Fault() == nil) == keyed {
			t.Errorf("keyed %t: %d creates and %d jobs failed; report %d failures, %d unclear, %v", keyed, creates, jobs, r.Failures, r.Unclear, r.Fault())
		}
		failed := r.Failed()
		if len(failed) == 0 || failed[0].Failures < failed[len(failed)-1].Failures {
			t.Errorf("tenants that failed: %+v", failed)
		}
	}
}

// TestSomethingIsSent: of one request that is expected, chance makes none in e⁻¹ of all runs.
func TestSomethingIsSent(t *testing.T) {
	for seed := range uint64(100) {
		l := Load{RPS: 1, For: time.Second, AtOnce: 1, Seed: seed, Tenants: []Loaded{{Load: 1}}}
		plan, err := l.arrivals()
		if err != nil || len(plan) == 0 {
			t.Fatalf("seed %d: %d requests, %v", seed, len(plan), err)
		}
		for _, a := range plan {
			if a.due < 0 || a.due >= l.For {
				t.Errorf("seed %d: one is due after %v of %v", seed, a.due, l.For)
			}
		}
	}
}

func TestLoadCheck(t *testing.T) {
	good := Load{RPS: 10, For: time.Second, AtOnce: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Load){
		func(l *Load) { l.RPS = 0 }, func(l *Load) { l.RPS = -1 }, func(l *Load) { l.RPS = math.NaN() }, func(l *Load) { l.RPS = math.Inf(1) },
		func(l *Load) { l.For = 0 }, func(l *Load) { l.For = MaxFor + 1 }, func(l *Load) { l.AtOnce = 0 },
		func(l *Load) { l.RPS, l.For = MaxRPS, MaxFor }, func(l *Load) { l.RPS = 0.9 },
	} {
		l := good
		if change(&l); l.Check() == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	for _, tenants := range [][]Loaded{nil, {{Load: 0}}, {{Load: -1}}, {{Load: math.NaN()}}, {{Load: math.Inf(1)}}} {
		l := good
		l.Tenants = tenants
		if _, err := RunLoad(t.Context(), l); err == nil {
			t.Errorf("sent for %+v", tenants)
		}
	}
}
