package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Job is a request that waits in a shard's queue.
type Job struct {
	ID          string `json:"id"`     // given by the router, the same in every delivery
	Tenant      string `json:"tenant"` // as EncodeTenant writes it, so that the message is plain text
	Epoch       uint64 `json:"epoch"`
	Shard       string `json:"shard"`
	Method      string `json:"method"`
	Path        string `json:"path"` // percent-encoded
	RawQuery    string `json:"query,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	Body        []byte `json:"body,omitempty"` // base64 in the message
}

// NewJob writes a request down as a job for the shard of the call. Of the client's headers only the
// content type goes along: a queue is no place for tokens.
func NewJob(id string, call Call, req *Request) Job {
	contentType := req.Header.Get("Content-Type")
	if strings.IndexFunc(contentType, func(r rune) bool { return r > 0x7e }) >= 0 {
		contentType = "" // no media type, and a queue does not take every character
	}
	return Job{
		ID: id, Tenant: EncodeTenant(call.Tenant), Epoch: call.Epoch, Shard: call.Shard,
		Method: req.Method, Path: req.Path, RawQuery: req.RawQuery, ContentType: contentType, Body: req.Body,
	}
}

// ParseJob reads the message of a job.
func ParseJob(message []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(message, &j); err != nil {
		return Job{}, fmt.Errorf("job message: %w", err)
	}
	if _, err := DecodeTenant(j.Tenant); err != nil {
		return Job{}, fmt.Errorf("job message: %w", err)
	}
	if j.ID == "" || j.Method == "" || !strings.HasPrefix(j.Path, "/") {
		return Job{}, errors.New("job message: id, method or path is missing")
	}
	return j, nil
}

// Request returns what the shard's service is asked, with the router's headers.
func (j Job) Request() *Request {
	// ParseJob decoded the tenant already; NewJob encoded it.
	tenant, _ := DecodeTenant(j.Tenant)
	client := http.Header{}
	if j.ContentType != "" {
		client.Set("Content-Type", j.ContentType)
	}
	return &Request{
		Method: j.Method, Path: j.Path, RawQuery: j.RawQuery, Body: j.Body,
		Header: forShard(client, Call{Tenant: tenant, Epoch: j.Epoch, Shard: j.Shard}),
	}
}
