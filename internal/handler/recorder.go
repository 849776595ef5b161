package handler

import (
	"bytes"
	"io"
	"net/http"

	"cellwall.dev/cellwall/internal/routing"
)

// recorder is an http.ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || status < 200 { // 1xx answers go before the answer
		return
	}
	r.status, r.sent = status, r.header.Clone()
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		if r.header.Get("Content-Type") == "" {
			r.header.Set("Content-Type", http.DetectContentType(p))
		}
		r.WriteHeader(http.StatusOK)
	}
	return r.body.Write(p)
}

// response is what was answered, the empty answer when the service said nothing.
func (r *recorder) response() *routing.Response {
	r.WriteHeader(http.StatusOK)
	return &routing.Response{Status: r.status, Header: r.sent, Body: r.body.Bytes()}
}

// streamAfter is how much of an answer is kept, in bytes, before it becomes a stream. An answer that is whole can
// be asked for again elsewhere if it is lost on the way; a stream cannot.
const streamAfter = 64 << 10

// streamRecorder is an http.ResponseWriter that keeps the answer until the service flushes it or it grows, and
// hands it on from then.
type streamRecorder struct {
	recorder
	begun chan<- *routing.Response // gets the answer once, when it becomes a stream
	pipe  *io.PipeWriter           // not nil when it did
}

// Flush implements http.Flusher.
func (r *streamRecorder) Flush() {
	if r.pipe != nil {
		return // nothing is kept
	}
	kept := r.response()
	var body *io.PipeReader
	body, r.pipe = io.Pipe()
	r.begun <- &routing.Response{Status: kept.Status, Header: kept.Header, Stream: body}
	r.pipe.Write(kept.Body) // an error means that nobody reads, which the next Write says, too
}

func (r *streamRecorder) Write(p []byte) (int, error) {
	if r.pipe != nil {
		return r.pipe.Write(p)
	}
	n, err := r.recorder.Write(p)
	if r.recorder.body.Len() > streamAfter {
		r.Flush()
	}
	return n, err
}
