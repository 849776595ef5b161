package routing

import (
	"net/http"
	"strings"
	"testing"
)

func TestTraceID(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for value, want := range map[string]string{
		"00-" + trace + "-" + parent + "-01":                   trace,
		"00-" + trace + "-" + parent + "-00":                   trace,
		"cc-" + trace + "-" + parent + "-01-what-the-future":   trace,
		"cc-" + trace + "-" + parent + "-01":                   trace,
		"cc-" + trace + "-" + parent + "-01.what":              "",
		"00-" + trace + "-" + parent + "-01-more":              "",
		"ff-" + trace + "-" + parent + "-01":                   "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01": "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":  "",
		"00-" + strings.ToUpper(trace) + "-" + parent + "-01":  "",
		"00-" + trace[1:] + "-" + parent + "-01":               "",
		"00-" + trace[:31] + "g-" + parent + "-01":             "",
		"":                                    "",
		"00_" + trace + "_" + parent + "_01":  "",
		"00-" + trace + "-" + parent + "-0\n": "",
		"00-" + trace + "-" + parent + "-01, 00-" + trace + "-1": "",
	} {
		if got := traceID(http.Header{"Traceparent": {value}}); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := traceID(http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01", "00-" + trace + "-" + parent + "-01"}}); got != "" {
		t.Errorf("two headers: %q", got)
	}
}
