package handler

import (
	"net"
	"net/http"
	"strings"
)

// A shard gets one address of whoever asked: the last of X-Forwarded-For (package routing), which the ingress
// appended. Here the router is its own ingress, or stands behind a front door whose address is nobody's.

// fromPeer writes the peer's address, scheme and port over what the client sent of them.
func fromPeer(h http.Header, r *http.Request) {
	h.Del("X-Forwarded-For")
	h.Del("X-Forwarded-Port")
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", host)
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	h.Set("X-Forwarded-Proto", scheme)
}

// throughFrontDoor takes the front door's own address from the end of X-Forwarded-For, where the cell's ingress
// appended it, so that the one before it counts, which the front door's ingress appended.
func throughFrontDoor(h http.Header) {
	chain := strings.Join(h.Values("X-Forwarded-For"), ",")
	if i := strings.LastIndexByte(chain, ','); i >= 0 {
		h.Set("X-Forwarded-For", chain[:i])
	}
}
