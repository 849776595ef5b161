package routing

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers that the router sets for a shard, and that reach it from nobody else.
const (
	HeaderTenant = "Cellwall-Tenant" // the tenant, as EncodeTenant writes it
	HeaderEpoch  = "Cellwall-Epoch"  // the directory entry's epoch, decimal
	HeaderShard  = "Cellwall-Shard"  // the shard that is meant, so that it can refuse what is another's

	// HeaderDeadline is when the router stops waiting, in Unix milliseconds. Whoever goes on may overwrite
	// what another shard has done since.
	HeaderDeadline = "Cellwall-Deadline"
)

// SetDeadline writes ctx's deadline down for whoever gets the header, if there is one.
func SetDeadline(ctx context.Context, h http.Header) {
	if deadline, ok := ctx.Deadline(); ok {
		h.Set(HeaderDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
}

// Deadline reads what SetDeadline wrote; ok is false when there is nothing.
func Deadline(h http.Header) (deadline time.Time, ok bool, err error) {
	values := h.Values(HeaderDeadline)
	if len(values) == 0 {
		return time.Time{}, false, nil
	}
	millis, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || len(values) > 1 {
		return time.Time{}, false, fmt.Errorf("%s is %q: want one number of milliseconds", HeaderDeadline, values)
	}
	return time.UnixMilli(millis), true, nil
}

// HeaderToken carries the client's token where Authorization holds the signature of the front door that
// asks on the client's behalf. It is read from an authenticated front door only, and reaches no shard.
const HeaderToken = "Cellwall-Token"

// forShard returns the headers that a shard gets: the client's that travel on, and the router's own.
func forShard(client http.Header, call Call) http.Header {
	h := fromClient(client)
	tell(h, call, time.Time{})
	return h
}

// fromClient returns what a shard gets of a client's headers: all but those that HeaderFromClient drops and
// those of the connection.
func fromClient(client http.Header) http.Header {
	h := endToEnd(client, HeaderFromClient)
	delete(h, "Content-Length") // each transport states the length of what it carries
	vouched(client, h)
	return h
}

// tell writes for whom a shard is asked, and until when; the zero time is no bound.
func tell(h http.Header, call Call, deadline time.Time) {
	values := [...]string{EncodeTenant(call.Tenant), strconv.FormatUint(call.Epoch, 10), call.Shard, ""}
	h[HeaderTenant], h[HeaderEpoch], h[HeaderShard] = values[0:1:1], values[1:2:2], values[2:3:3]
	delete(h, HeaderDeadline)
	if !deadline.IsZero() {
		values[3] = strconv.FormatInt(deadline.UnixMilli(), 10)
		h[HeaderDeadline] = values[3:4:4]
	}
}

// forClient returns the headers that a client gets of a shard's answer. The length is kept where it
// describes a body that is not there.
func forClient(shard http.Header, method string, status int) http.Header {
	h := endToEnd(shard, HeaderFromShard)
	if method != http.MethodHead && status != http.StatusNotModified {
		h.Del("Content-Length")
	}
	return h
}

// endToEnd copies the headers that travel on, under canonical names.
func endToEnd(in http.Header, passes func(name string) bool) http.Header {
	named := connectionOptions(in)
	out := make(http.Header, len(in)+5) // and the router's own
	for name, values := range in {
		if !token(name) || !passes(name) || named != nil && named[fold(name)] {
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		if out[canonical] == nil && allPrintable(values) {
			out[canonical] = values[:len(values):len(values)] // shared: whoever adds to it copies it
			continue
		}
		for _, value := range values {
			if printable(value) {
				out[canonical] = append(out[canonical], value)
			}
		}
	}
	return out
}

// connectionOptions are the headers that Connection names as the connection's own, folded; nil when it
// names none but those that are dropped anyway.
func connectionOptions(in http.Header) (named map[string]bool) {
	for name, values := range in {
		if len(name) != len("connection") || !strings.EqualFold(name, "connection") {
			continue
		}
		for _, value := range values {
			for option := range strings.SplitSeq(value, ",") {
				if option = fold(strings.TrimSpace(option)); option == "close" || hopByHop[option] {
					continue
				}
				if named == nil {
					named = map[string]bool{}
				}
				named[option] = true
			}
		}
	}
	return named
}

// fold makes names equal that some server takes for the same: CGI, WSGI and others read an underscore
// as a hyphen, so that x_other would arrive as x-other.
func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// token says whether name may name a header (RFC 9110, section 5.6.2).
func token(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

func allPrintable(values []string) bool {
	for _, value := range values {
		if !printable(value) {
			return false
		}
	}
	return len(values) > 0
}

// printable says whether a value can stand in a header: no control byte but the tab.
func printable(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
