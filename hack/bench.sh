#!/usr/bin/env bash
# Measures speed, storage and load, prints a table and writes bench.json. Takes about ten minutes once everything is built.
# Figures of a busy machine say little: stop other work first. The table names the load average.
#
#   BENCH        the groups to measure, with commas between: estimate, tokens, verdicts, counted, history, storage, load, overhead, recovery, runtime, viewer, page, codemode (default: all),
#                and storm, which needs ten minutes by itself and root for the memory limit (`make load`)
#   BENCH_CHECK  1 ends with an error when a target is missed
#   BENCH_FLAGS  further flags; `go run ./test/bench -help` lists them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

groups=${BENCH:-estimate,tokens,verdicts,counted,history,storage,load,overhead,recovery,runtime,viewer,page,codemode}
say() { printf 'bench: %s\n' "$*" >&2; }

case ,$groups, in
*,codemode,*)
	say "building the manager (some minutes when nothing is cached)"
	mkdir -p bin
	go build -o bin/ ./cmd/manager
	;;
esac
case ,$groups, in
*,load,* | *,storm,* | *,overhead,* | *,recovery,* | *,runtime,* | *,viewer,*)
	KUBEBUILDER_ASSETS=$(hack/envtest/setup.sh)
	AGENTLOOP_SERVICES=$(hack/services/setup.sh)
	export KUBEBUILDER_ASSETS AGENTLOOP_SERVICES
	say "building manager and viewer (some minutes when nothing is cached)"
	mkdir -p bin
	go build -o bin/ ./cmd/manager ./cmd/viewer
	;;
esac
case ,$groups, in
*,page,*)
	CHROMIUM=$(hack/chromium.sh)
	export CHROMIUM
	hack/web.sh deps
	;;
esac
say "building the measuring program"
mkdir -p bin
go build -o bin/bench ./test/bench

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || commit+=-modified
flags=(-only "$groups" -commit "$commit" -root .)
[ "${BENCH_CHECK:-}" != 1 ] || flags+=(-check)
# shellcheck disable=SC2206 # words are separate flags
flags+=(${BENCH_FLAGS:-})
exec bin/bench "${flags[@]}"
