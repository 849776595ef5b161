#!/usr/bin/env bash
# Runs Go's tests but for the deployments'. Two runs at a time, one package after another in each, fill two cores:
#
#   with the race detector   all that has goroutines of its own
#   without                  what has none, or whose goroutines the first run covers: the command line, placement
#                            and blast radius, the fleet and its audit, what decides a rollout; a thousand kills of a writing process; a
#                            million tenants in the cache, every schedule of holding; and the directory's contract on the emulator, which
#                            waits for the emulator more than for processors and therefore comes first;
#                            and the CDK's, since compiling awscdk under the race detector costs minutes and jsii
#                            is used from one goroutine
#
# RACE is -race, or empty where there is no C compiler. Arguments go to both.
set -u
cd "$(dirname "$0")/.."
plain="test/dynamo internal/adapter/boltdir internal/cli internal/placement internal/blast internal/fleet internal/audit internal/rollout"
concurrent="internal/rollout/run internal/rollout/journal internal/rollout/probe internal/rollout/release" # within those

beside=$(mktemp)
trap 'rm -f "$beside"' EXIT
module=$(go list -m) || exit 1
without=() with=()
for package in $(go list ./... | grep -v -e "^$module/cdk" -e "^$module/test/deploy" -e "^$module/test/rollout"); do
  kind=with
  for p in $plain; do
    case $package in "$module/$p" | "$module/$p"/*) kind=without ;; esac
  done
  for p in $concurrent; do
    [ "$package" != "$module/$p" ] || kind=with
  done
  if [ $kind = with ]; then with+=("$package"); else without+=("$package"); fi
done
for p in $(printf '%s\n' $plain | tac); do # in the order above
  first=() rest=()
  for package in "${without[@]}"; do
    case $package in "$module/$p" | "$module/$p"/*) first+=("$package") ;; *) rest+=("$package") ;; esac
  done
  without=("${first[@]}" "${rest[@]}")
done

(
  go test -p 1 -timeout 20m "$@" "${without[@]}" &&
    go test -timeout 20m "$@" -run '^(TestAMillionTenants|TestHoldSchedules)$' ./internal/dircache ./internal/directory &&
    go test -timeout 20m "$@" ./internal/rollout/run && # every death of the driver, of which the first run has one in seven
    go test -timeout 20m "$@" ./cdk/...
) >"$beside" 2>&1 &
beside_pid=$!
go test -p 1 ${RACE:+"$RACE"} -timeout 20m "$@" "${with[@]}"
code=$?
wait "$beside_pid" || code=1
cat "$beside"
exit "$code"
