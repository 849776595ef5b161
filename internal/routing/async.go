package routing

import (
	"net/http"
	"strings"
)

// PreferAsync is the preference (RFC 7240, section 4.1) by which a client has its request wait in a queue, where a
// route says otherwise. Its answer is 202 with the job's id.
const PreferAsync = "respond-async"

// queueInstead sends the request by the queue where its client prefers that, the cell has one, and the route and
// the method allow it.
func (s *serving) queueInstead() {
	if s.config.Transports[ViaQueue] == nil || s.route.fanout || s.route.via == ViaQueue || !prefersAsync(s.req.Header) {
		return
	}
	queued := s.route
	queued.via = ViaQueue
	if queued.takes(s.req.Method) {
		s.route, s.queuedByWish = queued, true
	}
}

// applied says in an answer that the preference was honoured (RFC 7240, section 3).
func (s *serving) applied(resp *Response) {
	if s.queuedByWish && resp.Status == http.StatusAccepted {
		resp.Header.Set("Preference-Applied", PreferAsync)
	}
}

// prefersAsync says whether the header has the preference: a token without a value, in any case, among others in
// one header or several.
func prefersAsync(h http.Header) bool {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, ";") // its parameters
			if strings.EqualFold(strings.TrimSpace(name), PreferAsync) {
				return true
			}
		}
	}
	return false
}
