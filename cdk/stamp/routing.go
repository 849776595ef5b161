package stamp

import (
	"encoding/json"
	"fmt"

	"cellwall.dev/cellwall/internal/fleet"
)

// routesText is CELLWALL_ROUTES: the fleet's routes as the router reads them. A route that has the router's own
// time-out goes without, which keeps the environment small.
func routesText(f *fleet.Fleet) (string, error) {
	type route struct {
		Path    string `json:"path"`
		Via     string `json:"via"`
		Fanout  bool   `json:"fanout,omitempty"`
		Timeout string `json:"timeout,omitempty"`
	}
	routes := make([]route, len(f.Routes))
	for i, r := range f.Routes {
		routes[i] = route{Path: r.Path, Via: r.Via, Fanout: r.Fanout}
		if r.Timeout != f.Router.AttemptTimeout {
			routes[i].Timeout = r.Timeout.String()
		}
	}
	return variable("CELLWALL_ROUTES", routes)
}

// authText is CELLWALL_AUTH: who verifies callers. doors are the roles of the front doors before a cell.
func authText(f *fleet.Fleet, doors []string) (string, error) {
	a := f.Auth
	return variable("CELLWALL_AUTH", struct {
		Source     fleet.AuthSource  `json:"source"`
		Issuer     string            `json:"issuer"`
		Audience   string            `json:"audience"`
		Claim      string            `json:"claim"`
		Algorithms []string          `json:"algorithms,omitempty"`
		Principals map[string]string `json:"principals,omitempty"`
		PathTenant string            `json:"pathTenant,omitempty"`
		BodyTenant string            `json:"bodyTenant,omitempty"`
		FrontDoors []string          `json:"frontDoors,omitempty"`
	}{a.Source, a.Issuer, a.Audience, a.Claim, a.Algorithms, a.Principals, a.PathTenant, a.BodyTenant, doors})
}

// rulesText is CELLWALL_RULES: how the router goes about it.
func rulesText(f *fleet.Fleet) (string, error) {
	r := f.Router
	return variable("CELLWALL_RULES", struct {
		AttemptTimeout  string          `json:"attemptTimeout"`
		Reserved        int             `json:"reserved"`
		TenantRate      int             `json:"tenantRate,omitempty"`
		TenantBurst     int             `json:"tenantBurst,omitempty"`
		State           fleet.StateMode `json:"state"`
		IdempotencyKeys bool            `json:"idempotencyKeys,omitempty"`
		Queue           bool            `json:"queue,omitempty"`
		HashTenants     bool            `json:"hashTenants,omitempty"`
	}{r.AttemptTimeout.String(), r.ReservedConcurrency, r.TenantRate, r.TenantBurst, f.Shard.State.Mode, f.Shard.State.IdempotencyKeys, f.Shard.Queue != nil, r.HashTenants})
}

// variable is a value in JSON, for the environment.
func variable(name string, value any) (string, error) {
	text, err := json.Marshal(value) // maps in sorted order
	if err != nil {
		return "", fmt.Errorf("%s cannot be written: %w", name, err)
	}
	return string(text), nil
}
