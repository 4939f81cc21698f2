#!/usr/bin/env bash
# What the action of this folder runs. By hand: ORBIT_TARGETS=dist ci/audit/run.sh
#
# ORBIT_TARGETS, ORBIT_ARGUMENTS: one on a line. ORBIT_SARIF: file of the report, empty for none. Exit status: orbit's own.
set -euo pipefail
orbitw="$(cd "$(dirname "$0")/../.." && pwd)/orbitw"
mapfile -t targets < <(printf '%s\n' "${ORBIT_TARGETS:-}" | sed '/^[[:space:]]*$/d')
mapfile -t arguments < <(printf '%s\n' "${ORBIT_ARGUMENTS:-}" | sed '/^[[:space:]]*$/d')
if [ -n "${ORBIT_SARIF:-}" ]; then
    arguments+=(--format sarif --output "$ORBIT_SARIF")
    if [ -n "${GITHUB_OUTPUT:-}" ]; then printf 'sarif=%s\n' "$ORBIT_SARIF" >>"$GITHUB_OUTPUT"; fi
fi
exec "$orbitw" audit "${arguments[@]}" -- "${targets[@]}"
