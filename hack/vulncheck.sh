#!/usr/bin/env bash
# Compares the modules in our programs with the vulnerabilities that are known of them, and fails when a module has one that
# hack/vuln/allow.txt does not explain. What the standard library of the installed Go has is listed. Program and data are
# pinned in hack/vuln; about two minutes on two cores, because the calls of all dependencies are followed.
#
#   hack/vulncheck.sh                       with the pinned data
#   VULNDB=newest hack/vulncheck.sh         with the newest data that the module proxy has
#   VULNDB=https://vuln.go.dev hack/vulncheck.sh   with a database or, as file:///folder, a folder of OSV files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=vulncheck
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}

# data prints the URL of the database.
data() {
	local folder
	case "${VULNDB:-pinned}" in
	pinned) folder=$(go -C hack/vuln mod download -json golang.org/x/vulndb | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') ;;
	newest)
		# In a module of its own, for go.mod stays as it is.
		printf 'module newest\n' >"$scratch/go.mod"
		folder=$(go -C "$scratch" mod download -json golang.org/x/vulndb@latest | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
		;;
	*) echo "$VULNDB" && return ;;
	esac
	[ -d "$folder/data/osv" ] || die "golang.org/x/vulndb has no folder data/osv: is the module proxy reachable?"
	echo "file://$folder/data/osv"
}

database=$(data)
name=$(sed -E 's,.*/(golang.org/x/vulndb@[^/]*)/.*,\1,' <<<"$database")
say "comparing with $name"
scanner=$(go -C hack/vuln tool -n govulncheck)
"$scanner" -format json -db "$database" ./cmd/... >"$scratch/found.json" || die "govulncheck failed, see above"
go run ./hack/vulnreport -allow hack/vuln/allow.txt -data "$name" <"$scratch/found.json"
