#!/usr/bin/env bash
# Measures how long the functions take to start, beside one that does nothing and links the same SDK clients
# (test/coldstart). Arguments go to it: cold.sh -help.
set -eu
cd "$(dirname "$0")/.."
dist=$(mktemp -d)
trap 'rm -rf "$dist"' EXIT
arch=$(go env GOARCH)
DIST=$dist ARCH=$arch HTTP_ARCH=$arch scripts/build-dist.sh >&2
# As build-dist.sh builds the others.
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -tags lambda.norpc -o "$dist/linking" ./test/coldstart/linking
go build -o "$dist/coldstart" ./test/coldstart
"$dist/coldstart" -dist "$dist" -linking "$dist/linking" "$@"
