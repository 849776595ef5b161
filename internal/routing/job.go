package routing

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Job is a request that waits in a shard's queue, or in the cell's dispatch queue, from which a router places it.
// Its JSON is that of shardkit.Job, which the shard reads; a test there holds both to the same messages.
type Job struct {
	ID          string `json:"id"`     // given once, the same in every delivery and after every dispatch
	Tenant      string `json:"tenant"` // as EncodeTenant writes it, so that the message is plain text
	Epoch       uint64 `json:"epoch"`  // of the entry by which the shard was chosen; 0 when none was
	Shard       string `json:"shard,omitempty"`
	From        string `json:"from,omitempty"` // tenant for which a shard sent it, as EncodeTenant writes it
	Method      string `json:"method"`
	Path        string `json:"path"` // percent-encoded
	RawQuery    string `json:"query,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	Key         string `json:"key,omitempty"`  // Idempotency-Key; the job's id when empty
	Body        []byte `json:"body,omitempty"` // base64 in the message
	RequestID   string `json:"requestId,omitempty"`
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
	Hops        int    `json:"hops,omitempty"`       // how many times shards sent, one job from another, to come to it
	Dispatches  int    `json:"dispatches,omitempty"` // how often a shard gave it back
	Reason      string `json:"reason,omitempty"`     // why it is among the dead letters
}

// Bounds of a job, in bytes.
const (
	MaxJob     = 1 << 20 // of the message (SQS quotas, message size)
	maxJobText = 1 << 10 // of a text but path and query
	maxJobPath = 8 << 10 // of the path, and of the query
	maxJobKey  = 257     // of the idempotency key with its quotes
)

// MaxHops is how many jobs may lead one to the next. It is shardkit.MaxHops.
const MaxHops = 64

// Headers that go along with a job, or that tell the shard of it.
const (
	headerJob         = "Cellwall-Job"
	headerFrom        = "Cellwall-From"
	headerHops        = "Cellwall-Hops"
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)

// NewJob writes a request down as a job for the shard of the call. Of the client's headers the content type,
// the idempotency key and those that follow a request go along: a queue is no place for tokens. A key that is
// none goes along too, so that Encode refuses the job: its sender counts on being able to repeat it.
//
// A request without a key gets a new id. One with a key gets an id that follows from tenant, key, method, path, query
// and body, so that its repeats name the same job, whichever shards they wait at.
func NewJob(call Call, req *Request) Job {
	j := Job{
		Tenant: EncodeTenant(call.Tenant), Epoch: call.Epoch, Shard: call.Shard,
		Method: req.Method, Path: req.Path, RawQuery: req.RawQuery, Body: req.Body,
		ContentType: jobText(req.Header, "Content-Type"), Key: jobKey(req.Header),
		RequestID: jobText(req.Header, HeaderRequestID), TraceParent: jobText(req.Header, headerTraceParent), TraceState: jobText(req.Header, headerTraceState),
	}
	if j.ID = rand.Text(); j.Key != "" {
		j.ID = keyedJobID(j)
	}
	return j
}

// keyedJobID is base32(SHA-256), lower case, of what the job is. None of its parts has a line feed, or
// Encode refuses the job.
func keyedJobID(j Job) string {
	body := sha256.Sum256(j.Body)
	sum := sha256.Sum256([]byte(strings.Join([]string{j.Tenant, j.Key, j.Method, j.Path, j.RawQuery, hex.EncodeToString(body[:])}, "\n")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// jobText is the header's only value, and "" when a job cannot carry it: a request goes without a content type
// or without what only follows it. Without its key it does not: see NewJob.
func jobText(h http.Header, name string) string {
	all := h.Values(name)
	if len(all) != 1 || len(all[0]) > maxJobText || !printableASCII(all[0]) {
		return ""
	}
	return all[0]
}

// jobKey is the header's value; of several, one that check refuses.
func jobKey(h http.Header) string {
	switch all := h.Values(HeaderIdempotencyKey); len(all) {
	case 0:
		return ""
	case 1:
		if key := strings.Trim(all[0], " \t"); key != "" {
			return key
		}
	}
	return "\n"
}

// printableASCII says whether a text is printable ASCII.
func printableASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// Encode writes the job's message. It fails for a job that no shard would read, or no queue take.
func (j Job) Encode() ([]byte, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	message, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	if len(message) > MaxJob {
		return nil, fmt.Errorf("%w: a message of %d bytes, and a queue takes %d", ErrTooLarge, len(message), MaxJob)
	}
	return message, nil
}

// ParseJob reads the message of a job.
func ParseJob(message []byte) (Job, error) {
	if len(message) > MaxJob {
		return Job{}, fmt.Errorf("job message of %d bytes: want at most %d", len(message), MaxJob)
	}
	var j Job
	if err := json.Unmarshal(message, &j); err != nil {
		return Job{}, fmt.Errorf("job message: %w", err)
	}
	return j, j.check()
}

func (j Job) check() error {
	if _, err := DecodeTenant(j.Tenant); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	if j.From != "" {
		if _, err := DecodeTenant(j.From); err != nil {
			return fmt.Errorf("job: its sender: %w", err)
		}
	}
	if !jobID(j.ID) || !jobMethod(j.Method) || !jobPath(j.Path, j.RawQuery) {
		return errors.New("job: id, method or path is missing, or not valid")
	}
	if len(j.Key) > maxJobKey || !printableASCII(j.Key) || j.Dispatches < 0 || j.Dispatches > 1<<20 {
		return errors.New("job: its key is longer than 257 bytes or not printable, or the number of its dispatches is none")
	}
	if j.Hops < 0 || j.Hops > 1<<20 {
		return errors.New("job: the number of its hops is none")
	}
	for _, text := range []string{j.Shard, j.ContentType, j.RequestID, j.TraceParent, j.TraceState, j.Reason} {
		if len(text) > maxJobText || !printableASCII(text) {
			return errors.New("job: one of its texts is longer than 1 KiB, or not printable")
		}
	}
	return nil
}

func jobID(id string) bool {
	return id != "" && len(id) <= 128 && strings.IndexFunc(id, func(r rune) bool {
		return r > '~' || !unreserved(byte(r)) || r == '.' || r == '~'
	}) < 0
}

func jobMethod(method string) bool {
	return method != "" && len(method) <= 32 && strings.IndexFunc(method, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }) < 0
}

// jobPath says whether a request can be made of path and query that means these, and nothing of a host.
func jobPath(path, query string) bool {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || len(path) > maxJobPath || len(query) > maxJobPath ||
		!printableASCII(path) || !printableASCII(query) || strings.ContainsAny(path, "?# ") || strings.ContainsAny(query, "# ") {
		return false
	}
	u, err := url.ParseRequestURI(path)
	return err == nil && u.Host == ""
}

// Request returns what the shard's service is asked, with the router's headers.
func (j Job) Request() *Request {
	// ParseJob decoded the tenant already; NewJob encoded it.
	tenant, _ := DecodeTenant(j.Tenant)
	h := forShard(http.Header{}, Call{Tenant: tenant, Epoch: j.Epoch, Shard: j.Shard})
	key := j.Key
	if key == "" {
		key = j.ID
	}
	if j.Hops > 0 {
		h.Set(headerHops, strconv.Itoa(j.Hops))
	}
	for name, value := range map[string]string{
		"Content-Type": j.ContentType, headerJob: j.ID, headerFrom: j.From, HeaderIdempotencyKey: key,
		HeaderRequestID: j.RequestID, headerTraceParent: j.TraceParent, headerTraceState: j.TraceState,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return &Request{Method: j.Method, Path: j.Path, RawQuery: j.RawQuery, Body: j.Body, Header: h}
}
