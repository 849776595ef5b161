package routing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// UnverifiedClaims reads the claims of a signed token in compact form (RFC 7515, section 3.1) and leaves
// the signature to whoever verified it before. Every error wraps ErrToken.
func UnverifiedClaims(token string) (map[string]json.RawMessage, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: it is not a signed token of three parts", ErrToken)
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || strings.ContainsAny(parts[1], "\r\n") { // which DecodeString passes over
		return nil, fmt.Errorf("%w: its claims are not base64url", ErrToken)
	}
	return ParseClaims(payload)
}

// ParseClaims reads a token's claims and refuses a name that stands twice, of whose values another reader
// may take the other one (RFC 7519, section 4), and text that is not UTF-8, which decoding would mend.
// Every error wraps ErrToken.
func ParseClaims(payload []byte) (map[string]json.RawMessage, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrToken, fmt.Sprintf(format, args...))
	}
	if !utf8.Valid(payload) {
		return nil, refuse("its claims are not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, refuse("its claims are not a JSON object")
	}
	claims := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, refuse("its claims are not JSON")
		}
		name, _ := key.(string) // the decoder accepts nothing else here
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, refuse("its claims are not JSON")
		}
		if _, twice := claims[name]; twice {
			return nil, refuse("its claim %q stands twice", name)
		}
		claims[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, refuse("its claims are not JSON")
	}
	if _, err := dec.Token(); err != io.EOF { // More would pass over a bracket
		return nil, refuse("its claims are not one JSON object")
	}
	return claims, nil
}
