package routerenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routing"
)

// Auth says who verifies callers. The words are the fleet's.
type Auth struct {
	Source     string            `json:"source"` // as package identity calls it
	Issuer     string            `json:"issuer"`
	Audience   string            `json:"audience"`
	Claim      string            `json:"claim"`                // or the field of a Lambda authorizer's context
	Algorithms []string          `json:"algorithms,omitempty"` // of tokens that are verified here; none is API Gateway's choice
	Principals map[string]string `json:"principals,omitempty"` // tenant by the ARN of an IAM role or user
	PathTenant string            `json:"pathTenant,omitempty"`
	BodyTenant string            `json:"bodyTenant,omitempty"`
	FrontDoors []string          `json:"frontDoors,omitempty"` // ARNs of the roles that front doors run as
}

func (a *Auth) check() error {
	switch a.Source {
	case identity.SourceJWT, identity.SourceLambda, identity.SourceIAM, identity.SourceVerify:
	default:
		return fmt.Errorf("the source is %q", a.Source)
	}
	if a.Issuer == "" || a.Audience == "" || a.Claim == "" {
		return errors.New("an issuer, an audience or a claim is missing")
	}
	return nil
}

// Rules are what the fleet says of routing.
type Rules struct {
	AttemptTimeout  Duration      `json:"attemptTimeout"`
	Reserved        int           `json:"reserved"` // concurrent executions of this function, all environments together
	TenantRate      int           `json:"tenantRate,omitempty"`
	TenantBurst     int           `json:"tenantBurst,omitempty"`
	State           routing.State `json:"state,omitempty"`
	IdempotencyKeys bool          `json:"idempotencyKeys,omitempty"`
	Queue           bool          `json:"queue,omitempty"` // shards have one
	HashTenants     bool          `json:"hashTenants,omitempty"`
}

func (r *Rules) check() error {
	if r.AttemptTimeout <= 0 || r.Reserved <= 0 {
		return errors.New("attemptTimeout or reserved is missing")
	}
	return nil
}

// Duration is a time.Duration that is written as 5s.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	*d = Duration(parsed)
	return err
}
