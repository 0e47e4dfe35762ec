#!/usr/bin/env bash
# Prints the folder that holds nats-server and s3server, the servers that tests and the demo start (AGENTLOOP_SERVICES).
# They are built once per content of this module; a second call only checks the stamp.
# Progress goes to standard error, the folder's path to standard output.
#
#   XDG_CACHE_HOME  where built tools are kept (default: ~/.cache)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(nats-server s3server)
key=$({ cat go.mod go.sum setup.sh; cat cmd/*/*.go; go env GOVERSION; } | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/agentloop/services/$key
say() { printf 'services: %s\n' "$*" >&2; }

complete() {
	local p
	[ -f "$dir/ready" ] || return 1
	for p in "${programs[@]}"; do [ -x "$dir/$p" ] || return 1; done
}

if complete; then
	echo "$dir"
	exit 0
fi

mkdir -p "$dir"
exec 9>"$dir/lock"
if ! flock -n 9; then
	say "another process is building them, waiting"
	flock 9
	if complete; then
		echo "$dir"
		exit 0
	fi
fi

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly"

# build NAME PACKAGE compiles one program; a file under its final name is always a whole one.
build() {
	local name=$1 package=$2 total start=$SECONDS
	total=$(go list -deps "$package" | wc -l)
	say "building $name (at most $total packages; about 2 minutes for both on two cores when nothing is cached)"
	go build -v -ldflags "-s -w" -o "$dir/$name.new" "$package" 2> >(awk -v name="$name" -v total="$total" '
		/^#|:[0-9]+:[0-9]+:|^go: |cannot|undefined/ { print > "/dev/stderr"; next }
		{ n++ }
		n % 50 == 0 { printf "services: %s: compiled %d of at most %d packages\n", name, n, total > "/dev/stderr" }
	')
	mv "$dir/$name.new" "$dir/$name"
	say "$name built in $((SECONDS - start)) s"
}

build nats-server github.com/nats-io/nats-server/v2
build s3server ./cmd/s3server
"$dir/nats-server" --version >&2
touch "$dir/ready"
echo "$dir"
