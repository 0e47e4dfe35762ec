#!/usr/bin/env bash
# Installs MCP servers that the tests of the adapter talk to, as the lock file of a folder beside this script says, with npm.
#
#   test/tools/install.sh FOLDER
#
# A second call only checks the stamp. Progress goes to standard error, the folder's path to standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/$1"
say() { printf '%s: %s\n' "test/tools/$(basename "$PWD")" "$*" >&2; }

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
	say "installing (a minute)"
	npm ci --no-progress >&2
	touch "$stamp"
fi
pwd
