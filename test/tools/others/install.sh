#!/usr/bin/env bash
# Installs the MCP servers of others that the tests of the MCP adapter talk to, as the lock file says, with npm.
# A second call only checks the stamp. Progress goes to standard error, the folder's path to standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
say() { printf 'servers of others: %s\n' "$*" >&2; }

for program in node npm; do
	command -v "$program" >/dev/null || {
		say "$program is missing: install Node.js 20 or newer"
		exit 1
	}
done
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || {
	say "Node.js $(node --version) is too old: 20 or newer is needed"
	exit 1
}

key=$(cat package.json package-lock.json .npmrc | sha256sum | cut -c1-16)
stamp=node_modules/.installed-$key
if [ ! -f "$stamp" ]; then
	say "installing (112 MB)"
	npm ci --no-progress >&2
	touch "$stamp"
fi
pwd
