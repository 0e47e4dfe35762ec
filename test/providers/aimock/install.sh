#!/usr/bin/env bash
# Installs the mock model server that the adapter tests run against, and prints the path of its program. A second call
# only compares the lock file. Needs Node 20.15 or later with npm. Progress goes to standard error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

program=$PWD/node_modules/@copilotkit/aimock/dist/cli.js
stamp=node_modules/.installed
want=$(sha256sum package-lock.json | cut -d' ' -f1)

installed() { [ -f "$program" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; }

command -v npm >/dev/null || { echo "the adapter tests need Node 20.15 or later with npm" >&2; exit 1; }
if ! installed; then
	exec 9>.lock
	flock 9
	if ! installed; then
		echo "mock model server: installing $(sed -nE 's/.*"@copilotkit\/aimock": "([^"]+)".*/\1/p' package.json | head -1)" >&2
		npm ci >&2
		echo "$want" >"$stamp"
	fi
fi
echo "$program"
