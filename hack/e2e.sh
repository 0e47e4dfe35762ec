#!/usr/bin/env bash
# Installs the chart on a real node and tests what only a node shows: images, probes, accounts, Services, restarts.
#
# The node (API server, kubelet, containerd) runs in namespaces of its own on this machine, without a way out, and is gone afterwards.
# It needs root and Debian's containerd, runc and network plugins; on a machine that lacks something the script says what, and ends
# with 3. Programs are built once per version; images each time. Progress goes to standard error.
#
#   RUN=name    runs one of the tests
#   KEEP=1      leaves the node up when tests fail, until Ctrl-C
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=e2e
. hack/steps.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}

# folders of the machine that node programs write to; those that are not there are made, and removed again.
folders="/run/containerd /var/lib/containerd /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /etc/cni/net.d /opt/containerd /run/netns"

# lacks prints what this machine lacks for a node.
lacks() {
	[ "$(id -u)" = 0 ] || echo "root"
	local program
	for program in containerd ctr runc iptables conntrack ip nsenter unshare socat; do
		command -v $program >/dev/null || echo "the program $program (Debian: apt-get install containerd runc containernetworking-plugins iptables conntrack socat iproute2)"
	done
	[ -n "$cni" ] || echo "the network plugins bridge, host-local, portmap and loopback (Debian: containernetworking-plugins)"
	unshare --pid --fork --mount --net --uts --ipc --mount-proc true 2>/dev/null || echo "the right to make namespaces"
	grep -qw overlay /proc/filesystems || echo "overlayfs in the kernel"
	grep -qw cgroup2 /proc/filesystems || echo "cgroups"
	[ "$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)" -ge 3000 ] || echo "3 GB of free memory"
}

cni=
for folder in /usr/lib/cni /opt/cni/bin; do [ ! -x $folder/bridge ] || cni=$folder; done
if [ "$(lacks)" != "" ]; then
	say "this machine cannot run a node. It lacks:"
	lacks | sed 's/^/  /' >&2
	exit 3
fi

cgroup=/agentloop-e2e-$$
unshare_pid=
made=()

# hierarchies prints the folders of the cgroup hierarchies: one of version 2, or many of version 1.
hierarchies() { awk '$3 ~ "^cgroup2?$" && $2 ~ "^/sys/fs/cgroup(/|$)" { print $2 }' /proc/mounts; }

# stop ends the node and removes what it left on the machine.
stop() {
	local folder
	[ -z "$unshare_pid" ] || kill -KILL "$unshare_pid" 2>/dev/null || true
	[ -z "$unshare_pid" ] || wait "$unshare_pid" 2>/dev/null || true
	for folder in $(hierarchies); do
		[ ! -d "$folder$cgroup" ] || emptied "$folder$cgroup" || say "left behind: $folder$cgroup"
	done
	for folder in "${made[@]}"; do rmdir --ignore-fail-on-non-empty -p "$folder" 2>/dev/null || true; done
}

# emptied removes a cgroup and those below it, once their processes, which are being killed, are gone.
emptied() {
	local tries
	for tries in $(seq 100); do
		find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
		[ -d "$1" ] || return 0
		sleep 0.1
	done
	return 1
}

# Everything is written below scratch, which hack/steps.sh removes; the node ends first.
trap 'stop; clean_up' EXIT

work=$scratch/node
images=$scratch/images
mkdir -p "$work" "$images"
say "programs"
start_control_plane
node_programs=$(hack/e2e/programs.sh)
wait_control_plane
say "images"
platform=linux/$(go env GOARCH)
OUT=$images PLATFORMS=$platform VERSION=e2e REGISTRY=e2e.local hack/images.sh >"$scratch/images.txt"
OUT=$images PLATFORMS=$platform VERSION=e2e REGISTRY=e2e.local hack/images.sh -set test -program "coredns=$node_programs/coredns" >>"$scratch/images.txt"
cat "$scratch/images.txt" >&2
go build -o "$work/pki.bin" ./hack/e2e/pki
go test -c -vet=off -o "$work/e2e.test" ./test/e2e

say "node"
for folder in $folders; do
	[ -d "$folder" ] || { mkdir -p "$folder" && made+=("$folder"); }
done
for folder in $(hierarchies); do mkdir "$folder$cgroup"; done
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
	# Version 2: what is below gets the controllers that are handed down.
	sed 's/\(^\| \)/\1+/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
	sed 's/\(^\| \)/\1+/g' "/sys/fs/cgroup$cgroup/cgroup.controllers" >"/sys/fs/cgroup$cgroup/cgroup.subtree_control"
fi
# Where cpusets are a hierarchy of their own, a new one is empty and takes no process.
for file in cpuset.cpus cpuset.mems; do
	[ ! -f "/sys/fs/cgroup/cpuset/$file" ] || cat "/sys/fs/cgroup/cpuset/$file" >"/sys/fs/cgroup/cpuset$cgroup/$file"
done
WORK=$work CONTROL=$KUBEBUILDER_ASSETS NODE=$node_programs IMAGES=$images CGROUP=$cgroup FOLDERS=$folders CNI=$cni \
	unshare --pid --fork --kill-child=SIGKILL --mount --net --uts --ipc --mount-proc hack/e2e/node.sh &
unshare_pid=$!
until [ -f "$work/ready" ]; do
	kill -0 $unshare_pid 2>/dev/null || { tail -n 5 "$work"/log/*.log >&2 && die "the node did not come up"; }
	sleep 0.2
done
inner=$(pgrep -P $unshare_pid | head -1)

say "tests"
code=0
nsenter -t "$inner" -m -n -p -u -i -- env KUBECONFIG="$work/pki/admin.kubeconfig" KUBEBUILDER_ASSETS="$KUBEBUILDER_ASSETS" \
	E2E_ROOT="$PWD" HOME="$work" "$work/e2e.test" -test.v -test.failfast -test.timeout=20m ${RUN:+-test.run "$RUN"} || code=$?
if [ $code != 0 ] && [ -n "${KEEP:-}" ]; then
	say "the node stays: nsenter -t $inner -m -n -p -u -i -- env KUBECONFIG=$work/pki/admin.kubeconfig $KUBEBUILDER_ASSETS/kubectl get pods -A"
	wait $unshare_pid || true
fi
exit $code
