// Package routersim simulates routers before shards that fail, on a clock of its own, to measure what the
// rules of internal/routing/health and internal/routing/poison come to over minutes and for thousands of
// tenants. Only its tests do anything.
package routersim
