#!/usr/bin/env bash
# Says which tools are missing or too old, all of them at once, with the version found and wanted.
# Usage: check-tools.sh [go] [node] [python]
set -u
missing=0

# at_least FOUND WANTED: dotted numbers, compared part by part.
at_least() {
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$2" ]
}

# need NAME FOUND WANTED HOW
need() {
  if [ -z "$2" ]; then
    printf 'missing: %s: not found, wanted %s or newer; %s\n' "$1" "$3" "$4" >&2
    missing=1
  elif ! at_least "$2" "$3"; then
    printf 'missing: %s: found %s, wanted %s or newer; %s\n' "$1" "$2" "$3" "$4" >&2
    missing=1
  fi
}

for tool in "$@"; do
  case $tool in
  go)
    # GOTOOLCHAIN=local: the version that stands on this machine, not one that could be fetched.
    found=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//')
    # A Go that may fetch toolchains needs only to be new enough to read go.mod.
    wanted=1.26
    if [ "$(go env GOTOOLCHAIN 2>/dev/null)" = local ]; then wanted=$(awk '$1 == "go" {print $2}' go.mod); fi
    need Go "$found" "$wanted" 'see https://go.dev/dl/'
    ;;
  node)
    found=$(node --version 2>/dev/null | sed 's/^v//')
    need Node.js "$found" 20 'see https://nodejs.org/ (22 or newer is recommended by the AWS CDK)'
    found=$(npm --version 2>/dev/null)
    need npm "$found" 9 'it comes with Node.js'
    ;;
  python)
    found=$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null)
    need Python "$found" 3.10 'Debian: apt-get install python3 python3-pip'
    if [ -n "$found" ]; then
      # 22.3 brought --python, which fills a virtual environment that has no pip of its own.
      found=$(python3 -m pip --version 2>/dev/null | awk '{print $2}')
      need pip "$found" 22.3 'Debian: apt-get install python3-pip'
      found=$(python3 -c 'import venv; print("3.10")' 2>/dev/null)
      need 'the Python module venv' "$found" 3.10 'Debian: apt-get install python3-venv'
    fi
    ;;
  *)
    printf 'error: check-tools.sh knows go, node and python, not %s\n' "$tool" >&2
    exit 2
    ;;
  esac
done
exit "$missing"
