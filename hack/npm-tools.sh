#!/usr/bin/env bash
# Installs, with npm and as their lock files say, the servers that others wrote and that adapter tests run against, and
# the packages that the page is built with. A second call only compares stamps. Progress goes to standard error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=npm
. hack/steps.sh

for program in node npm; do
	command -v "$program" >/dev/null || die "$program is missing: install Node.js 20.15 or later with npm (nodejs.org, or your distribution's package)"
done
version=$(node -p 'process.versions.node')
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 15) ? 0 : 1)' ||
	die "Node.js $version is too old: install 20.15 or later"

shopt -s nullglob
for install in test/*/*/install.sh; do
	say "${install%/install.sh}"
	"$install" >/dev/null
done
hack/web.sh deps
