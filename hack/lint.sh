#!/usr/bin/env bash
# Runs golangci-lint over all packages. Its version is pinned in hack/lint, a module of its own: the linter is a program
# that is run here and is no part of what is built. Compiled once, three to five minutes on two cores.
#
#   hack/lint.sh [arguments of "golangci-lint run"]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=lint
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}

say "compiling golangci-lint, unless it is in the build cache"
linter=$(go -C hack/lint tool -n golangci-lint)
"$linter" run --timeout 20m "$@"
