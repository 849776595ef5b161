package routing

import "strings"

// clean percent-encodes the bytes of a query that may not stand in a request line: spaces, control bytes, and what
// is not ASCII. Some clients send them raw, and a gateway passes them on.
func clean(s string) string { return encode(s, dirty) }

// cleanPath is clean of a path, in which fewer bytes may stand (RFC 3986, section 3.3). Package net/url encodes a path
// with any other anew as a whole, and would make slashes of those that were encoded.
func cleanPath(s string) string {
	return encode(s, func(c byte) bool { return dirty(c) || strings.IndexByte("\"<>\\^`{|}", c) >= 0 })
}

func dirty(c byte) bool { return c <= ' ' || c >= 0x7f || c == '#' }

// encode percent-encodes the bytes that may not stand there.
func encode(s string, no func(c byte) bool) string {
	i := 0
	for i < len(s) && !no(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if c := s[i]; no(c) {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
