#!/usr/bin/env bash
# Prints the licence of every module that is linked into a program that we ship and of every npm package in the built page,
# and fails when one may not be.
#
#   hack/licences.sh                 prints the table
#   hack/licences.sh -write FILE     writes the page of the documentation, docs/licences.md
#   hack/licences.sh -check FILE     fails when that page is not what would be written
#   hack/licences.sh -texts FOLDER   copies all licence texts and notices, to go with copies of the programs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOFLAGS=${GOFLAGS:--buildvcs=false}
exec go run ./hack/licences "$@"
