package routing

import "strings"

// clean percent-encodes the bytes of a path or query that may not stand in a request line: spaces,
// control bytes, and what is not ASCII. Some clients send them raw, and a gateway passes them on.
func clean(s string) string {
	dirty := func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '#' }
	i := 0
	for i < len(s) && !dirty(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if c := s[i]; dirty(c) {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
