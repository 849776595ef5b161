#!/usr/bin/env bash
# Runs a command and says on standard error that it is still running while it takes longer than a
# second: a line that counts on a terminal, a line every ten seconds elsewhere.
# Usage: progress.sh [--quiet] LABEL COMMAND [ARGUMENT...]
# With --quiet the command's own output is shown only when it fails.
set -u
quiet=
if [ "$1" = --quiet ]; then
  quiet=$(mktemp)
  trap 'rm -f "$quiet"' EXIT
  shift
fi
label=$1
shift
if [ -t 2 ]; then every=1; else every=10; fi

# The clock ends with this script even when it is killed: it watches its parent.
(
  n=0
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    n=$((n + 1))
    if [ -t 2 ]; then
      printf '\r  … %s (%d s) ' "$label" "$n" >&2
    elif [ "$n" -eq 2 ] || [ $((n % every)) -eq 0 ]; then
      printf '  … %s (%d s)\n' "$label" "$n" >&2
    fi
  done
) &
clock=$!

if [ -n "$quiet" ]; then "$@" >"$quiet" 2>&1; else "$@"; fi
code=$?
kill "$clock" 2>/dev/null
wait "$clock" 2>/dev/null
[ -t 2 ] && printf '\r\033[K' >&2
if [ "$code" -ne 0 ]; then
  [ -n "$quiet" ] && cat "$quiet" >&2
  printf 'error: %s ended with status %d\n' "$label" "$code" >&2
fi
exit "$code"
