#!/usr/bin/env bash
# Prints the folder that holds what a node adds to a control plane: kube-scheduler, kubelet, kube-proxy and coredns. They are
# built from the module in hack/envtest, once per content of it; a second call only checks the stamp.
# Progress goes to standard error, the folder's path to standard output.
#
#   XDG_CACHE_HOME  where built tools are kept (default: ~/.cache)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../envtest"

version=$(sed -nE 's#^\s*k8s.io/kubernetes (v[0-9.]+)$#\1#p' go.mod)
key=$({ cat go.mod go.sum node/main.go dns/main.go; go env GOVERSION; } | sha256sum | cut -c1-12)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/agentloop/node/$version-$key
say() { printf 'node programs: %s\n' "$*" >&2; }

if [ -f "$dir/ready" ]; then
	echo "$dir"
	exit 0
fi
mkdir -p "$dir"
exec 9>"$dir/lock"
if ! flock -n 9; then
	say "another process is building them, waiting"
	flock 9
	[ ! -f "$dir/ready" ] || { echo "$dir"; exit 0; }
fi

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly"
stamp=k8s.io/component-base/version
flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$(cut -d. -f1 <<<"${version#v}")"
flags+=" -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version") -X $stamp.gitCommit=unknown -X $stamp.gitTreeState=clean"
flags+=" -X $stamp.buildDate=2026-01-01T00:00:00Z -X k8s.io/client-go/pkg/version.gitVersion=$version"

# build NAME PACKAGE compiles one program; a file under its final name is always a whole one.
build() {
	local name=$1 package=$2 total start=$SECONDS
	total=$(go list -deps "$package" | wc -l)
	say "building $name (at most $total packages; 3 minutes for both when the control plane was built here, 15 otherwise)"
	go build -v -ldflags "$flags" -o "$dir/$name.new" "$package" 2> >(awk -v name="$name" -v total="$total" '
		/^#|:[0-9]+:[0-9]+:|^go: [^d]|cannot|undefined/ { print > "/dev/stderr"; next }
		{ n++ }
		n % 100 == 0 { printf "node programs: %s: compiled %d of at most %d packages\n", name, n, total > "/dev/stderr" }
	')
	mv "$dir/$name.new" "$dir/$name"
	say "$name built in $((SECONDS - start)) s"
}

build node ./node
for program in kube-scheduler kubelet kube-proxy; do ln -sf node "$dir/$program"; done
build coredns ./dns
touch "$dir/ready"
echo "$dir"
