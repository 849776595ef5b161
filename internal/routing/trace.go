package routing

import "net/http"

// traceID is the trace that a client's request belongs to, 32 hexadecimal digits, by its traceparent (W3C Trace
// Context, level 1, section 3.2.2); "" when it has none, or one that no receiver may use.
func traceID(h http.Header) string {
	values := h["Traceparent"]
	if len(values) != 1 {
		return ""
	}
	v := values[0]
	// version "-" trace "-" parent "-" flags; later versions may append more.
	if len(v) < 55 || len(v) > 55 && (v[:2] == "00" || v[55] != '-') || v[2] != '-' || v[35] != '-' || v[52] != '-' || v[:2] == "ff" {
		return ""
	}
	zero := [2]bool{true, true}
	for i := range 55 {
		if i == 2 || i == 35 || i == 52 {
			continue
		}
		c := v[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		switch {
		case i > 2 && i < 35:
			zero[0] = zero[0] && c == '0'
		case i > 35 && i < 52:
			zero[1] = zero[1] && c == '0'
		}
	}
	if zero[0] || zero[1] {
		return ""
	}
	return v[3:35]
}
