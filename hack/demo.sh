#!/usr/bin/env bash
# Shows agentloop at work on this machine: everything that it needs is started on free loopback ports, objects are applied
# with kubectl, and the address of the trajectory is printed. Ctrl-C ends and removes it all. Needs Go and nothing else.
#
#   DEMO_EXIT=1          ends by itself with a check of what was shown; the exit status is the check's
#   ANTHROPIC_API_KEY, OPENAI_API_KEY   use a real model instead of the scripted one; docs/demo.md has more variables
#
# The first time, the control plane is built when it cannot be downloaded: 16 to 18 minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'demo: %s\n' "$*" >&2; }
command -v go >/dev/null || { say "Go is missing: install Go 1.26 from https://go.dev/dl and run this again"; exit 1; }
export GOFLAGS=${GOFLAGS:--buildvcs=false}

say "1 of 3: control plane (kube-apiserver, etcd, kubectl, kube-controller-manager)"
assets=$(hack/envtest/setup.sh)
say "2 of 3: NATS and S3 servers"
services=$(hack/services/setup.sh)

# compile builds the programs and says how far it is: a first build compiles a thousand packages.
compile() {
	local total
	total=$(go list -deps ./cmd/manager ./cmd/viewer ./test/demo | sort -u | wc -l)
	go build -v -o bin/ ./cmd/manager ./cmd/viewer ./test/demo 2> >(awk -v total="$total" '
		/^#|:[0-9]+:[0-9]+:|^go: |cannot|undefined/ { print > "/dev/stderr"; next }
		++n % 50 == 0 { printf "demo: compiled %d of at most %d packages\n", n, total > "/dev/stderr" }
	')
}

say "3 of 3: manager, viewer and the demo itself (5 to 10 minutes when nothing is cached)"
mkdir -p bin
compile
exec bin/demo -assets "$assets" -services "$services"
