#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for FUZZTIME each (default 60s).
# Usage: fuzz.sh [PACKAGE...]
set -eu
time=${FUZZTIME:-60s}
if [ "$#" -eq 0 ]; then
  # Packages that have a fuzz target; the CDK app has none and is slow to compile.
  mapfile -t files < <(grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' internal lambda test | sort)
  mapfile -t packages < <(printf '%s\n' "${files[@]}" | xargs -n 1 dirname | sort -u)
else
  packages=("$@")
fi
for package in "${packages[@]}"; do
  while read -r target; do
    printf '== %s %s for %s\n' "$package" "$target" "$time"
    go test "./$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x
  done < <(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | sed 's/^func //' | sort)
done
