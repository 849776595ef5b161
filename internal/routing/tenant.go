package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cellwall.dev/cellwall/internal/directory"
)

// EncodeTenant writes a tenant id as it stands in the cellwall-tenant header: every byte other than an
// unreserved character of RFC 3986 (letters, digits, - . _ ~) as % and two upper-case hexadecimal digits.
// Different ids give different headers, and the result is at most 384 bytes of ASCII.
func EncodeTenant(id string) string {
	plain := 0
	for plain < len(id) && unreserved(id[plain]) {
		plain++
	}
	if plain == len(id) {
		return id // as nearly all are
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(id) + 8)
	b.WriteString(id[:plain])
	for i := plain; i < len(id); i++ {
		if c := id[i]; unreserved(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// DecodeTenant reads what EncodeTenant wrote. Anything else is an error: two spellings of one tenant
// would be a way around whatever compares them.
func DecodeTenant(header string) (string, error) {
	id := make([]byte, 0, len(header))
	for i := 0; i < len(header); i++ {
		c := header[i]
		if c == '%' && i+2 < len(header) {
			c = unhex(header[i+1])<<4 | unhex(header[i+2])
			i += 2
		}
		id = append(id, c)
	}
	tenant := string(id)
	if !directory.ValidTenant(tenant) || EncodeTenant(tenant) != header {
		return "", fmt.Errorf("%q is not an encoded tenant id", header)
	}
	return tenant, nil
}

// unhex reads one upper-case hexadecimal digit. What is none gives 0 and does not survive the
// comparison in DecodeTenant.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0
}

// ErrToken marks a token that is not acceptable, whatever the reason. A verifier's other errors mean that
// it could not tell.
var ErrToken = errors.New("the token is not acceptable")

// Errors of TenantFromClaim. None repeats the claim.
var (
	errClaimMissing = fmt.Errorf("%w: it names no tenant", ErrToken)
	errClaimType    = fmt.Errorf("%w: its tenant is not a string", ErrToken)
	errClaimSeveral = fmt.Errorf("%w: it names several tenants", ErrToken)
	errClaimValue   = fmt.Errorf("%w: its tenant is not 1 to 128 bytes of UTF-8", ErrToken)
)

// TenantFromClaim reads the tenant from a verified token's claim, given as JSON, nil when absent. It
// must be one string of 1 to 128 bytes of UTF-8; every error wraps ErrToken.
//
// A string in brackets is refused, because an API Gateway JWT authorizer renders an array of tenants
// that way ("[a b]"). So is the replacement character U+FFFD, to which broken text decodes: two broken
// ids would become one tenant. Beware that API Gateway's authorizer hands numbers and booleans over as
// strings: only the token itself tells them from a tenant that is called so.
func TenantFromClaim(claim json.RawMessage) (string, error) {
	if len(claim) == 0 || string(claim) == "null" {
		return "", errClaimMissing
	}
	switch claim[0] {
	case '"':
	case '[':
		return "", errClaimSeveral
	default:
		return "", errClaimType
	}
	var tenant string
	if err := json.Unmarshal(claim, &tenant); err != nil {
		return "", errClaimType
	}
	switch err := Claimable(tenant); {
	case errors.Is(err, errInBrackets):
		return "", errClaimSeveral
	case err != nil, !utf8.Valid(claim), !directory.ValidTenant(tenant):
		return "", errClaimValue
	}
	return tenant, nil
}

// Errors of Claimable.
var (
	errInBrackets  = errors.New("an id in brackets, which is how API Gateway writes a token's list of tenants")
	errReplacement = errors.New("an id with the character U+FFFD, to which broken text decodes")
)

// Claimable says why a token's claim is never taken for this id, though a tenant may have it; nil when one may be.
func Claimable(tenant string) error {
	switch {
	case strings.HasPrefix(tenant, "[") && strings.HasSuffix(tenant, "]"):
		return errInBrackets
	case strings.ContainsRune(tenant, utf8.RuneError):
		return errReplacement
	}
	return nil
}
