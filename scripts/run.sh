#!/usr/bin/env bash
# The story of cellwall on one machine: from fleet.yaml to stacks, through the audit, to a cell that serves
# tenants while one of its shards is broken. `make run` calls it, after it has built everything.
#
#   scripts/run.sh          tell the whole story, stop the cell and remove its data
#   scripts/run.sh --keep   the same, but leave the cell running, in .cellwall
set -euo pipefail
cd "$(dirname "$0")/.."

cellwall=bin/cellwall
progress=scripts/progress.sh
keep=false
state=.cellwall/run # apart from a cell that --keep left running
case "$*" in
  '') ;;
  --keep)
    keep=true
    state=.cellwall
    ;;
  *)
    printf 'error: unknown arguments: %s\nhint: usage: scripts/run.sh [--keep]\n' "$*" >&2
    exit 2
    ;;
esac

heading() { printf '\n== %s\n' "$*"; }

for built in "$cellwall" bin/worker; do
  if [[ ! -x $built ]]; then
    printf 'error: %s is missing\nhint: make build makes it\n' "$built" >&2
    exit 1
  fi
done

# However this script ends, unless --keep: the cell ends, and its data goes.
leave() {
  if ! $keep; then
    "$cellwall" local down --purge --state-dir "$state" >/dev/null 2>&1 || true
  fi
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

heading 'The fleet: fleet.yaml'
"$cellwall" fleet validate

heading 'Its stacks: cdk synth'
# --quiet: the CLI ends by naming every stack whose template one could ask for.
"$progress" --quiet 'cdk synth' npx cdk synth '**' --quiet
printf '%d stacks in cdk.out\n' "$(find cdk.out -name '*.template.json' | wc -l)"

heading 'The audit: what do its shards share?'
mkdir -p -m 700 .cellwall
findings=.cellwall/audit.txt
status=0
"$progress" 'audit' "$cellwall" audit cdk.out >"$findings" || status=$?
# What is shared by decision is in the file; here stands what is more than that, and the sum.
awk '/^info / { skip = 1; next } /^ / && skip { next } { skip = 0; print }' "$findings"
printf 'every finding, with its path: %s\n' "$findings"
if ((status != 0)); then
  exit "$status"
fi

heading 'A cell of it on this machine'
if $keep; then
  status=0
  "$cellwall" local up --state-dir "$state" || status=$?
  # 3: one runs already. Then it is the one to send traffic to.
  if ((status != 0 && status != 3)); then
    exit "$status"
  fi
else
  # What an interrupted run left behind.
  "$cellwall" local down --purge --state-dir "$state" 2>/dev/null
  "$cellwall" local up --state-dir "$state"
fi

# The shard in the middle of the list.
shard=$("$cellwall" local status --state-dir "$state" | awk '$5 ~ /^http:/ { id[n++] = $1 } END { print id[int(n / 2)] }')
heading "Its tenants' traffic, while shard $shard is killed"
"$cellwall" local traffic --state-dir "$state" --break "$shard"

if $keep; then
  heading 'The cell goes on'
  printf 'see it      %s local status\nbreak it    %s local break %s --for 30s\nstop it     %s local down\n' \
    "$cellwall" "$cellwall" "$shard" "$cellwall"
else
  heading 'Stop'
  "$cellwall" local down --purge --state-dir "$state"
  printf 'the cell is stopped and its data is removed\n'
fi
