package routing

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellwall.dev/cellwall/internal/directory"
)

// TestFreeDecision: nothing is allocated to choose and order the members of a tenant that was served before.
func TestFreeDecision(t *testing.T) {
	entries := fixed{"computed": at(1, "computed"), "pinned": pinned("pinned", "s99", "s01", "s02")}
	for tenant := range entries {
		for _, state := range []State{StateNone, StateHome} {
			for _, single := range []bool{false, true} {
				c := testConfig(entries, naming)
				c.State, c.Single, c.Pick = state, single, nil
				e := newEngine(t, c)
				e.Serve(t.Context(), tenant, get("/x"))
				s := serving{Engine: e, out: Outcome{Tenant: tenant}, req: get("/42"), route: e.routes[0], repeatable: true, key: "42"}
				ctx := t.Context()
				if n := testing.AllocsPerRun(100, func() {
					s.looks = 0
					entry, refusal := s.look(ctx)
					if refusal != nil {
						t.Fatal(refusal)
					}
					if order, refusal := s.order(ctx, entry); refusal != nil || len(order) == 0 {
						t.Fatal(order)
					}
				}); n > 0 {
					t.Errorf("%s, state %s, one at a time %t: %v allocations", tenant, state, single, n)
				}
			}
		}
	}
}

// TestSubsetsAreThoseOfTheEntry: what is remembered of a tenant is told for the entry that it was computed for
// alone, through every change of an entry that moves its tenant.
func TestSubsetsAreThoseOfTheEntry(t *testing.T) {
	p := newPlaces(Config{Cell: "eu-1", Topologies: trialTopologies, Keys: testKey, LookUp: defaultLookUp, Now: newClock().now})
	s := newSubsets(p)
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			e := drawEntry(t)
			e.Tenant = rapid.SampledFrom([]string{"acme", "zeta"}).Draw(t, "tenant")
			want, wantErr := p.subset(context.Background(), e)
			got, err := s.of(context.Background(), e)
			if !slices.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("%+v is served by %v, %v; want %v, %v", e, got, err, want, wantErr)
			}
		}
	})
}

// TestSubsetsAreBounded, however many tenants come by.
func TestSubsetsAreBounded(t *testing.T) {
	s := newSubsets(newPlaces(Config{}))
	entry := directory.Entry{Pins: []string{"s01"}}
	for n := range subsetParts*partTenants + 50_000 {
		entry.Tenant = fmt.Sprint(n)
		if members, err := s.of(t.Context(), entry); err != nil || len(members) != 1 {
			t.Fatal(members, err)
		}
	}
	for i := range s.parts {
		if n := len(s.parts[i].known); n > partTenants {
			t.Errorf("part %d remembers %d tenants", i, n)
		}
	}
}
