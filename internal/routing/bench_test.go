package routing

import (
	"context"
	"fmt"
	"testing"

	"cellwall.dev/cellwall/internal/directory"
)

// BenchmarkOrder is the decision alone: the subset of an entry whose topology is known, in order.
func BenchmarkOrder(b *testing.B) {
	e := newEngine(b, testConfig(fixed{}, sender(nil)))
	for _, entry := range []directory.Entry{pinned("acme"), pinned("acme", "s01", "s02")} {
		b.Run(fmt.Sprintf("pins=%d", len(entry.Pins)), func(b *testing.B) {
			b.ReportAllocs()
			s := serving{Engine: e, out: Outcome{Tenant: "acme"}, req: get("/x"), repeatable: true}
			for b.Loop() {
				if order, refusal := s.order(b.Context(), entry); refusal != nil || len(order) != 2 {
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
