package shardkit

import (
	"errors"
	"fmt"
	"strings"
)

// MaxName is the longest Name, in bytes: what S3 allows an object's key and DynamoDB a sort key. A partition key
// may be longer.
const MaxName = 1024

// ErrName means that something has no name, or is none. It comes wrapped.
var ErrName = errors.New("not a valid name")

// Name returns the name of something of a tenant in a place that tenants share: an object in a bucket, an
// item of a table, a directory. It is
//
//	tenants/<id>/<segment>/<segment>…
//
// where in the id and the segments every byte other than a letter, a digit, "-", ".", "_" and "~" of ASCII
// stands as % and two upper-case hexadecimal digits, and so do the dots of a segment that is "." or "..".
// Different tenants or segments have different names, whatever bytes they are of, also after a path has
// been cleaned or its Unicode normalized: a name is ASCII, and has no segment that is empty or points
// elsewhere. No tenant's Prefix begins another's names.
//
// ErrName when there is no segment, an empty one, a tenant that is not 1 to 128 bytes of UTF-8, or more than
// MaxName bytes.
func Name(tenant string, segments ...string) (string, error) {
	name, err := join(tenant, segments)
	if err == nil && len(name) > MaxName {
		return "", fmt.Errorf("%w: it has %d bytes: want at most %d", ErrName, len(name), MaxName)
	}
	return name, err
}

// join is Name of any length.
func join(tenant string, segments []string) (string, error) {
	prefix, err := Prefix(tenant)
	if err != nil {
		return "", err
	}
	if len(segments) == 0 {
		return "", fmt.Errorf("%w: nothing of the tenant is named", ErrName)
	}
	name := []byte(prefix)
	for i, segment := range segments {
		if segment == "" {
			return "", fmt.Errorf("%w: segment %d is empty", ErrName, i+1)
		}
		if i > 0 {
			name = append(name, '/')
		}
		name = escapeSegment(name, segment)
	}
	return string(name), nil
}

// Prefix is how all names of a tenant begin, and nothing else does: to list them, and to allow access to them.
func Prefix(tenant string) (string, error) {
	if !validTenant(tenant) {
		return "", fmt.Errorf("%w: a tenant's id of %d bytes: want 1 to 128 of UTF-8", ErrName, len(tenant))
	}
	return names + string(escapeSegment(nil, tenant)) + "/", nil
}

const names = "tenants/"

// escapeSegment is escape, but for the two segments that a path reads as a direction.
func escapeSegment(b []byte, segment string) []byte {
	switch segment {
	case ".":
		return append(b, "%2E"...)
	case "..":
		return append(b, "%2E%2E"...)
	}
	return escape(b, segment)
}

// ParseName reads what Name wrote, and nothing else.
func ParseName(name string) (tenant string, segments []string, err error) {
	bad := func() (string, []string, error) { return "", nil, fmt.Errorf("%w: %q", ErrName, name) }
	rest, ok := strings.CutPrefix(name, names)
	if !ok || len(name) > MaxName {
		return bad()
	}
	for part := range strings.SplitSeq(rest, "/") {
		var segment string
		switch part {
		case "", ".", "..":
			return bad()
		case "%2E", "%2E%2E":
			segment = strings.Repeat(".", len(part)/3)
		default:
			if segment, ok = unescape(part); !ok {
				return bad()
			}
		}
		segments = append(segments, segment)
	}
	if len(segments) < 2 || !validTenant(segments[0]) {
		return bad()
	}
	return segments[0], segments[1:], nil
}

// CacheName is Name where less is allowed: Redis, memcached (250 bytes, no space or control character). It is
//
//	tenants/<base32(SHA-256(id))>/<base32(SHA-256(name))>
//
// in lower case and without padding, 113 characters, of the id and of what Name returns, however long. Two
// things have one name only if SHA-256 has a collision. ErrName as of Name, but for the length.
func CacheName(tenant string, segments ...string) (string, error) {
	name, err := join(tenant, segments)
	if err != nil {
		return "", err
	}
	return names + hashed(tenant) + "/" + hashed(name), nil
}

// Name is that of something of the tenant: see the function Name.
func (t *Tenant) Name(segments ...string) (string, error) { return Name(t.tenant, segments...) }

// CacheName is that of something of the tenant: see the function CacheName.
func (t *Tenant) CacheName(segments ...string) (string, error) {
	return CacheName(t.tenant, segments...)
}
