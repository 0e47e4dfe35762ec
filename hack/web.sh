#!/usr/bin/env bash
# Builds the viewer's page into web/dist, which is committed so that Go builds need no Node.
#
#   hack/web.sh          install the locked packages, generate the API's types, test the pure parts, build
#   hack/web.sh --check  build into a folder aside and compare: web/dist and the types must be what the source says
#   hack/web.sh picture  make the pictures of the documentation anew, light and dark (needs Chromium, and web/dist as the source says)
#   hack/web.sh deps     only install the locked packages
#
# Progress goes to standard error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../web"

api=../api/openapi/trajectory.v1.yaml
types=src/api/types.ts
say() { printf 'web: %s\n' "$*" >&2; }

# deps installs what package-lock.json says, once per content of it.
deps() {
	local want have=node_modules/.agentloop-lock
	command -v npm >/dev/null || { say "npm is needed to build the page: install Node.js 20 or later"; exit 1; }
	want=$(cat package.json package-lock.json | sha256sum)
	if [ -f "$have" ] && [ "$(cat "$have")" = "$want" ]; then return; fi
	say "installing the locked npm packages (one to five minutes)"
	npm ci --no-fund --no-audit --loglevel=error >&2
	echo "$want" >"$have"
}

# generate FILE writes the API's types.
generate() {
	say "types of $api"
	npx --no-install openapi-typescript "$api" -o "$1" >/dev/null
}

# build FOLDER type-checks and bundles.
build() {
	say "type check"
	npx --no-install tsc --noEmit
	say "bundle"
	npx --no-install vite build --logLevel warn --outDir "$1" --emptyOutDir >&2
}

case "${1:-}" in
deps)
	deps
	;;
--check)
	deps
	aside=$(mktemp -d)
	trap 'rm -rf "$aside"' EXIT
	generate "$aside/types.ts"
	build "$aside/dist"
	diff -u "$types" "$aside/types.ts" >&2 || { say "$types is not what $api says: run hack/web.sh and commit it"; exit 1; }
	diff -r dist "$aside/dist" >&2 || { say "web/dist is not what the source builds: run hack/web.sh and commit it"; exit 1; }
	say "web/dist and $types are what the source says"
	;;
picture)
	deps
	CHROMIUM=$(../hack/chromium.sh)
	export CHROMIUM
	aside=$(mktemp -d)
	trap 'rm -rf "$aside"' EXIT
	(cd .. && PAGE_SHOTS=$aside PAGE_ONLY="picture of the documentation" go test -vet=off -count=1 ./test/page >&2)
	mkdir -p ../docs/images
	cp "$aside/viewer.png" "$aside/viewer-dark.png" ../docs/images/
	say "docs/images/viewer.png and viewer-dark.png are what the page shows"
	;;
"")
	deps
	generate "$types"
	say "tests of the pure parts"
	npm test --silent >&2
	build dist
	;;
*)
	say "unknown argument $1"
	exit 2
	;;
esac
