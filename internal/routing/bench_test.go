package routing

import (
	"context"
	"testing"
)

// BenchmarkDecision is the decision alone: what is known of a tenant and who serves it are remembered, and the
// members are put in order.
func BenchmarkDecision(b *testing.B) {
	entries := fixed{"computed": at(1, "computed"), "pinned": pinned("pinned", "s01", "s02"), "home": at(1, "home")}
	for tenant := range entries {
		b.Run(tenant, func(b *testing.B) {
			c := testConfig(entries, sender(nil))
			c.Entries, c.Pick = keep(entries), nil
			if tenant == "home" {
				c.State = StateHome
			}
			e := newEngine(b, c)
			s := serving{Engine: e, out: Outcome{Tenant: tenant}, req: get("/orders/42"), route: e.routes[0], repeatable: true, key: "42"}
			b.ReportAllocs()
			for b.Loop() {
				s.looks = 0
				entry, refusal := s.look(b.Context())
				if refusal != nil {
					b.Fatal(refusal)
				}
				order, refusal := s.order(b.Context(), entry)
				if refusal != nil || len(order) == 0 {
					b.Fatal(order)
				}
			}
		})
	}
}

// BenchmarkServe is a whole request, without a shard.
func BenchmarkServe(b *testing.B) {
	e := newEngine(b, testConfig(fixed{"acme": pinned("acme")}, sender(func(context.Context, Call, *Request) (*Response, error) {
		return ok(""), nil
	})))
	b.ReportAllocs()
	req := get("/x")
	for b.Loop() {
		if resp := e.Serve(b.Context(), "acme", req); resp.Status != 200 {
			b.Fatal(resp.Status)
		}
	}
}
