package shardkit

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Headers that a router sets for a shard. It lets none of them through from a client.
const (
	HeaderTenant = "Cellwall-Tenant" // the tenant's id, percent-encoded
	HeaderEpoch  = "Cellwall-Epoch"  // the epoch of the entry by which the router chose, decimal
	HeaderShard  = "Cellwall-Shard"  // the shard that is meant
	HeaderJob    = "Cellwall-Job"    // the job that the request is, when it comes from a queue
	HeaderFrom   = "Cellwall-From"   // the tenant that sent the job, percent-encoded, when a tenant did
	HeaderHops   = "Cellwall-Hops"   // of the job, see Job.Hops; decimal, absent for 0
	// HeaderDeadline is when whoever asks stops waiting, in Unix milliseconds. What is done later may be
	// done in vain, and is refused.
	HeaderDeadline = "Cellwall-Deadline"
	// HeaderGuard, with the value refused, marks a Guard's 400, 401 and 403: whoever asked did not ask as a router
	// does, of which the request itself is not guilty. A consumer takes no such answer for the service's last word.
	HeaderGuard = "Cellwall-Guard"
	// HeaderSecret proves, where a network does not, that a request comes from the router.
	HeaderSecret = "Cellwall-Secret"
)

const maxTenant = 128 // bytes

// call is what the router said of a request.
type call struct {
	tenant string
	epoch  uint64
	shard  string
	job    string // "" for none
	from   string // tenant, "" for none
	hops   int    // of the job
}

var errHeaders = errors.New("the request does not say once and validly whom it is for")

func parseCall(h http.Header) (c call, err error) {
	var values [3]string
	for i, name := range []string{HeaderTenant, HeaderEpoch, HeaderShard} {
		all := h.Values(name)
		if len(all) != 1 || all[0] == "" {
			return call{}, errHeaders
		}
		values[i] = all[0]
	}
	tenant, ok := decodeTenant(values[0])
	if !ok {
		return call{}, errHeaders
	}
	epoch, err := strconv.ParseUint(values[1], 10, 64)
	if err != nil || strconv.FormatUint(epoch, 10) != values[1] { // no sign, no zeros in front
		return call{}, errHeaders
	}
	c = call{tenant: tenant, epoch: epoch, shard: values[2]}
	if all := h.Values(HeaderJob); len(all) > 0 {
		if c.job = all[0]; len(all) > 1 || !validJobID(c.job) {
			return call{}, errHeaders
		}
	}
	if all := h.Values(HeaderFrom); len(all) > 0 {
		if c.from, ok = decodeTenant(all[0]); !ok || len(all) > 1 || c.job == "" {
			return call{}, errHeaders
		}
	}
	if all := h.Values(HeaderHops); len(all) > 0 {
		if c.hops, err = strconv.Atoi(all[0]); err != nil || strconv.Itoa(c.hops) != all[0] ||
			c.hops < 1 || c.hops > maxCount || len(all) > 1 || c.job == "" {
			return call{}, errHeaders
		}
	}
	return c, nil
}

// parseDeadline reads when the router stops waiting; the zero time when it does not say.
func parseDeadline(h http.Header) (deadline time.Time, ok bool) {
	all := h.Values(HeaderDeadline)
	if len(all) == 0 {
		return time.Time{}, true
	}
	millis, err := strconv.ParseInt(all[0], 10, 64)
	return time.UnixMilli(millis), err == nil && len(all) == 1
}

// shows says whether the request shows the secret, in a time that tells nothing about it.
func shows(h http.Header, secret string) bool {
	all := h.Values(HeaderSecret)
	if len(all) != 1 {
		return false
	}
	got, want := sha256.Sum256([]byte(all[0])), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// decodeTenant reads a tenant's id of 1 to 128 bytes of UTF-8, in which every byte other than an
// unreserved character of RFC 3986 stands as % and two upper-case hexadecimal digits. No other spelling
// is taken: two spellings of one tenant would be a way around whatever compares them.
func decodeTenant(header string) (id string, ok bool) {
	if len(header) > 3*maxTenant {
		return "", false
	}
	id, ok = unescape(header)
	return id, ok && validTenant(id)
}

func validTenant(id string) bool { return id != "" && len(id) <= maxTenant && utf8.ValidString(id) }

// unescape reads what escape wrote, and nothing else.
func unescape(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case unreserved(c):
			b.WriteByte(c)
		case c == '%' && i+2 < len(text):
			high, low := strings.IndexByte(digits, text[i+1]), strings.IndexByte(digits, text[i+2])
			if high < 0 || low < 0 || unreserved(byte(high<<4|low)) {
				return "", false
			}
			b.WriteByte(byte(high<<4 | low))
			i += 2
		default:
			return "", false
		}
	}
	return b.String(), true
}

// encodeTenant writes what decodeTenant reads.
func encodeTenant(id string) string { return string(escape(nil, id)) }

// escape appends the text, with every byte other than an unreserved character of RFC 3986 as % and two
// upper-case hexadecimal digits.
func escape(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; unreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

const digits = "0123456789ABCDEF"

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
