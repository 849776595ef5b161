package awsevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// text returns a body as JSON carries it: as it is when it is UTF-8, else in base64; in base64, too, when
// that is shorter, for JSON escapes a control byte with six.
func text(body []byte) (s string, isBase64 bool) {
	if utf8.Valid(body) && escapedLen(body) <= base64.StdEncoding.EncodedLen(len(body)) {
		return string(body), false
	}
	return base64.StdEncoding.EncodeToString(body), true
}

// readable says whether a body is text: UTF-8 without control bytes other than those of white space.
func readable(body []byte) bool {
	for _, c := range body {
		if c < ' ' && (c < '\t' || c > '\r') {
			return false
		}
	}
	return utf8.Valid(body)
}

// escapedLen is the length of UTF-8 text in a JSON string, as marshal writes it.
func escapedLen(body []byte) int {
	n := len(body)
	for i, c := range body {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		case c == 0xe2 && (string(body[i:i+3]) == "\u2028" || string(body[i:i+3]) == "\u2029"):
			n += 3
		}
	}
	return n
}

// marshal is json.Marshal without the escapes for HTML, which would only make a payload larger.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
