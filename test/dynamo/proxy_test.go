package dynamo

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// line is a bad line to the emulator. By chance a request is delayed, so that others overtake it; its
// answer is delayed; it is turned away as throttled; it never arrives; or it is done and its answer never
// arrives: the client sees a connection that was closed. It also does what DynamoDB does to writes that
// meet on an item, of which one at least is a transaction (see contention).
type line struct {
	server  *httptest.Server
	percent faults
	writes  contention

	mu  sync.Mutex
	rng *rand.Rand

	requests, dropped, lost, throttled, met atomic.Int64
}

// faults are chances in per cent.
type faults struct{ delay, throttle, lose, drop int }

// bad is a line of which about every fourth request has no answer.
var bad = faults{delay: 50, throttle: 5, lose: 5, drop: 15}

// newLine logs its seed.
func newLine(t *testing.T, f faults) *line {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	target, err := url.Parse(emulator.URL())
	if err != nil {
		t.Fatal(err)
	}
	l := &line{percent: f, rng: rand.New(rand.NewPCG(seed, 0))}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64} // the emulator refuses hundreds
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serve(forward, w, r)
	}))
	t.Cleanup(func() {
		l.server.Close()
		t.Logf("%d requests: %d were lost, %d done without an answer, %d throttled, %d met another on an item",
			l.requests.Load(), l.lost.Load(), l.dropped.Load(), l.throttled.Load(), l.met.Load())
	})
	return l
}

// config sends an SDK client over the line.
func (l *line) config(c *aws.Config) { c.BaseEndpoint = aws.String(l.server.URL) }

func (l *line) chance(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(100) < percent
}

func (l *line) pause() {
	l.mu.Lock()
	d := time.Duration(l.rng.IntN(20_000)) * time.Microsecond
	l.mu.Unlock()
	time.Sleep(d)
}

func (l *line) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	l.requests.Add(1)
	if l.chance(l.percent.delay) {
		l.pause()
	}
	if l.chance(l.percent.throttle) {
		l.throttled.Add(1)
		fail(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`)
		return
	}
	if l.chance(l.percent.lose) {
		l.lost.Add(1)
		panic(http.ErrAbortHandler) // closes the connection
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	done, refusal := l.writes.begin(r.Header.Get("X-Amz-Target"), body)
	if refusal != "" {
		l.met.Add(1)
		fail(w, refusal)
		return
	}
	answer := httptest.NewRecorder()
	forward.ServeHTTP(answer, r)
	done()
	if l.chance(l.percent.delay) {
		l.pause()
	}
	if l.chance(l.percent.drop) {
		l.dropped.Add(1)
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

func fail(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	io.WriteString(w, body)
}
