package quarantine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Standing is how a tenant stands that is suspected, or in quarantine.
type Standing struct {
	Cell   string    `json:"cell"`
	Tenant string    `json:"tenant"`
	Down   []string  `json:"down,omitempty"`      // shards that went down under it lately
	Until  time.Time `json:"until,omitzero"`      // all routers hold it until then
	Shards []string  `json:"shards,omitempty"`    // of the quarantine, to which it is pinned
	Since  time.Time `json:"since,omitzero"`      // it is
	Why    string    `json:"leftAlone,omitempty"` // it is not
}

// Standings are those of a cell's tenants that all routers hold, or that are in quarantine, in the order of the
// tenants.
func Standings(ctx context.Context, notes Notes, cell string, now time.Time) ([]Standing, error) {
	s, _, err := readState(ctx, notes, cell)
	if err != nil {
		return nil, fmt.Errorf("quarantine of cell %q: %w", cell, err)
	}
	at := map[string]Standing{}
	for _, x := range s.Suspects {
		if x.Until.After(now) {
			at[x.Tenant] = Standing{Cell: cell, Tenant: x.Tenant, Down: x.Shards, Until: x.Until, Why: x.Left}
		}
	}
	for _, p := range s.Pins {
		if p.Done && !p.Gone {
			st := at[p.Tenant]
			st.Cell, st.Tenant, st.Shards, st.Since, st.Why = cell, p.Tenant, p.Shards, p.At, ""
			at[p.Tenant] = st
		}
	}
	var all []Standing
	for _, st := range at {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b Standing) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all, nil
}
