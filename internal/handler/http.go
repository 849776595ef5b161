package handler

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// HTTP routes HTTP requests of callers whom it identifies itself.
type HTTP struct{ config HTTPConfig }

// HTTPConfig is what an HTTP is made of.
type HTTPConfig struct {
	Router    Router
	Identity  identity.Source    // asked with the request's head alone, before a body is read
	Agreement identity.Agreement // with what path and body say, once the Router lets the request in; the zero value asks nothing of them
	Log       *slog.Logger       // tells operators why a request was refused

	// Stream passes answers on while they are being made. What breaks off then breaks off for the client, too,
	// where an answer that is waited for can come from another shard.
	Stream bool
}

// NewHTTP returns a handler for a router's own listener.
func NewHTTP(c HTTPConfig) *HTTP { return &HTTP{c} }

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write(w, r, h.serve(w, r))
}

// write answers r with resp.
func write(w http.ResponseWriter, r *http.Request, resp *routing.Response) {
	header := w.Header()
	for name, values := range resp.Header {
		header[name] = values
	}
	if len(resp.Body) > 0 && resp.Stream == nil && header["Content-Length"] == nil {
		header["Content-Length"] = []string{strconv.Itoa(len(resp.Body))} // or a large one went in chunks
	}
	w.WriteHeader(resp.Status)
	switch {
	case resp.Stream != nil:
		pass(w, r, resp.Stream)
	case r.Method != http.MethodHead:
		w.Write(resp.Body) // an error means that the client left
	}
}

// chunkSize is how much of a stream is passed on at once, in bytes.
const chunkSize = 32 << 10

// pass passes a stream on as it comes, and closes it. If it breaks off, so does the connection: the client must not
// take the half for the whole.
func pass(w http.ResponseWriter, r *http.Request, stream io.ReadCloser) {
	defer stream.Close()
	if r.Method == http.MethodHead {
		return
	}
	stop := context.AfterFunc(r.Context(), func() { stream.Close() }) // the client left
	defer stop()
	flusher := http.NewResponseController(w)
	chunk := make([]byte, chunkSize)
	for {
		n, err := stream.Read(chunk)
		if _, gone := w.Write(chunk[:n]); gone != nil {
			return
		}
		flusher.Flush() // an error means that this writer keeps nothing, or that the client left
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) (resp *routing.Response) {
	defer recovered(h.config.Log, func(problem *routing.Response) { resp = problem })
	header := maps.Clone(r.Header)    // values are replaced here, and never changed
	header["Host"] = []string{r.Host} // net/http keeps it apart
	e := &awsevent.Event{Request: routing.Request{
		Method: r.Method, Path: sentPath(r.URL), RawQuery: r.URL.RawQuery, Header: header, Stream: h.config.Stream,
	}}
	caller, refusal := identify(r.Context(), h.config.Identity, e, h.config.Log)
	if refusal != nil {
		return named(refusal, &e.Request)
	}
	e.Request.Complete = func(id string) (refusal *routing.Response) {
		if e.Request.Body, refusal = readBody(w, r); refusal != nil {
			return refusal
		}
		return agree(h.config.Agreement, caller, &e.Request, id, h.config.Log)
	}
	if e.Request.FrontDoor = caller.FrontDoor; !caller.FrontDoor { // which says for whom it asks
		fromPeer(header, r)
	}
	return h.config.Router.Serve(r.Context(), caller.Tenant, &e.Request)
}

// sentPath is a path as its client sent it. EscapedPath encodes one anew that has a byte which should have been
// encoded, and makes slashes of those that were.
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// readBody reads a request's body, or says what to answer.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *routing.Response) {
	const most = "the body is larger than 6 MB"
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > routing.MaxBody: // without waiting for what cannot be carried
		return nil, routing.Problem(http.StatusRequestEntityTooLarge, most)
	}
	body, err := routing.ReadBody(http.MaxBytesReader(w, r.Body, routing.MaxBody), r.ContentLength)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, routing.Problem(http.StatusRequestEntityTooLarge, most)
	case err != nil:
		return nil, routing.Problem(http.StatusBadRequest, "the body could not be read")
	}
	return body, nil
}
