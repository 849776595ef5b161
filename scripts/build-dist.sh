#!/bin/sh
# Builds what the cells run into dist/, outside of synthesis, so that a synthesis only reads files:
#
#   dist/router/bootstrap         the cells' routing function
#   dist/keeper/bootstrap         the cells' keeper
#   dist/frontdoor/bootstrap      the fleet's front door
#   dist/worker/bootstrap         the sample service as a Lambda slice
#   dist/worker-http/worker-http  the sample service on instances
#
# ARCH is the functions' architecture and HTTP_ARCH the instances' (Go's names: arm64, the default,
# or amd64). Synthesis refuses binaries of another architecture than it is asked for: after
# ARCH=amd64, run cdk with -c arch=x86_64. DIST is the folder to write to.
#
# The binaries are static, and reproducible: no paths, no version control state, no debug tables.
set -eu
cd "$(dirname "$0")/.."
dist=${DIST:-dist}
arch=${ARCH:-arm64}
http_arch=${HTTP_ARCH:-arm64}

build() { # package, file, architecture
  mkdir -p "$(dirname "$2")"
  CGO_ENABLED=0 GOOS=linux GOARCH=$3 go build -trimpath -buildvcs=false -ldflags='-s -w' -tags lambda.norpc -o "$2" "$1"
}

build ./lambda/router "$dist/router/bootstrap" "$arch"
build ./lambda/keeper "$dist/keeper/bootstrap" "$arch"
build ./lambda/frontdoor "$dist/frontdoor/bootstrap" "$arch"
build ./lambda/worker "$dist/worker/bootstrap" "$arch"
build ./lambda/worker-http "$dist/worker-http/worker-http" "$http_arch"
