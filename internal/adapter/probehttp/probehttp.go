// Package probehttp sends the probe's requests to cells over HTTP, with the bearer tokens of test tenants.
//
// Ingress and tokens stand in a file that the operator keeps, which others may not read:
//
//	{"eu-canary": {"url": "https://abc.execute-api.eu-west-1.amazonaws.com", "tokens": ["eyJ…", "eyJ…"]}}
//
// It is read anew for each request, so that a token that runs out is replaced by writing the file again (to another name, and
// renamed). A cell's tokens take turns. No error, log or text of a value has a token.
package probehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cellwall.dev/cellwall/internal/rollout/probe"
)

const (
	timeout    = 10 * time.Second // of a request, until its answer has ended
	mostAnswer = 64 << 10         // bytes that are read of an answer
	mostFile   = 1 << 20          // bytes of the file
	mostTokens = 1000             // of a cell
	mostToken  = 16 << 10         // bytes of one
)

// ErrFile means that the file of ingresses and tokens cannot be used. It comes wrapped.
var ErrFile = errors.New("the probe's file cannot be used")

// token gives the secret; a function has no form in which it could be shown.
type token func() string

// target is where a cell is asked, by whom.
type target struct {
	url    *url.URL
	tokens []token
}

// Sender asks cells for one path.
type Sender struct {
	file, path string
	cells      []string
	client     *http.Client
	turn       atomic.Uint64
}

var _ probe.Sender = (*Sender)(nil)

// New is a sender for the cells that stand in a file. Each must be one of the fleet's. ErrFile when the file is wrong.
func New(file, path string, fleet []string) (*Sender, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("the probe's path is %q: it must begin with /", path)
	}
	s := &Sender{file: file, path: path, client: &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // with a token to nobody else
	}}
	targets, err := s.read()
	if err != nil {
		return nil, err
	}
	for cell := range targets {
		if !slices.Contains(fleet, cell) {
			return nil, s.wrong("it names cell %q, which the fleet does not have", cell)
		}
	}
	if s.cells = slices.Sorted(maps.Keys(targets)); len(s.cells) == 0 {
		return nil, s.wrong("it names no cell")
	}
	return s, nil
}

// Cells implements probe.Sender.
func (s *Sender) Cells() []string { return slices.Clone(s.cells) }

// Send implements probe.Sender. An answer is good with a status of 200 to 299; with 401 or 403 the token is not taken, which says
// nothing of the cell.
func (s *Sender) Send(ctx context.Context, cell string) error {
	targets, err := s.read()
	if err != nil {
		return fmt.Errorf("%w: %w", probe.ErrUnsent, err)
	}
	t, ok := targets[cell]
	if !ok {
		return fmt.Errorf("%w: %w", probe.ErrUnsent, s.wrong("it does not name cell %s any more", cell))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", probe.ErrUnsent, err)
	}
	by := t.tokens[s.turn.Add(1)%uint64(len(t.tokens))]
	request.Header.Set("Authorization", "Bearer "+by())
	request.Header.Set("User-Agent", "cellwall-probe")
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("probe of cell %s: %w", cell, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, mostAnswer)); err != nil {
		return fmt.Errorf("probe of cell %s: the answer ends early: %w", cell, err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w: cell %s answers %d: it does not take the test tenant's token", probe.ErrUnsent, cell, code)
	case code < 200 || code > 299:
		return fmt.Errorf("probe of cell %s: it answers %d", cell, code)
	}
	return nil
}

func (s *Sender) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrFile, s.file, fmt.Errorf(format, args...))
}

// read is the file as it is now. What is said of it has no part of its contents but the names of cells that are well-formed.
func (s *Sender) read() (map[string]target, error) {
	f, err := os.Open(s.file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	case !info.Mode().IsRegular():
		return nil, s.wrong("it is no file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, s.wrong("others may read it, and it has tokens: chmod 600 it")
	}
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if len(text) > mostFile {
		return nil, s.wrong("it has more than %d bytes", mostFile)
	}
	var cells map[string]struct {
		URL    string   `json:"url"`
		Tokens []string `json:"tokens"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&cells) != nil || d.Decode(new(any)) != io.EOF {
		return nil, s.wrong(`it is not of the form {"CELL": {"url": "https://…", "tokens": ["…"]}}, near byte %d`, d.InputOffset())
	}
	targets := map[string]target{}
	for name, c := range cells {
		if !cellName.MatchString(name) {
			return nil, s.wrong("it has a name that no cell can have")
		}
		u, err := s.address(c.URL)
		if err != nil {
			return nil, s.wrong("cell %s: %w", name, err)
		}
		t := target{url: u}
		for i, text := range c.Tokens {
			if len(text) > mostToken || !bearer.MatchString(text) {
				return nil, s.wrong("cell %s: token %d is none that a header could carry (RFC 6750)", name, i+1)
			}
			t.tokens = append(t.tokens, func() string { return text })
		}
		if len(t.tokens) == 0 || len(t.tokens) > mostTokens {
			return nil, s.wrong("cell %s has %d tokens; it needs 1 to %d", name, len(t.tokens), mostTokens)
		}
		targets[name] = t
	}
	return targets, nil
}

var (
	cellName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)
	bearer   = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
)

// address is what is asked of an ingress. A token goes over TLS, or stays on this machine.
func (s *Sender) address(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("its url is not of the form https://HOST, with a path at most")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return nil, errors.New("its url must begin with https://: a token must not be sent in the clear")
	}
	whole, err := url.Parse(strings.TrimRight(u.String(), "/") + s.path)
	if err != nil || whole.Host != u.Host {
		return nil, errors.New("its url and the probe's path make no address")
	}
	whole.Fragment = ""
	return whole, nil
}
