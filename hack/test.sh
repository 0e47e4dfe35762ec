#!/usr/bin/env bash
# Runs tests and gets ready what they need.
#
#   hack/test.sh [PART ...]   all parts when none is named
#
#   unit       packages whose tests start no server; those of our own logic under the race detector
#   adapters   adapters on real NATS and S3 servers, and on model and tool servers that others wrote (needs Node)
#   api        what a real API server says about types, samples and roles, and to a tool server that others wrote (needs Node)
#   scenarios  whole stories on everything together (needs Node)
#   page       the viewer's page in a headless Chromium (needs Node)
#   chaos      stories whose worker is killed, at some places
#   soak       many stories at once on three NATS servers, while parts of the installation fail
#
#   CHAOS_CASES=n  tries n places, 0 all of them; CHAOS_SEED=n tries others
#   SOAK_FAULTS=n  makes n faults within SOAK_SECONDS=n; SOAK_SEED=n makes those of that seed
#   RUN=name       runs one scenario
#   RACE=off       leaves out the race detector, which needs a C compiler
#   TEST_TOTALS    a file to which the counts of each part are added
#
# Go vets all dependencies of what it tests unless told otherwise; hack/verify.sh vets our own packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=test
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}

all=(unit adapters api scenarios page chaos soak)
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
	[[ " ${all[*]} " = *" $part "* ]] || die "there is no part $part; there are: ${all[*]}"
done
selected() { [[ " ${parts[*]} " = *" $1 "* ]]; }

totals=${TEST_TOTALS:-$scratch/totals}
touch "$totals"
reporter=$scratch/testreport

command -v go >/dev/null || die "Go is missing: install Go 1.26"
if selected api || selected scenarios || selected chaos || selected soak; then start_control_plane; fi

# classes prints "PART PACKAGE" for every package with tests. A package belongs to a part by what its tests import, so a
# new one needs no entry here.
classes() {
	go list -f '{{.ImportPath}} {{len .TestGoFiles}}{{len .XTestGoFiles}} {{.Dir}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
		while read -r package files dir imports; do
			[ "$files" != 00 ] || continue
			case "$package" in
			*/test/scenarios) echo "scenarios $package" && continue ;;
			*/test/page) echo "page $package" && continue ;;
			*/test/chaos) echo "chaos $package" && continue ;;
			*/test/soak) echo "soak $package" && continue ;;
			*/test/bench) continue ;; # make bench
			*/test/e2e) continue ;; # make e2e
			esac
			case " $imports " in
			*/controller-runtime/pkg/envtest\ * | */agentloop/test/world\ *) echo "api $package" && continue ;;
			*/agentloop/test/services\ *) echo "adapters $package" && continue ;;
			esac
			case "$package" in
			*/test/services) echo "adapters $package" && continue ;;
			esac
			if compgen -G "$dir/*/install.sh" >/dev/null; then
				echo "adapters $package" # a server from npm
			else
				echo "unit $package"
			fi
		done
}

# of PART prints the packages of a part.
of() { awk -v part="$1" '$1 == part { print $2 }' <<<"$list"; }

# check PART PACKAGES ARGUMENTS... runs go test; a part that fails does not keep the others from running.
failed=()
check() {
	local part=$1 packages=$2
	shift 2
	[ -n "$packages" ] || die "no package belongs to the part $part"
	# shellcheck disable=SC2086 # a list of packages
	go test -json -vet=off "$@" $packages 2>&1 | "$reporter" -part "$part" -totals "$totals" || failed+=("$part")
}

# racing says which packages are worth the race detector: our own goroutines, without the SDKs that would have to be
# compiled a second time.
racing() { grep -E '/pkg/' | grep -vE '/pkg/(kube|tool/mcp|provider/(anthropic|openaichat|openairesponses)|trajectory/server/kubeauth)$'; }

run_unit() {
	say "unit tests"
	local packages race=
	packages=$(of unit)
	if [ "${RACE:-on}" != off ]; then
		command -v "$(go env CC)" >/dev/null || die "the race detector needs a C compiler: install gcc, or set RACE=off"
		race=$(racing <<<"$packages")
		packages=$(comm -23 <(sort <<<"$packages") <(sort <<<"$race"))
	fi
	check unit "$packages" -timeout 10m
	[ -z "$race" ] || CGO_ENABLED=1 check unit-race "$race" -race -timeout 10m
	# What makes the images is a module of its own.
	go -C hack/images test -json -vet=off -timeout 10m ./... 2>&1 | "$reporter" -part images -totals "$totals" || failed+=(images)
}

services() {
	[ -n "${AGENTLOOP_SERVICES:-}" ] || AGENTLOOP_SERVICES=$(hack/services/setup.sh)
	export AGENTLOOP_SERVICES
}

run_adapters() {
	hack/npm-tools.sh
	services
	say "adapters on real servers"
	check adapters "$(of adapters)" -count=1 -timeout 15m
}

run_api() {
	hack/npm-tools.sh
	services # tests that start a whole installation
	wait_control_plane
	say "API server"
	build
	check api "$(of api)" -count=1 -timeout 15m
}

# build makes the programs that whole installations consist of.
build() {
	say "building bin/"
	mkdir -p bin
	go build -o bin/ ./cmd/...
}

run_scenarios() {
	local run=()
	if [ -n "${RUN:-}" ]; then
		local script=
		for script in "test/scenarios/testdata/$RUN.txtar" "${AGENTLOOP_SCENARIOS:-/nowhere}/$RUN.txtar"; do
			[ ! -f "$script" ] || break
		done
		[ -f "$script" ] || die "there is no scenario $RUN; there are: $(cd test/scenarios/testdata && ls ./*.txtar | sed 's/^..//; s/.txtar$//' | tr '\n' ' ')"
		run=(-run "^TestScenarios\$/^(parallel|serial)\$/^$RUN\$")
	fi
	services
	browser
	wait_control_plane
	build
	say "scenarios"
	check scenarios "$(of scenarios)" -count=1 -timeout 20m "${run[@]}"
}

run_chaos() {
	local run=()
	[ -z "${RUN:-}" ] || run=(-run "^TestChaos\$/^${RUN//\//\$/^}\$")
	services
	wait_control_plane
	build
	say "chaos"
	check chaos "$(of chaos)" -count=1 -timeout 120m "${run[@]}"
}

run_soak() {
	services
	wait_control_plane
	build
	say "soak"
	check soak "$(of soak)" -count=1 -timeout 120m
}

# browser gets ready what opens pages.
browser() {
	hack/web.sh deps
	CHROMIUM=$(hack/chromium.sh)
	export CHROMIUM
}

run_page() {
	browser
	say "page"
	npm --prefix web test --silent >&2 || failed+=("page's own tests")
	check page "$(of page)" -count=1 -timeout 15m
}

go build -o "$reporter" ./hack/testreport
list=$(classes)
for part in "${parts[@]}"; do "run_$part"; done

"$reporter" -sum "$totals"
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
