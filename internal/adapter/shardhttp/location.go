package shardhttp

import (
	"net/http"
	"net/url"
	"strings"
)

// locations are the headers of an answer that hold an address which may be the service's own.
var locations = [...]string{"Location", "Content-Location"}

// withoutHost makes paths of the addresses in an answer that have the host by which the shard was asked, whatever
// their scheme and port: services, and the servers before them, take it for their public name. One that cannot be
// read is left out where it may name the shard.
func withoutHost(h http.Header, host string) {
	for _, name := range locations {
		values := h[name]
		for i := 0; i < len(values); i++ {
			u, err := url.Parse(values[i])
			switch {
			case err != nil && strings.Contains(strings.ToLower(values[i]), strings.ToLower(host)):
				h.Del(name)
				values = nil
			case err == nil && strings.EqualFold(u.Hostname(), host):
				values[i] = pathOf(u)
			}
		}
	}
}

// pathOf is an address without scheme and host. A path that begins like a host is not taken for one (RFC 3986,
// section 4.2).
func pathOf(u *url.URL) string {
	path := u.EscapedPath()
	switch {
	case path == "":
		path = "/"
	case strings.HasPrefix(path, "//"):
		path = "/." + path
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		path += "#" + u.EscapedFragment()
	}
	return path
}
