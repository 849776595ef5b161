# cellwall. The two commands: `make run` shows it at work, `make test` proves it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The CDK's runtime warns on every start about Node.js versions that it was not tested with, or that
# are past their life (a list of major versions).
export JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION := 1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

progress := scripts/progress.sh
# The race detector needs cgo, and that a C compiler.
race := $(shell test "$$(go env CGO_ENABLED 2>/dev/null)" = 1 && echo -race)

.PHONY: help
help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

.PHONY: run
run: tools-go-node build dist node_modules/.stamp ## validate, synthesise, audit, run a cell, break a shard, say what tenants felt
	@scripts/run.sh

.PHONY: local
local: tools-go-node build dist node_modules/.stamp ## the same, but leave the local cell running
	@scripts/run.sh --keep

.PHONY: build
build: tools-go ## bin/cellwall and bin/worker, the sample service, for this machine
	@$(progress) "building bin/cellwall" go build -trimpath -o bin/cellwall ./cmd/cellwall
	@$(progress) "building bin/worker" go build -trimpath -o bin/worker ./lambda/worker-http

.PHONY: dist
dist: tools-go ## the functions and the instances' service for AWS, in dist/
	@$(progress) "building dist/" scripts/build-dist.sh

.PHONY: test
test: tools-all node_modules/.stamp .venv/.stamp build dist ## everything that must pass
	@test -z "$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go' -not -path './node_modules/*'))" || { echo "error: gofmt would change files: run gofmt -w" >&2; exit 1; }
	@$(progress) "go vet" go vet ./...
	@test -n "$(race)" || echo "note: no C compiler found, so the race detector stays off (Debian: apt-get install gcc)" >&2
	@$(progress) "tests" env RACE=$(race) scripts/test-go.sh

.PHONY: bench
bench: tools-go build ## the figures of docs/performance.md
	@scripts/bench.sh

# What lasts for minutes: a race-enabled soak, and the long form of the tests that break a cell and that deploy the fleet.
SOAK ?= 5m
.PHONY: soak
soak: tools-all node_modules/.stamp .venv/.stamp ## break two cells under load for SOAK (default 5m), look for leaks; break one cell's shards for longer; cut every hole into the fleet; explore rollouts; deploy the fleet at full size, and roll a small one out; hold the directory's whole contract on the emulator
	@$(progress) "soak of $(SOAK), and long faults" go test $(race) -count=1 -timeout 60m -v ./test/footnote -soak $(SOAK)
	@$(progress) "every hole that the audit must find, in each place" go test -count=1 -timeout 30m ./internal/audit -run TestSampleMutants -all-homes
	@$(progress) "every order of events of larger rollouts" go test -count=1 -timeout 60m -v ./internal/rollout -whole
	@$(progress) "the sample fleet with all of its shards, and a cell in other shapes" go test -count=1 -timeout 30m ./test/deploy -whole
	@$(progress) "a rollout that waits for requests, and for leases to run out" go test -count=1 -timeout 30m ./test/rollout -long
	@$(progress) "the whole contract of the directory on the emulator" go test -count=1 -timeout 30m ./test/dynamo -long

.PHONY: cold
cold: tools-go ## how long the functions take to start, beside one that links the same SDK clients
	@$(progress) "starting functions" scripts/cold.sh

.PHONY: proxies
proxies: tools-go build ## the local router beside a bare ReverseProxy, nginx and HAProxy; about 20 minutes, PROXIES=-help
	@go run ./test/proxies $(PROXIES)

.PHONY: peers
peers: tools-go ## placement beside other libraries; its module needs more than cellwall's, from the network at first
	@$(progress) "building the comparison" go -C test/peers vet ./...
	@$(progress) "tests of the comparison" go -C test/peers test ./... >&2
	@$(progress) "comparing" go -C test/peers run .

.PHONY: fuzz
fuzz: tools-go ## every fuzz target for FUZZTIME (default 60s) each
	@scripts/fuzz.sh

.PHONY: schema
schema: build ## docs/fleet.schema.json and docs/audit.schema.json from the Go types
	@bin/cellwall fleet schema > docs/fleet.schema.json
	@go test ./internal/audit -run '^TestSchemaIsCurrent$$' -update >&2

.PHONY: clean
clean: ## remove what was built; installed tools stay
	@rm -rf bin dist cdk.out test/out

.PHONY: tools-go tools-go-node tools-all
tools-go:
	@scripts/check-tools.sh go
tools-go-node:
	@scripts/check-tools.sh go node
tools-all:
	@scripts/check-tools.sh go node python

# What npm and pip install is pinned, stays in this folder, and is installed again when the pins change.
node_modules/.stamp: package.json package-lock.json
	@$(progress) "npm ci" npm ci --silent --no-audit --no-fund
	@touch $@

.venv/.stamp: requirements.txt
	@rm -rf .venv
	@python3 -m venv --without-pip .venv
	@$(progress) "pip install into .venv" python3 -m pip --python .venv/bin/python install --quiet --disable-pip-version-check --no-deps -r requirements.txt
	@touch $@
