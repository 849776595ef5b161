package awsevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// parameters are a query's keys and values in the order of the event, which is as near to the client's as these
// formats come: the values of one key stay in order, and keys that the client mixed are apart.
type parameters []parameter

type parameter struct{ key, value string }

// readParameters reads an object of strings or of lists of strings; null, or nothing at all, has none. The text is
// valid JSON.
func readParameters(text json.RawMessage) (parameters, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if text[0] != '{' {
		return nil, errors.New("its query parameters are no object")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out parameters
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		var values []string
		if value[0] != '[' {
			values = make([]string, 1)
			err = json.Unmarshal(value, &values[0])
		} else {
			err = json.Unmarshal(value, &values)
		}
		if err != nil {
			return nil, fmt.Errorf("its query parameter %q: %w", key, err)
		}
		for _, v := range values {
			out = append(out, parameter{key, v})
		}
	}
	return out, nil
}

// encoded writes parameters that the sender decoded. A space becomes %20, which every reader takes for a space.
func (p parameters) encoded() string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	return p.join(escape, escape)
}

// asSent writes parameters that the sender did not decode. What cannot have stood in a key or value as it was
// sent is encoded, so that one parameter stays one.
func (p parameters) asSent() string {
	key := func(s string) string { return escape(s, "&=#") }
	value := func(s string) string { return escape(s, "&#") }
	return p.join(key, value)
}

func (p parameters) join(key, value func(string) string) string {
	var b strings.Builder
	for i, param := range p {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(key(param.key))
		b.WriteByte('=')
		b.WriteString(value(param.value))
	}
	return b.String()
}

// escapePath encodes what cannot stand in a path that is encoded already: whatever a sender does, no path
// becomes a query, and every percent sign begins an encoded byte.
func escapePath(path string) string {
	bare := func(i int) bool {
		return path[i] == '%' && (i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]))
	}
	return escapeIf(path, func(i int) bool { return path[i] == '?' || path[i] == '#' || bare(i) })
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// escape percent-encodes the bytes that may not stand in a request line, and those of also.
func escape(s, also string) string {
	return escapeIf(s, func(i int) bool { return strings.IndexByte(also, s[i]) >= 0 })
}

// escapeIf percent-encodes the bytes that may not stand in a request line, and those at which also says so.
func escapeIf(s string, also func(i int) bool) string {
	dirty := func(i int) bool { return s[i] <= ' ' || s[i] >= 0x7f || also(i) }
	i := 0
	for i < len(s) && !dirty(i) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if dirty(i) {
			b.Write([]byte{'%', hex[s[i]>>4], hex[s[i]&15]})
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
