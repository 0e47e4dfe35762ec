#!/usr/bin/env bash
# Says whether this commit can be released, and prepares what goes with a release: notes, licence texts, digests. Every check
# runs, whatever became of the others; a summary closes. Nothing is published, tagged or changed in the tree.
#
#   hack/release-check.sh [CHECK ...]     all checks when none is named
#
#   clean        the tree is what is committed
#   versions     chart and programs have one version, which is VERSION when that is set and is newer than every tag
#   notes        the release notes, into OUT/notes.md
#   licences     all are admitted; their texts, into OUT/licences
#   vulncheck    nothing known in the modules that is not explained, with the newest data
#   programs     the programs are the same bytes when they are built in two folders; digests into OUT/SHA256SUMS
#   images       the images are the same bytes when they are built twice
#   documents    the API server admits every manifest in the documents, and the programs take every call of them
#   verify       make verify
#
#   VERSION=v1.2.3   what is to be released
#   OUT=FOLDER       where results go; bin/release when not set
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=release
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}
out=${OUT:-$PWD/bin/release}
chart=charts/agentloop/Chart.yaml

check_clean() {
	local changed
	changed=$(git status --porcelain)
	[ -z "$changed" ] || { printf '%s\n' "$changed" && say "commit or remove these files" && return 1; }
}

# field NAME prints a field of the chart.
field() { sed -nE "s/^$1: *[\"']?v?([^\"' ]*)[\"']?.*/\1/p" "$chart"; }

check_versions() {
	local version=${VERSION:-} latest
	if [ -n "$version" ]; then
		[[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { say "VERSION=$version is no version: write v1.2.3" && return 1; }
		latest=$(git tag --list 'v*' | sort -V | tail -1)
		[ "$latest" != "$version" ] || [ "$(git rev-parse "$version^{commit}")" = "$(git rev-parse HEAD)" ] || { say "$version is the tag of another commit" && return 1; }
		[ "$(printf '%s\n%s\n' "$latest" "$version" | sort -V | tail -1)" = "$version" ] || { say "$version is older than the tag $latest" && return 1; }
	fi
	[ -f "$chart" ] || { say "there is no chart to compare with" && return 0; }
	[ "$(field version)" = "$(field appVersion)" ] || { say "$chart has version $(field version) and appVersion $(field appVersion)" && return 1; }
	[ -z "$version" ] || [ "v$(field version)" = "$version" ] || { say "$chart has version $(field version), not ${version#v}" && return 1; }
}

check_notes() {
	go run ./hack/releasenotes -version "${VERSION:-Unreleased}" >"$out/notes.md"
	say "$(grep -c '^- ' "$out/notes.md") lines in ${out#"$PWD"/}/notes.md"
}

check_licences() {
	hack/licences.sh -check docs/licences.md
	rm -rf "$out/licences"
	hack/licences.sh -texts "$out/licences"
}

check_vulncheck() { VULNDB=${VULNDB:-newest} hack/vulncheck.sh; }

# build FOLDER INTO builds the programs of a copy of the tree as releases are built.
build() { (cd "$1" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$2/" ./cmd/...); }

check_programs() {
	local copy=$scratch/elsewhere name
	git worktree list >/dev/null # fails outside of a repository, where nothing could be copied
	mkdir -p "$copy" "$scratch/here" "$scratch/there"
	git ls-files --cached --others --exclude-standard -z | xargs -0 tar cf - | tar xf - -C "$copy"
	build . "$scratch/here"
	build "$copy" "$scratch/there"
	for name in "$scratch/here"/*; do
		cmp "$name" "$scratch/there/$(basename "$name")" || { say "$(basename "$name") depends on the folder that it is built in" && return 1; }
	done
	(cd "$scratch/here" && sha256sum -- *) >"$out/SHA256SUMS"
	cat "$out/SHA256SUMS"
}

check_images() {
	grep -q '^images:' Makefile || { say "there is no target images yet" && return 0; }
	local name
	OUT=$scratch/first make images >/dev/null
	OUT=$scratch/second make images >/dev/null
	[ -n "$(ls "$scratch/first")" ] || { say "make images wrote nothing into OUT" && return 1; }
	diff -rq "$scratch/first" "$scratch/second" || { say "the second build has other bytes" && return 1; }
	(cd "$scratch/first" && find . -type f | sort | while read -r name; do sha256sum -- "${name#./}"; done) | tee -a "$out/SHA256SUMS"
}

check_documents() {
	wait_control_plane
	go test -vet=off -count=1 .
	go test -vet=off -count=1 -run '^(TestDoc|TestRecipes|TestSamples)' ./test/api
}

check_verify() { hack/verify.sh; }

all=(clean versions notes licences vulncheck programs images documents verify)
# Longest time of a check, in minutes, so that one that hangs does not hide the others.
limit=40
checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=("${all[@]}")
for check in "${checks[@]}"; do
	[[ " ${all[*]} " = *" $check "* ]] || die "there is no check $check; there are: ${all[*]}"
done
mkdir -p "$out"
export -f $(compgen -A function)

failed=()
report=
for check in "${checks[@]}"; do
	say "$check"
	begun=$SECONDS
	set +e
	if [ "$check" = documents ]; then
		(set -e && check_documents) # it waits for a process of this shell
	else
		step_name=$step_name scratch=$scratch out=$out chart=$chart timeout "${limit}m" bash -euo pipefail -c "check_$check"
	fi
	code=$?
	set -e
	result=ok
	[ $code = 0 ] || { result=FAILED && failed+=("$check"); }
	report+=$(printf '%-10s %-7s %s' "$check" "$result" "$(clock $((SECONDS - begun)))")$'\n'
done
printf '%s' "$report"
echo "release of ${VERSION:-the next version} at $(git rev-parse --short HEAD): $((${#checks[@]} - ${#failed[@]})) passed, ${#failed[@]} failed; results in ${out#"$PWD"/}"
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}; one alone: hack/release-check.sh ${failed[0]}"
