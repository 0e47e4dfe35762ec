#!/usr/bin/env bash
# Checks what tests do not: formatting, vet, lint, generated and built files, modules, licences,
# vulnerabilities, documents. Every check runs, whatever became of the others; each says what to do.
#
#   hack/verify.sh [CHECK ...]   all checks when none is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=verify
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}

check_format() {
	local bad
	bad=$(git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done | xargs gofmt -l)
	[ -z "$bad" ] || { printf '%s\n' "$bad" && say "run gofmt -w on these files" && return 1; }
}

check_scripts() {
	local file bad=0
	while read -r file; do
		bash -n "$file" || bad=1
		[ "$file" = hack/steps.sh ] || [ -x "$file" ] || { say "$file is not executable: chmod +x" && bad=1; }
	done < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
	return $bad
}

# Project rules: layers, sizes, package comments, paths and tests that documents name, decisions, tracked files.
check_policy() { go test -vet=off -count=1 .; }

check_modules() {
	local folder bad=0
	for folder in . hack/*/; do
		[ -f "$folder/go.mod" ] || continue
		go -C "$folder" mod tidy -diff || { say "run: go -C ${folder%/} mod tidy" && bad=1; }
	done
	return $bad
}

check_licences() { hack/licences.sh -check docs/licences.md; }

# With the data that is pinned, so that a commit that passed goes on passing.
check_vulnerabilities() { timeout 20m hack/vulncheck.sh >"$scratch/vulnerabilities" || { cat "$scratch/vulnerabilities" && return 1; }; }

# Alerts and dashboard, with Prometheus's own code, in a module of its own.
check_monitoring() { go -C hack/monitoring test -vet=off -count=1 .; }

check_vet() { go vet ./...; }

check_lint() { hack/lint.sh; }

check_generated() { hack/generate.sh --check; }

check_page() { hack/web.sh --check; }

all=(format scripts policy licences modules vet generated monitoring page lint vulnerabilities)
checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=("${all[@]}")
for check in "${checks[@]}"; do
	[[ " ${all[*]} " = *" $check "* ]] || die "there is no check $check; there are: ${all[*]}"
done

passed=0
failed=()
report=
for check in "${checks[@]}"; do
	say "$check"
	begun=$SECONDS
	# In a shell of its own, with errexit in force, which a condition would switch off.
	set +e
	(set -e && "check_$check")
	code=$?
	set -e
	if [ $code = 0 ]; then
		passed=$((passed + 1)) result=ok
	else
		failed+=("$check") result=FAILED
	fi
	report+=$(printf '%-15s %-7s %s' "$check" "$result" "$(clock $((SECONDS - begun)))")$'\n'
done
printf '%s' "$report"
echo "checks: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}; one alone: hack/verify.sh ${failed[0]}"
