#!/bin/sh
# Lints every template of a cloud assembly (default cdk.out) with the pinned cfn-lint. Status 0 when
# all are clean, cfn-lint's own otherwise.
set -eu
out=${1:-cdk.out}
here=$(cd "$(dirname "$0")/.." && pwd)
lint="$here/.venv/bin/cfn-lint"
test -x "$lint" || { echo "error: cfn-lint is not installed; run make test, which installs it" >&2; exit 1; }
test -f "$out/manifest.json" || { echo "error: $out is no cloud assembly; run npx cdk synth '**' first" >&2; exit 1; }
# shellcheck disable=SC2046 # the CDK's file names have no spaces
exec "$lint" --config-file "$here/.cfnlintrc" -- $(find "$out" -name '*.template.json' | sort)
