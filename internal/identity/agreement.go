package identity

import (
	"errors"
	"fmt"
	"strings"

	"cellwall.dev/cellwall/internal/routing"
)

// ErrDisagree marks a request whose path or body names another tenant than the caller, or cannot be read
// surely enough to tell. The answer is 403.
var ErrDisagree = errors.New("path or body names another tenant")

// tenantSegment stands in a pattern for the tenant.
const tenantSegment = "{tenant}"

// Agreement is where a service's requests name their tenant beside the token. The zero value is nowhere.
type Agreement struct {
	before []string // the segments before the tenant's
	member string
}

// NewAgreement returns an agreement. path is where a path names the tenant, such as /tenants/{tenant}/*: plain
// segments, one {tenant}, and what follows it does not matter; "" when paths name none. member is the name of a
// member of a JSON body; "" when bodies name none.
func NewAgreement(path, member string) (Agreement, error) {
	a := Agreement{member: member}
	if path == "" {
		return a, nil
	}
	wrong := fmt.Errorf("where a path names the tenant: %q: want plain segments and one %s, such as /tenants/%s/*", path, tenantSegment, tenantSegment)
	segments := strings.Split(strings.TrimSuffix(path, "/*"), "/")
	if len(segments) < 2 || segments[0] != "" || segments[len(segments)-1] != tenantSegment {
		return Agreement{}, wrong
	}
	before := segments[1 : len(segments)-1]
	for _, s := range before {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, `{}*%\?#;`) {
			return Agreement{}, wrong
		}
	}
	a.before = append([]string{""}, before...)
	return a, nil
}

// Check returns an error that wraps ErrDisagree unless every tenant that the request's path and body name is
// the caller's. A request that names none agrees.
//
// A path names a tenant where it matches in any reading of it (routing.Readings), its plain segments in any
// case, whatever follows the tenant. An id that one of the readings changes, such as one with a slash or a
// percent sign before two hexadecimal digits, cannot be named in a path.
//
// A body names a tenant where it is JSON, whatever its Content-Type says, and the top level of a value, or of
// an object in a list at the top, has the member: each time, if it stands there several times, in any case, with or
// without hyphens and underscores. null names nobody; what is no string is nobody's name. A body whose Content-Type
// says JSON and that is none, by RFC 8259, is refused, since a service may read more into it; so is one with a
// Content-Encoding, which hides what it says.
func (a Agreement) Check(tenant string, req *routing.Request) error {
	if a.before != nil {
		if err := a.path(tenant, req.Path); err != nil {
			return err
		}
	}
	if a.member != "" && len(req.Body) > 0 {
		return a.body(tenant, req.Header, req.Body)
	}
	return nil
}

func (a Agreement) path(tenant, rawPath string) error {
	readings, ok := routing.Readings(rawPath)
	if !ok {
		return fmt.Errorf("%w: the path cannot be read", ErrDisagree)
	}
	for _, reading := range readings {
		if named := a.named(reading); named != "" && named != tenant {
			return fmt.Errorf("%w: the path does", ErrDisagree)
		}
	}
	return nil
}

// named is the tenant that one reading of a path names, "" for none.
func (a Agreement) named(reading string) string {
	for _, want := range a.before {
		segment, rest, more := strings.Cut(reading, "/")
		if !more || !strings.EqualFold(segment, want) {
			return ""
		}
		reading = rest
	}
	segment, _, _ := strings.Cut(reading, "/")
	return segment
}
