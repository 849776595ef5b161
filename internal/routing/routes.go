package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// Ways to a shard, as routes name them.
const (
	ViaLambda = "lambda"
	ViaHTTP   = "http"
	ViaQueue  = "queue"
	ViaCell   = "cell" // a front door's: the router of the tenant's cell
)

// Route sends the paths that match it by one transport. One via queue takes POST, PUT, PATCH and DELETE
// only, and one with Fanout takes GET only; other methods go on to the next route that matches.
type Route struct {
	Path    string        // begins with /; a trailing /* stands for the rest, which may be empty
	Via     string        // one of the ways to a shard
	Fanout  bool          // every member of the subset is asked, and the answer is a Gathered; not via queue
	Timeout time.Duration // of one attempt; 0 is Config.AttemptTimeout
}

// routeJSON is a Route as it is written.
type routeJSON struct {
	Path    string `json:"path"`
	Via     string `json:"via"`
	Fanout  bool   `json:"fanout,omitempty"`
	Timeout string `json:"timeout,omitempty"` // such as 3s
}

// MarshalJSON writes {"path":"/*","via":"lambda","fanout":true,"timeout":"3s"}.
func (r Route) MarshalJSON() ([]byte, error) {
	j := routeJSON{Path: r.Path, Via: r.Via, Fanout: r.Fanout}
	if r.Timeout != 0 {
		j.Timeout = r.Timeout.String()
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing beside it.
func (r *Route) UnmarshalJSON(text []byte) error {
	var j routeJSON
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return err
	}
	*r = Route{Path: j.Path, Via: j.Via, Fanout: j.Fanout}
	if j.Timeout == "" {
		return nil
	}
	var err error
	if r.Timeout, err = time.ParseDuration(j.Timeout); err != nil {
		return fmt.Errorf("timeout of route %q: %w", j.Path, err)
	}
	return nil
}

// maxPath bounds a path, in bytes. No request line is longer before a load balancer, which allows the most of those
// that send events (16 KB; API Gateway allows 10,240 bytes: quotas of Elastic Load Balancing and of API Gateway). The
// local router's listener takes more.
const maxPath = 16 << 10

var (
	errLongPath  = errors.New("the path is too long")
	errNoRoute   = errors.New("no route matches the path")
	errAmbiguous = errors.New("the path can be read in more than one way")
	errBadPath   = errors.New("the path is not a valid URL path")
)

// routes are tried in order; the first match wins. Patterns are compared byte for byte.
type routes []route

type route struct {
	path    string // as given
	pattern string // without the star
	rest    bool   // the star was there
	via     string
	fanout  bool
	timeout time.Duration
}

func newRoutes(given []Route) (routes, error) {
	if len(given) == 0 {
		return nil, errors.New("no routes: give at least one, such as /* via lambda")
	}
	rs := make(routes, len(given))
	for i, r := range given {
		pattern, rest := strings.CutSuffix(r.Path, "/*")
		if rest {
			pattern += "/"
		}
		if !strings.HasPrefix(pattern, "/") || strings.Contains(pattern, "*") {
			return nil, fmt.Errorf("route %q: a path begins with / and has no * but a trailing /*", r.Path)
		}
		if decoded, err := url.PathUnescape(pattern); err != nil || tidy(decoded) != pattern {
			return nil, fmt.Errorf("route %q: a path is plain: no percent-encoding, dot segments or empty segments", r.Path)
		}
		if r.Via != ViaLambda && r.Via != ViaHTTP && r.Via != ViaQueue && r.Via != ViaCell {
			return nil, fmt.Errorf("route %q: via %q: want %s, %s or %s", r.Path, r.Via, ViaLambda, ViaHTTP, ViaQueue)
		}
		if r.Fanout && r.Via == ViaCell {
			return nil, fmt.Errorf("route %q: fanout via %s: a tenant has one cell", r.Path, ViaCell)
		}
		if r.Fanout && r.Via == ViaQueue {
			return nil, fmt.Errorf("route %q: fanout via %s: a queue gives no answers to gather", r.Path, ViaQueue)
		}
		if r.Timeout < 0 {
			return nil, fmt.Errorf("route %q: timeout %v: want more than nothing", r.Path, r.Timeout)
		}
		rs[i] = route{r.Path, pattern, rest, r.Via, r.Fanout, r.Timeout}
	}
	return rs, nil
}

// match returns the first route that takes a method and matches a percent-encoded path.
//
// Services differ in how they read a path (Readings). One that would take another route when read in another of
// these ways is refused, so that nobody can pick a route by spelling.
func (rs routes) match(method, rawPath string) (route, error) {
	i := -1
	if plain(rawPath) { // as nearly all are: nothing is allocated
		if !valid(rawPath) {
			return route{}, errBadPath
		}
		i = rs.first(method, rawPath)
	} else {
		readings, ok := Readings(rawPath)
		if !ok {
			return route{}, errBadPath
		}
		i = rs.first(method, readings[0])
		for _, reading := range readings[1:] {
			if rs.first(method, reading) != i {
				return route{}, errAmbiguous
			}
		}
	}
	if i < 0 {
		return route{}, errNoRoute
	}
	return rs[i], nil
}

// plain says whether a path can be read in one way only, which nearly all can.
func plain(rawPath string) bool {
	return !strings.ContainsAny(rawPath, `%\;`) && !strings.Contains(rawPath, "//") && !strings.Contains(rawPath, "/.")
}

// valid says whether a text can be a path, but for its percent signs.
func valid(rawPath string) bool {
	return strings.HasPrefix(rawPath, "/") && !strings.ContainsAny(rawPath, "?#\x00")
}

// slashes reads backslashes as some servers on Windows do.
func slashes(p string) string { return strings.ReplaceAll(p, `\`, "/") }

// unescapeSegments decodes everything but encoded slashes, which stay part of their segment. rawPath
// was found valid.
func unescapeSegments(rawPath string) string {
	if !strings.Contains(rawPath, "%") {
		return rawPath
	}
	segments := strings.Split(rawPath, "/")
	for i, s := range segments {
		s, _ = url.PathUnescape(s)
		segments[i] = strings.ReplaceAll(s, "/", "%2F")
	}
	return strings.Join(segments, "/")
}

// tidy resolves dot segments and doubled slashes, and keeps a trailing slash.
func tidy(p string) string {
	clean := path.Clean(p)
	last := p[strings.LastIndexByte(p, '/')+1:]
	if clean != "/" && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

// first returns the index of the first route that takes the method and matches, -1 when none does.
func (rs routes) first(method, p string) int {
	for i, r := range rs {
		if r.takes(method) && (p == r.pattern || r.rest && strings.HasPrefix(p, r.pattern)) {
			return i
		}
	}
	return -1
}

// takes says whether requests of this method may travel the route's way. A queue takes those methods
// that change something by definition (RFC 9110, section 9.3; RFC 5789): an answer of 202 to a question
// would be none, and a method that nobody here knows may ask one. Every member of a subset can be asked, but not
// told: one that fails would leave the others ahead of it.
func (r route) takes(method string) bool {
	if r.fanout {
		return method == http.MethodGet
	}
	if r.via != ViaQueue {
		return true
	}
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}
