#!/usr/bin/env bash
# Prints the folder that holds etcd, kube-apiserver, kube-controller-manager, kubectl and helm, ready for KUBEBUILDER_ASSETS.
# Order: a folder that is there already; the ordinary envtest download; a build from the Go module proxy.
# A second call only checks the stamp. Progress goes to standard error, the folder's path to standard output.
#
#   KUBEBUILDER_ASSETS  set and complete: used as it is
#   ENVTEST_DOWNLOAD    "never" goes straight to the build
#   XDG_CACHE_HOME      where built tools are kept (default: ~/.cache)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(etcd kube-apiserver kube-controller-manager kubectl helm)
version=$(sed -nE 's#^\s*k8s.io/kubernetes (v[0-9.]+)$#\1#p' go.mod)
key=$(cat go.mod go.sum main.go | sha256sum | cut -c1-12)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/agentloop/envtest/$version-$key
say() { printf 'control plane: %s\n' "$*" >&2; }

complete() {
	local p
	for p in "${programs[@]}"; do [ -x "$1/$p" ] || return 1; done
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ] && complete "$KUBEBUILDER_ASSETS"; then
	echo "$KUBEBUILDER_ASSETS"
	exit 0
fi
if [ -f "$dir/ready" ] && complete "$dir"; then
	echo "$dir"
	exit 0
fi

mkdir -p "$dir"
exec 9>"$dir/lock"
if ! flock -n 9; then
	say "another process is preparing it, waiting"
	flock 9
	[ -f "$dir/ready" ] && { echo "$dir"; exit 0; }
fi

# download fetches the released envtest binaries; kube-controller-manager and helm, which they lack, are then built alone.
download() {
	[ "${ENVTEST_DOWNLOAD:-}" != never ] || return 1
	say "trying the envtest download of ${version#v} (20 s limit to answer)"
	local assets
	assets=$(cd ../tools && timeout 300 go run sigs.k8s.io/controller-runtime/tools/setup-envtest use "${version#v}" \
		--bin-dir "$dir/download" -p path 2>"$dir/download.log") || {
		say "no download here ($(tail -1 "$dir/download.log" | cut -c1-120)), building instead"
		return 1
	}
	cp "$assets"/{etcd,kube-apiserver,kubectl} "$dir/"
}

# build compiles the multi-call binary and names it after each program that is still missing.
build() {
	local total stamp=k8s.io/component-base/version flags p
	flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$(cut -d. -f1 <<<"${version#v}")"
	flags+=" -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version") -X $stamp.gitCommit=unknown -X $stamp.gitTreeState=clean"
	flags+=" -X $stamp.buildDate=2026-01-01T00:00:00Z -X k8s.io/client-go/pkg/version.gitVersion=$version"
	export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly"
	say "downloading module sources of Kubernetes ${version}"
	total=$(go list -deps . | wc -l)
	say "compiling $total packages; 16-18 minutes on two cores when nothing is cached, once per version"
	local start=$SECONDS
	go build -v -ldflags "$flags" -o "$dir/kube.new" . 2> >(awk -v total="$total" -v start="$(date +%s)" '
		/^[a-z0-9.]+\// || /^[a-z]/ { n++ }
		/^#|: / { print > "/dev/stderr"; next }
		n % 100 == 0 { "date +%s" | getline now; close("date +%s"); printf "control plane: compiled %d of at most %d packages, %d s\n", n, total, now - start > "/dev/stderr" }
	')
	mv "$dir/kube.new" "$dir/kube"
	for p in "${programs[@]}"; do [ -x "$dir/$p" ] || ln -sf kube "$dir/$p"; done
	say "built in $((SECONDS - start)) s"
}

download || true
complete "$dir" || build
"$dir/kube-apiserver" --version | grep -q "$version" || { say "kube-apiserver does not report $version; remove $dir and try again"; exit 1; }
touch "$dir/ready"
echo "$dir"
