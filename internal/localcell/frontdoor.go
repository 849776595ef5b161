package localcell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"time"

	"cellwall.dev/cellwall/internal/adapter/httpdir"
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/dircache"
	"cellwall.dev/cellwall/internal/directory"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/localcell/loopback"
	"cellwall.dev/cellwall/internal/routing"
)

// headerFrontDoor carries the secret by which a cell knows the front door.
const headerFrontDoor = identity.HeaderSecret

// frontDoorHealth is a path that no route may have: a raw dot segment.
const frontDoorHealth = "/.cellwall/healthz"

// frontSettings is the front door process's file.
type frontSettings struct {
	Issuer          string            `json:"issuer"`
	Audience        string            `json:"audience"`
	Claim           string            `json:"claim"`
	Directory       string            `json:"directory"`
	DirectorySecret string            `json:"directorySecret"`
	Secret          string            `json:"secret"` // shown to the cells
	Cells           map[string]string `json:"cells"`  // address of the router by cell
}

// RunFrontDoor is the front door process: it sends each tenant's requests to the cell where the directory has
// the tenant, on the listener that it inherited, until ctx ends.
func RunFrontDoor(ctx context.Context, d Dir) error {
	var s frontSettings
	if err := d.readJSON(fileFrontDoor, &s); err != nil {
		return fmt.Errorf("the front door's settings: %w", err)
	}
	listener, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	home, err := httpdir.NewClient(s.Directory, s.DirectorySecret, nil)
	if err != nil {
		return err
	}
	entries, err := dircache.New(dircache.Config{Directory: &lookup{home: home}, TTL: entryTTL, Negative: strangerTTL})
	if err != nil {
		return err
	}
	tokens, err := tokenverify.New(tokenverify.Config{Issuer: s.Issuer, Audience: s.Audience, Claim: s.Claim})
	if err != nil {
		return err
	}
	f := newFrontDoor(s, entries, tokens, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+frontDoorHealth, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("/", f)
	return loopback.Serve(ctx, listener, mux)
}

// frontDoor sends tenants to their cells.
type frontDoor struct {
	entries routing.Entries
	tokens  identity.TokenVerifier
	cells   map[string]*httputil.ReverseProxy
	log     *slog.Logger
}

func newFrontDoor(s frontSettings, entries routing.Entries, tokens identity.TokenVerifier, log *slog.Logger) *frontDoor {
	f := &frontDoor{entries: entries, tokens: tokens, cells: map[string]*httputil.ReverseProxy{}, log: log}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 50 * time.Second, DisableCompression: true}
	for cell, base := range s.Cells {
		f.cells[cell] = &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "http", host(base)
				r.Out.URL.RawQuery = r.In.URL.RawQuery // the cell's to judge, as it was sent
				r.Out.Host = r.In.Host
				for name := range r.Out.Header {
					if strings.HasPrefix(strings.ToLower(name), "cellwall-") {
						delete(r.Out.Header, name)
					}
				}
				r.Out.Header.Set(headerFrontDoor, s.Secret)
				r.SetXForwarded()   // the client's address, which the cell cannot see
				r.Out.GetBody = nil // what was sent once is not sent again unseen
			},
			Transport:     transport,
			FlushInterval: -1,
			ModifyResponse: func(resp *http.Response) error {
				if resp.StatusCode == http.StatusMisdirectedRequest {
					return errMoved
				}
				return nil
			},
			ErrorHandler: f.failed,
			ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		}
	}
	return f
}

// errMoved is a cell's word that the tenant is another's.
var errMoved = errors.New("the tenant is of another cell")

// movedKey is where a request's context has the place for that word.
type movedKey struct{}

// failed answers for a cell that did not, but for a tenant of another cell: then ServeHTTP goes on.
func (f *frontDoor) failed(w http.ResponseWriter, r *http.Request, err error) {
	if moved, ok := r.Context().Value(movedKey{}).(*bool); ok && errors.Is(err, errMoved) {
		*moved = true
		return
	}
	f.log.Error("a cell's router did not answer", "err", err)
	problem(w, http.StatusBadGateway, "the service did not answer; whether the request had an effect is not known")
}

// ServeHTTP verifies the token, asks the directory for the tenant's cell, and has that answer. The cell verifies
// the token again. When it answers that the tenant is another cell's, which the directory may have learned a
// moment ago, the entry is read afresh and followed once; nothing was done in the first cell.
func (f *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := identity.Bearer(r.Header)
	var tenant string
	if err == nil {
		tenant, err = f.tokens.Verify(r.Context(), token)
	}
	switch {
	case errors.Is(err, routing.ErrToken):
		problem(w, http.StatusUnauthorized, "a valid bearer token is needed")
		return
	case err != nil:
		f.log.Error("token could not be judged", "err", err)
		problem(w, http.StatusServiceUnavailable, "tokens cannot be verified at the moment; nothing was done")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, routing.MaxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		problem(w, http.StatusRequestEntityTooLarge, "the body is larger than 6 MB")
		return
	} else if err != nil {
		problem(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	known, err := f.entries.Entry(r.Context(), tenant)
	if err != nil {
		f.unknown(w, err)
		return
	}
	if !f.pass(w, r, known.Cell, body) {
		return
	}
	fresh, err := f.entries.Fresh(r.Context(), tenant, known.Epoch)
	switch {
	case err != nil:
		f.unknown(w, err)
	case fresh.Epoch <= known.Epoch:
		f.log.Error("a cell refuses a tenant that the directory has there", "cell", known.Cell)
		problem(w, http.StatusServiceUnavailable, "the tenant cannot be served at the moment; nothing was done")
	case f.pass(w, r, fresh.Cell, body):
		problem(w, http.StatusServiceUnavailable, "the tenant is on its way to another place; nothing was done")
	}
}

// pass has a cell answer. moved is true when nothing was answered, since the tenant is of another cell.
func (f *frontDoor) pass(w http.ResponseWriter, r *http.Request, cell string, body []byte) (moved bool) {
	proxy, ok := f.cells[cell]
	if !ok {
		f.unknown(w, directory.ErrNotFound) // of a cell that does not run here
		return false
	}
	out := r.WithContext(context.WithValue(r.Context(), movedKey{}, &moved))
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	proxy.ServeHTTP(w, out)
	return moved
}

// unknown answers when the directory does not name a cell that runs.
func (f *frontDoor) unknown(w http.ResponseWriter, err error) {
	if errors.Is(err, directory.ErrNotFound) {
		problem(w, http.StatusNotFound, "this tenant is not known here")
		return
	}
	f.log.Error("the directory does not answer", "err", err)
	problem(w, http.StatusServiceUnavailable, "the tenant could not be looked up; nothing was done")
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	resp := routing.Problem(status, detail)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.Status)
	w.Write(resp.Body) // an error means that the client left
}
