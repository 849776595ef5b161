package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/awsevent"
	"cellwall.dev/cellwall/internal/directory"
)

// Principals takes the tenant from the IAM role or user whose signature AWS verified.
//
// A role is what counts, not its session: arn:aws:sts::111111111111:assumed-role/Orders/anything is the role
// Orders of account 111111111111, since who may assume a role chooses the session's name. A role's path is no
// part of a session's ARN and a role's name is unique in its account without it, so that
// arn:aws:iam::111111111111:role/team/Orders is the same role. Names are compared byte for byte.
type Principals struct{ tenants map[string]string }

// NewPrincipals returns the source. tenants has the tenant of each principal, by the ARN of a role or user
// (arn:aws:iam::ACCOUNT:role/NAME, arn:aws:iam::ACCOUNT:user/NAME), or of a role's session, which stands for
// the role. Several principals may be one tenant; one principal under two ARNs must be one tenant.
func NewPrincipals(tenants map[string]string) (*Principals, error) {
	if len(tenants) == 0 {
		return nil, errors.New("who asks by IAM: no principal has a tenant, so that nobody could ask")
	}
	p := &Principals{make(map[string]string, len(tenants))}
	for arn, tenant := range tenants {
		name, err := principal(arn)
		if err != nil {
			return nil, err
		}
		if !directory.ValidTenant(tenant) {
			return nil, fmt.Errorf("tenant of %s: want 1 to 128 bytes of UTF-8", arn)
		}
		if other, ok := p.tenants[name]; ok && other != tenant {
			return nil, fmt.Errorf("%s and another spelling of its ARN have two tenants: a role's path and session do not tell it apart", arn)
		}
		p.tenants[name] = tenant
	}
	return p, nil
}

// Caller implements Source.
func (p *Principals) Caller(_ context.Context, e *awsevent.Event) (Caller, error) {
	if e.Principal == "" {
		return Caller{}, refuse("the event names no caller that IAM verified: has the route IAM authorization?")
	}
	name, err := principal(e.Principal)
	if err != nil {
		return Caller{}, refuse("%v", err)
	}
	tenant, ok := p.tenants[name]
	if !ok {
		return Caller{}, refuse("principal %s has no tenant", e.Principal)
	}
	return Caller{Tenant: tenant}, nil
}

// principal is the role or user that an ARN stands for: arn:PARTITION:iam::ACCOUNT:role/NAME, or user/NAME.
// A federated user and the root of an account are nobody's: the first is named by whoever asked for its
// session, the second is everybody who may do everything there.
func principal(arn string) (string, error) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[1] == "" || parts[3] != "" || len(parts[4]) != 12 || strings.Trim(parts[4], "0123456789") != "" {
		return "", fmt.Errorf("%q is not the ARN of an IAM role or user", arn)
	}
	segments := strings.Split(parts[5], "/")
	kind, name := segments[0], segments[len(segments)-1]
	switch service := parts[2]; {
	case slices.Contains(segments, ""), strings.Contains(parts[5], ":"):
	case service == "iam" && (kind == "role" || kind == "user") && len(segments) >= 2:
		return "arn:" + parts[1] + ":iam::" + parts[4] + ":" + kind + "/" + name, nil
	case service == "sts" && kind == "assumed-role" && len(segments) == 3:
		return "arn:" + parts[1] + ":iam::" + parts[4] + ":role/" + segments[1], nil
	}
	return "", fmt.Errorf("%q is not the ARN of an IAM role or user", arn)
}
