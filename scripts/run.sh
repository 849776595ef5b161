#!/usr/bin/env bash
# The story of cellwall on one machine: from fleet.yaml to stacks, through the audit, to a cell that serves
# tenants while one of its shards is broken. `make run` calls it, after it has built everything.
#
#   scripts/run.sh         tell the whole story, stop the cell, exit 0
#   scripts/run.sh local   start the cell and leave it running
set -euo pipefail
cd "$(dirname "$0")/.."

cellwall=bin/cellwall
state=.cellwall/run # apart from the cell that `make local` leaves running
ticker=

heading() { printf '\n== %s\n' "$*"; }

# quiet_step COMMAND...: runs it, and says that it still runs when that takes longer than a second.
quiet_step() {
  (
    seconds=0
    while sleep 1 >/dev/null 2>&1; do
      seconds=$((seconds + 1))
      if ((seconds == 1 || seconds % 5 == 0)); then
        printf '   %s: %d s\n' "$1" "$seconds" >&2
      fi
    done
  ) &
  ticker=$!
  local status=0
  "$@" || status=$?
  stop_ticker
  return "$status"
}

stop_ticker() {
  if [[ -n $ticker ]]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    ticker=
  fi
}

need() {
  if [[ ! -x $1 ]]; then
    printf 'error: %s is missing\nhint: make build makes it\n' "$1" >&2
    exit 1
  fi
}

need "$cellwall"
need bin/worker

if [[ ${1:-} == local ]]; then
  status=0
  "$cellwall" local up || status=$?
  if ((status == 3)); then
    "$cellwall" local status
    exit 0
  fi
  exit "$status"
fi
if (($# > 0)); then
  printf 'error: %s: want nothing, or the word local\n' "$*" >&2
  exit 2
fi

leave() {
  stop_ticker
  "$cellwall" local down --purge --state-dir "$state" 2>/dev/null || true
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

heading 'The fleet: fleet.yaml'
"$cellwall" fleet validate

heading 'The stacks: cdk synth'
quiet_step npx cdk synth '**' --quiet
printf '%d templates in cdk.out\n' "$(find cdk.out -name '*.template.json' | wc -l)"

heading 'The audit: what do shards share?'
quiet_step "$cellwall" audit cdk.out

heading 'A cell of it on this machine'
# What an interrupted run left behind.
"$cellwall" local down --purge --state-dir "$state" 2>/dev/null
"$cellwall" local up --state-dir "$state"

# The shard in the middle of the list.
shard=$("$cellwall" local status --state-dir "$state" | awk '$5 ~ /^http:/ { id[n++] = $1 } END { print id[int(n / 2)] }')
heading "Tenants' traffic, while shard $shard is killed"
"$cellwall" local traffic --state-dir "$state" --break "$shard"

heading 'Stop'
"$cellwall" local down --purge --state-dir "$state"
trap - EXIT
printf 'the cell is stopped and its data removed\n'
