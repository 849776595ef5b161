#!/usr/bin/env bash
# Measures what docs/performance.md reports. Ratios count: both sides of each come from one run, so a
# noisy machine moves them together. Usage: bench.sh [COUNT], the number of runs (default 5).
set -eu
cd "$(dirname "$0")/.."
count=${1:-5}

heading() { printf '\n== %s\n' "$*"; }

heading 'placement: a subset, beside a raw two-block HMAC'
go test ./internal/placement -run '^$' -bench 'Raw|HMACv1|Rendezvous' -benchmem -count "$count"

heading 'cellwall place: one tenant, from start to end of the process'
go test ./internal/cli -run '^$' -bench PlaceProcess -count "$count"

heading 'routing: the whole decision, and a request without a shard'
go test ./internal/routing -run '^$' -bench 'Decision|Serve' -benchmem -count "$count"

heading 'cold starts of the functions'
scripts/cold.sh

heading 'blast: one million tenants'
go test ./internal/blast -run '^$' -bench . -skip 'Scale|BesidePython' -benchtime 3x -count "$count"

heading 'blast: placement, all single and all pair failures; a process each, for its peak memory'
for tenants in 10000 100000 1000000; do
  go test ./internal/blast -run '^$' -bench "Scale/$tenants\$" -benchtime 3x -benchmem -count "$count"
done

heading 'blast beside the recipe in Python'
go test ./internal/blast -run '^$' -bench BesidePython -benchtime 20x

heading 'audit: 101,000 resources in 525 stacks'
go test ./internal/audit -run '^$' -bench Run -benchtime 3x -benchmem -count "$count"

heading 'audit beside cfn-lint: the templates of a cell, each end to end'
go test ./internal/audit/assembly -run '^$' -bench BesideCfnLint -benchtime 20x

heading 'local cell: durable writes to the store of a cell'
go test ./internal/adapter/boltitems -run '^$' -bench . -count "$count"

heading 'local cell: the p99 of tenants that have nothing to do with a bad shard, in pairs of runs with and without it'
go test ./test/footnote -run '^$' -bench Unaffected -benchtime 20x -timeout 60m

heading 'synthesis: cells of up to 64 shards, fleets of up to 20 cells, one cell of 20; a process each'
go test ./cdk/stamp -run '^$' -bench Scale -benchtime 3x -timeout 60m
