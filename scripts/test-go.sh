#!/usr/bin/env bash
# Runs Go's tests. Three runs at a time, one package after another in each, fill two cores:
#
#   race      all that has goroutines of its own, with the race detector
#   plain     what has none, or whose goroutines the first run covers, without: the command line, placement
#             and blast radius, the fleet and its audit, what decides a rollout; a thousand kills of a writing process; a
#             million tenants in the cache, every schedule of holding; and the CDK's, since compiling awscdk under the
#             race detector costs minutes and jsii is used from one goroutine; and what keeps state in DynamoDB, on the
#             emulator
#   waiting   what waits for others more than for processors: local cells, and, without the race detector, rollouts and the
#             deployment
#
# RACE is -race, or empty where there is no C compiler. Arguments go to all.
set -u
cd "$(dirname "$0")/.."
plain="internal/adapter/boltdir internal/cli internal/placement internal/blast internal/fleet internal/audit internal/rollout"
concurrent="internal/rollout/run internal/rollout/journal internal/rollout/probe internal/rollout/release" # within those
waiting="internal/localcell test/local test/footnote"
elsewhere="cdk test/deploy test/rollout test/dynamo"

module=$(go list -m) || exit 1
# within PACKAGE LIST says whether the list has the package or a folder that it lies in.
within() {
  local p
  for p in $2; do
    case $1 in "$module/$p" | "$module/$p"/*) return 0 ;; esac
  done
  return 1
}
race=() wait=() all=()
for package in $(go list ./...); do
  if within "$package" "$elsewhere"; then continue; fi
  if within "$package" "$waiting"; then
    wait+=("$package")
  elif within "$package" "$plain" && ! within "$package" "$concurrent"; then
    all+=("$package")
  else
    race+=("$package")
  fi
done
without=() # in the order above
for p in $plain; do
  for package in "${all[@]}"; do
    if within "$package" "$p"; then without+=("$package"); fi
  done
done

# Debug information takes linking as long again, for each of a hundred packages; and go vet has run before.
run() { go test -ldflags=-w -vet=off -timeout 20m "$@"; }

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
(
  run -p 1 "$@" "${without[@]}" &&
    run "$@" -run '^(TestAMillionTenants|TestHoldSchedules)$' ./internal/dircache ./internal/directory &&
    # Every death of the driver, of which the race detector sees one in 23; and all that repeats what changes at its every step.
    run -p 1 "$@" ./internal/rollout/run ./internal/rollout/journal ./internal/adapter/dynamodir ./internal/adapter/httpdir &&
    run "$@" ./cdk/... &&
    run -p 1 "$@" ./test/dynamo/...
) >"$said/plain" 2>&1 &
plain_pid=$!
(
  run -p 1 ${RACE:+"$RACE"} "$@" "${wait[@]}" &&
    run -p 1 "$@" ./test/rollout/... ./test/deploy/...
) >"$said/waiting" 2>&1 &
waiting_pid=$!
run -p 1 ${RACE:+"$RACE"} "$@" "${race[@]}"
code=$?
wait "$plain_pid" || code=1
wait "$waiting_pid" || code=1
cat "$said/plain" "$said/waiting"
exit "$code"
