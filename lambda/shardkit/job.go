package shardkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Message is a request that is not asked now: what a service puts into a Job.
type Message struct {
	Method      string `json:"method"`                // default POST when sent
	Path        string `json:"path"`                  // percent-encoded, begins with one /
	Query       string `json:"query,omitempty"`       // without the ?
	ContentType string `json:"contentType,omitempty"` // of the body
	Key         string `json:"key,omitempty"`         // idempotency key; the job's id when empty
	Body        []byte `json:"body,omitempty"`        // base64 in the message
}

// Job is a request that waits in a queue, as the JSON of its message: plain ASCII, at most MaxJob bytes.
type Job struct {
	ID     string // given once, the same in every delivery and after every dispatch; 1 to 128 of A-Z a-z 0-9 - _
	Tenant string // whom it is for; percent-encoded in the message, as in HeaderTenant
	Epoch  uint64 // of the directory's entry by which Shard was chosen; 0 when none was
	Shard  string // in whose queue it waits; "" in the dispatch queue

	// From is the tenant for which a shard sent it, "" when a client asked. Tenant.Send sets it to the
	// tenant that the router named to the sending shard. Whoever may write into the cell's queues can put
	// any tenant here, which are the cell's router and shards: it is as true as the least trusted of them.
	From string

	RequestID   string // X-Request-Id of the request that led to it
	TraceParent string // traceparent (W3C Trace Context) of the same
	TraceState  string // tracestate of the same

	// Hops is how many times shards have sent, one job from another, to come to this one: 0 when a client asked, 1 when a
	// request of a client or a tick sent it. Tenant.Send counts, and refuses more than MaxHops.
	Hops int

	// Dispatches is how often a shard gave it back because it did not hold the tenant.
	Dispatches int
	Reason     string // why it is where nobody takes it from; "" until then

	Message
}

// wire is a job's JSON. Tenants are percent-encoded, so that a message is plain ASCII, in names of which no two
// are spelled alike.
type wire struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Epoch  uint64 `json:"epoch"`
	Shard  string `json:"shard,omitempty"`
	From   string `json:"from,omitempty"`
	Message
	RequestID   string `json:"requestId,omitempty"`
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
	Hops        int    `json:"hops,omitempty"`
	Dispatches  int    `json:"dispatches,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// Limits of a job.
const (
	MaxJob        = 1 << 20 // bytes of the message (SQS quotas, "message size")
	MaxDispatches = 8       // of a job, then it goes to the dead letters
	MaxHops       = 64      // of jobs of which each sent the next; what is beyond is taken for a loop
	maxCount      = 1 << 20 // of hops, and of dispatches, that a message may tell of
	maxJobText    = 1 << 10 // bytes of each text but path and query
	maxJobPath    = 8 << 10 // bytes of the path, and of the query
)

// ErrJob means that something is no job. It comes wrapped.
var ErrJob = errors.New("not a valid job")

// Encode writes the job's message. What Encode writes ParseJob reads, and both take the same jobs.
func (j Job) Encode() ([]byte, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	w := wire{j.ID, encodeTenant(j.Tenant), j.Epoch, j.Shard, encodeTenant(j.From), j.Message, j.RequestID, j.TraceParent, j.TraceState, j.Hops, j.Dispatches, j.Reason}
	message, err := json.Marshal(w)
	if err == nil && len(message) > MaxJob {
		err = fmt.Errorf("%w: a message of %d bytes: a queue takes %d; keep the body elsewhere and name it", ErrJob, len(message), MaxJob)
	}
	return message, err
}

// ParseJob reads a job's message. It passes over members that it does not know: later versions may have more.
func ParseJob(message []byte) (Job, error) {
	if len(message) > MaxJob {
		return Job{}, fmt.Errorf("%w: a message of %d bytes: want at most %d", ErrJob, len(message), MaxJob)
	}
	var w wire
	if err := json.Unmarshal(message, &w); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrJob, err)
	}
	tenant, ok := decodeTenant(w.Tenant)
	if !ok {
		return Job{}, fmt.Errorf("%w: its tenant is not 1 to 128 bytes, percent-encoded", ErrJob)
	}
	from := ""
	if w.From != "" {
		if from, ok = decodeTenant(w.From); !ok {
			return Job{}, fmt.Errorf("%w: its sender is not 1 to 128 bytes, percent-encoded", ErrJob)
		}
	}
	j := Job{w.ID, tenant, w.Epoch, w.Shard, from, w.RequestID, w.TraceParent, w.TraceState, w.Hops, w.Dispatches, w.Reason, w.Message}
	return j, j.check()
}

func (j Job) check() error {
	switch {
	case !validJobID(j.ID):
		return fmt.Errorf("%w: its id is not 1 to 128 letters, digits, hyphens and underscores", ErrJob)
	case !validTenant(j.Tenant), j.From != "" && !validTenant(j.From):
		return fmt.Errorf("%w: a tenant's id is 1 to 128 bytes of UTF-8", ErrJob)
	case !validMethod(j.Method):
		return fmt.Errorf("%w: its method is not 1 to 32 upper-case letters and hyphens", ErrJob)
	case !validPath(j.Path, j.Query):
		return fmt.Errorf("%w: its path is not one that begins with a single /, percent-encoded, or it or its query is longer than 8 KiB", ErrJob)
	case j.Key != "" && !validIdempotencyKey(j.Key):
		return fmt.Errorf("%w: its idempotency key is not 1 to 257 bytes of printable ASCII", ErrJob)
	case j.Dispatches < 0 || j.Dispatches > maxCount:
		return fmt.Errorf("%w: dispatched %d times", ErrJob, j.Dispatches)
	case j.Hops < 0 || j.Hops > maxCount:
		return fmt.Errorf("%w: sent on %d times", ErrJob, j.Hops)
	}
	for _, text := range []string{j.Shard, j.ContentType, j.RequestID, j.TraceParent, j.TraceState, j.Reason} {
		if len(text) > maxJobText || !printableASCII(text) {
			return fmt.Errorf("%w: one of its texts is longer than 1 KiB, or no printable ASCII", ErrJob)
		}
	}
	return nil
}

// validPath says whether a request can be made of path and query that means these, and nothing of a host.
func validPath(path, query string) bool {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || len(path) > maxJobPath || len(query) > maxJobPath ||
		!printableASCII(path) || !printableASCII(query) || strings.ContainsAny(path, "?# ") || strings.ContainsAny(query, "# ") {
		return false
	}
	u, err := url.ParseRequestURI(path)
	return err == nil && u.Host == ""
}

func validMethod(method string) bool {
	for i := range len(method) {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return method != "" && len(method) <= 32
}

func validJobID(id string) bool {
	for i := range len(id) {
		if c := id[i]; !unreserved(c) || c == '.' || c == '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

func printableASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Request returns what the shard's service is asked, behind its Guard. j must come from ParseJob; it is for the
// shard in whose queue it waited, so that HeaderShard is that of the job.
func (j Job) Request(ctx context.Context) (*http.Request, error) {
	target := j.Path
	if j.Query != "" {
		target += "?" + j.Query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJob, err)
	}
	r, err := http.NewRequestWithContext(ctx, j.Method, "/", bytes.NewReader(j.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJob, err)
	}
	r.URL, r.RequestURI = u, target
	key := j.Key
	if key == "" {
		key = j.ID
	}
	if j.Hops > 0 {
		r.Header.Set(HeaderHops, strconv.Itoa(j.Hops))
	}
	for name, value := range map[string]string{
		HeaderTenant: encodeTenant(j.Tenant), HeaderEpoch: strconv.FormatUint(j.Epoch, 10), HeaderShard: j.Shard,
		HeaderJob: j.ID, HeaderFrom: encodeTenant(j.From), HeaderIdempotencyKey: key, "Content-Type": j.ContentType,
		headerRequestID: j.RequestID, headerTraceParent: j.TraceParent, headerTraceState: j.TraceState,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		r.Header.Set(HeaderDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
	return r, nil
}

// Headers that pass through unchanged.
const (
	headerRequestID   = "X-Request-Id"
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)
