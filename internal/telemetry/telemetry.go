package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/routing"
)

// Namespace is CloudWatch's namespace of the metrics.
const Namespace = "cellwall"

// hashed is how many characters of a tenant's name stand for it: 130 bits, of which nobody meets two alike.
const hashed = 26

// Config is what Requests are written with. All but Now are needed.
type Config struct {
	Service, Cell string
	HashTenants   bool
	Metrics       bool             // with CloudWatch's metadata; without, the line is a log record alone
	Out           io.Writer        // gets whole lines, one Write for each outcome; its errors are nobody's
	Now           func() time.Time // default time.Now
}

// Requests writes the lines. It is safe for concurrent use.
type Requests struct {
	c       Config
	buffers sync.Pool
	mu      sync.Mutex // of Out
}

// New returns a writer of lines.
func New(c Config) *Requests {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Requests{c: c, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

// line is a record, and its metrics. Field order is that of the text.
type line struct {
	AWS        *metadata `json:"_aws,omitempty"`
	Time       string    `json:"time,omitempty"`
	Level      string    `json:"level,omitempty"`
	Msg        string    `json:"msg,omitempty"`
	RequestID  string    `json:"requestId,omitempty"`
	TraceID    string    `json:"traceId,omitempty"`
	Service    string    `json:"service,omitempty"`
	Cell       string    `json:"cell,omitempty"`
	Tenant     string    `json:"tenant,omitempty"`
	Method     string    `json:"method,omitempty"`
	Route      string    `json:"route,omitempty"`
	Status     int       `json:"status,omitempty"`
	MS         *float64  `json:"ms,omitempty"`
	Shard      string    `json:"shard,omitempty"`
	Attempts   []attempt `json:"attempts,omitempty"`
	AgeMS      *int64    `json:"ageMs,omitempty"`
	Stale      bool      `json:"stale,omitempty"`
	Left       bool      `json:"left,omitempty"`
	Poisoned   bool      `json:"poisoned,omitempty"`
	Fanout     bool      `json:"fanout,omitempty"`
	Err        string    `json:"err,omitempty"`
	ReplicaErr string    `json:"replicaErr,omitempty"`
	HomeErr    string    `json:"homeErr,omitempty"`

	values
}

type attempt struct {
	Shard  string  `json:"shard"`
	Status int     `json:"status,omitempty"`
	MS     float64 `json:"ms"`
	Err    string  `json:"err,omitempty"`
}

// Observe is for routing.Config.Observe.
func (r *Requests) Observe(o routing.Outcome) {
	buffer := r.buffers.Get().(*bytes.Buffer)
	defer r.buffers.Put(buffer)
	buffer.Reset()
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	now := r.c.Now()
	first := r.first(o, now)
	_ = encoder.Encode(first) // strings and numbers always encode
	if r.c.Metrics {
		for i := 1; i < len(o.Attempts); i++ {
			_ = encoder.Encode(r.further(o, i, now))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.c.Out.Write(buffer.Bytes())
}

// first is the record, with the metrics of the first attempt.
func (r *Requests) first(o routing.Outcome, now time.Time) line {
	ms, age := milliseconds(o.Took), o.Age.Milliseconds()
	l := line{
		Time: timestamp(now), Level: level(o), Msg: "request",
		RequestID: o.RequestID, TraceID: o.TraceID, Service: r.c.Service, Cell: r.c.Cell, Tenant: r.tenant(o.Tenant),
		Method: cut(o.Method, maxMethod), Route: o.Route, Status: o.Status, MS: &ms, AgeMS: &age, Stale: o.Stale, Left: o.Left, Poisoned: o.Poisoned, Fanout: o.Fanout,
		Err: r.Text(o.Err, o.Tenant), ReplicaErr: r.Text(o.ReplicaErr, o.Tenant), HomeErr: r.Text(o.HomeErr, o.Tenant),
	}
	if len(o.Attempts) > 0 {
		l.Shard = o.Attempts[0].Shard
	}
	if len(o.Attempts) > 1 || len(o.Attempts) == 1 && failed(o.Attempts[0]) {
		for _, a := range o.Attempts {
			l.Attempts = append(l.Attempts, attempt{a.Shard, a.Status, milliseconds(a.Took), r.Text(a.Err, o.Tenant)})
		}
	}
	if r.c.Metrics {
		l.measure(o, now)
	}
	return l
}

// tenant is what stands for a tenant, "" for nobody.
func (r *Requests) tenant(id string) string {
	if id == "" || !r.c.HashTenants {
		return id
	}
	return Hash(id)
}

// Hash is what stands for a tenant's id with HashTenants.
func Hash(id string) string { return names.Tenant(id)[:hashed] }

func level(o routing.Outcome) string {
	switch {
	case o.Left:
		return "INFO"
	case o.Status >= http.StatusInternalServerError:
		return "ERROR"
	case o.Err != nil, o.ReplicaErr != nil, o.HomeErr != nil, o.Stale, o.Poisoned, o.Fallbacks > 0, len(o.Attempts) == 1 && failed(o.Attempts[0]):
		return "WARN"
	}
	return "INFO"
}

// failed says whether an attempt counts as an error of its shard.
func failed(a routing.Attempt) bool {
	return !a.Left && (a.Err != nil || a.Status >= http.StatusInternalServerError || a.Status == http.StatusMisdirectedRequest)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
