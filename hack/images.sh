#!/usr/bin/env bash
# Builds the container images: manager, viewer, and the NATS server of try-outs. Writes an OCI archive of each, with one image per
# platform, and bills of materials beside them; prints name, digest and size.
#
#   OUT        folder (default: bin/images)
#   PLATFORMS  default: linux/amd64,linux/arm64
#   VERSION    tag (default: the chart's appVersion)
#   REGISTRY   default: localhost/agentloop
#
# The images bear the time of the last commit, so the same commit gives the same digests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=images
. hack/steps.sh

version=${VERSION:-$(sed -n 's/^appVersion: *//p' charts/agentloop/Chart.yaml)}
[ -n "${SOURCE_DATE_EPOCH:-}" ] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=${OUT:-bin/images}
mkdir -p "$out"
begun=$SECONDS
go -C hack/images run . -root "$PWD" -out "$(cd "$out" && pwd)" -platforms "${PLATFORMS:-linux/amd64,linux/arm64}" -version "$version" \
	-registry "${REGISTRY:-localhost/agentloop}" "$@"
say "in $out, $(clock $((SECONDS - begun)))"
