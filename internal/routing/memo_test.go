package routing

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFreeDecision: nothing is allocated to choose and order the members of a tenant that was served before.
func TestFreeDecision(t *testing.T) {
	entries := fixed{"computed": at(1, "computed"), "pinned": pinned("pinned", "s99", "s01", "s02")}
	for tenant := range entries {
		for _, state := range []State{StateNone, StateHome} {
			for _, single := range []bool{false, true} {
				c := testConfig(entries, naming)
				c.Entries = keep(entries)
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

// kept is Entries that are all remembered.
type kept map[string]Known

func keep(entries fixed) kept {
	k := kept{}
	for tenant, e := range entries {
		k[tenant] = Known{Entry: e, Memo: &Memo{}}
	}
	return k
}

func (k kept) Entry(_ context.Context, tenant string) (Known, error)           { return k[tenant], nil }
func (k kept) Fresh(_ context.Context, tenant string, _ uint64) (Known, error) { return k[tenant], nil }

// TestSubsetsAreThoseOfTheEntry: what is remembered with an entry is told for the version that it was computed
// for alone, through every change that moves its tenant, also when a later version is known but not followed.
func TestSubsetsAreThoseOfTheEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newTrial(t, fixed{}).engine
		s := serving{Engine: e, out: Outcome{Tenant: "acme"}, req: get("/x")}
		var versions []Known
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			if len(versions) == 0 || rapid.Bool().Draw(t, "change") {
				next := Known{Entry: drawEntry(t), Memo: &Memo{}}
				next.Epoch = uint64(len(versions) + 1)
				versions = append(versions, next)
			}
			known := rapid.SampledFrom(versions).Draw(t, "known")
			asked := rapid.SampledFrom(versions).Draw(t, "asked")
			s.learn(known, nil)
			want, wantErr := e.places.subset(context.Background(), asked.Entry)
			got, refusal := s.place(context.Background(), asked.Entry)
			if (refusal == nil) != (wantErr == nil) || refusal == nil && !slices.Equal(got, want) {
				t.Fatalf("%+v is served by %v, %v; want %v, %v", asked.Entry, got, refusal, want, wantErr)
			}
		}
	})
}
