#!/usr/bin/env bash
# Prints the path of a Chromium browser for the page tests; where there is none it installs Debian's package.
# Progress goes to standard error, the path to standard output.
#
#   CHROMIUM  a browser to use instead
set -euo pipefail

say() { printf 'chromium: %s\n' "$*" >&2; }

found() {
	local name
	for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
		if [ -n "$name" ] && command -v "$name"; then return 0; fi
	done
	return 1
}

if found; then exit 0; fi
if [ -n "${CHROMIUM:-}" ]; then
	say "CHROMIUM=$CHROMIUM is no program"
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	say "no Chromium on this machine, and no apt-get to install it: install a Chromium and set CHROMIUM to its path"
	exit 1
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
say "updating the package lists"
"${as_root[@]}" apt-get update -qq >&2
say "installing chromium and fonts (about 100 MB, one to three minutes)"
"${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2
found
