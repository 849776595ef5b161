package routing

import (
	"net/http"
	"strings"
)

// HeaderRequestID names a request for everybody who handles it. traceparent and tracestate (W3C Trace Context)
// pass through as they are.
const HeaderRequestID = "X-Request-Id"

// RequestID is the client's own id of its request, when that is one of 1 to 128 letters, digits and -._~:/+=,
// which no log or header can misread; otherwise "".
func RequestID(h http.Header) string {
	values := h[HeaderRequestID]
	if len(values) != 1 || len(values[0]) > 128 {
		return ""
	}
	id := values[0]
	for i := range len(id) {
		if c := id[i]; !unreserved(c) && strings.IndexByte(":/+=", c) < 0 {
			return ""
		}
	}
	return id
}
