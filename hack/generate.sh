#!/usr/bin/env bash
# Regenerates what is derived from the markers in the Go sources: deep copies, CRDs, roles, and the
# reference of the kinds; and what the chart has of config, with the table of its values.
#
#   hack/generate.sh           writes the files
#   hack/generate.sh --check   writes nothing; names each stale file and exits 1 when there is one
#
# Generation goes one way: markers -> config -> charts and docs. controller-gen's version is pinned in hack/tools/go.mod; its first
# compilation takes more than a minute, later calls take seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=
case "${1:-}" in
"") ;;
--check) check=1 ;;
*)
	echo "usage: hack/generate.sh [--check]" >&2
	exit 2
	;;
esac

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
generator=$(go -C hack/tools tool -n controller-gen)

generate() {
	local header=hack/boilerplate.go.txt
	"$generator" object:headerFile="$header" paths=./api/... output:object:dir="$tree/api/v1alpha1"
	"$generator" crd:crdVersions=v1,generateEmbeddedObjectMeta=false paths=./api/... output:crd:dir="$tree/config/crd"
	"$generator" rbac:roleName=manager paths=./controllers/... output:rbac:dir="$tree/config/rbac"
	go run ./hack/apiref "$tree/config/crd" >"$tree/docs/spec/v1alpha1/reference.md"
	chart
}

# chart copies what the chart shares with config, and makes its README.
chart() {
	local chart=charts/agentloop
	mkdir -p "$tree/$chart/files"/{crds,rbac,admission}
	cp "$tree"/config/crd/*.yaml "$tree/$chart/files/crds/"
	cp "$tree/config/rbac/role.yaml" config/rbac/people.yaml "$tree/$chart/files/rbac/"
	cp config/admission/*.yaml "$tree/$chart/files/admission/"
	mkdir -p "$tree/$chart/files/dashboards"
	cp config/monitoring/rules.yaml "$tree/$chart/files/prometheus-rules.yaml"
	cp config/monitoring/dashboard.json "$tree/$chart/files/dashboards/agentloop.json"
	go run ./hack/chartdoc "$chart" >"$tree/$chart/README.md"
}

# files lists the generated files of a tree, so that one whose source is gone is found as well.
files() {
	(cd "$1" && find api/v1alpha1/zz_generated.deepcopy.go config/crd/*.yaml config/rbac/*role.yaml docs/spec/v1alpha1/reference.md \
		charts/agentloop/files/{crds,rbac,admission}/*.yaml charts/agentloop/files/prometheus-rules.yaml charts/agentloop/files/dashboards/*.json charts/agentloop/README.md -type f 2>/dev/null | sort)
}

mkdir -p "$tree/api/v1alpha1" "$tree/config/crd" "$tree/config/rbac" "$tree/docs/spec/v1alpha1"
generate
stale=0
while read -r file; do
	if cmp -s "$tree/$file" "$file"; then continue; fi
	if [ -n "$check" ]; then
		echo "stale: $file" >&2
		stale=1
	elif [ -f "$tree/$file" ]; then
		mkdir -p "$(dirname "$file")"
		cp "$tree/$file" "$file"
		echo "wrote $file" >&2
	else
		rm "$file"
		echo "removed $file" >&2
	fi
done < <({ files "$tree"; files .; } | sort -u)
[ "$stale" = 0 ] || { echo "run hack/generate.sh and commit the result" >&2; exit 1; }
