#!/usr/bin/env bash
# Runs a Kubernetes cluster of one node inside namespaces of its own (processes, mounts, network, names): it is the first process
# of them, and when it ends, so does everything that it started. hack/e2e.sh calls it.
#
#   WORK      folder for everything that is written; its file "ready" appears when the node is Ready
#   CONTROL   folder with etcd, kube-apiserver, kube-controller-manager and kubectl
#   NODE      folder with kube-scheduler, kubelet and kube-proxy
#   IMAGES    folder with OCI archives to import
#   CGROUP    path below each cgroup hierarchy that the kubelet may use; it exists
#   FOLDERS   folders of the machine that node programs write to, each replaced by one of ours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

name=node address=10.89.0.1 port=6443
pki=$WORK/pki logs=$WORK/log
mkdir -p "$logs"
say() { printf 'node: %s\n' "$*" >&2; }

# run NAME COMMAND... starts a program of the cluster, with a log of its own.
run() {
	local program=$1
	shift
	"$@" >"$logs/$program.log" 2>&1 &
	echo $! >"$WORK/$program.pid"
}

# await SECONDS WHAT COMMAND... asks until the command succeeds.
await() {
	local limit=$1 what=$2 end
	shift 2
	end=$((SECONDS + limit))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { say "$what: not within $limit s; see $logs" && exit 1; }
		sleep 0.2
	done
	say "$what after $SECONDS s"
}

# folders puts ours over those of the machine, seen by the processes in here only.
folders() {
	local folder
	mount --make-rprivate /
	mount --make-rshared / # Pods' mounts must reach the kubelet's
	for folder in $FOLDERS; do
		mkdir -p "$WORK/fs$folder"
		mount --bind "$WORK/fs$folder" "$folder"
	done
	mount -t tmpfs tmpfs /run/containerd
	mount -t tmpfs tmpfs /run/netns
	mount --make-rshared /
}

# network is a loopback and a bridge that bears the node's address. There is no way out.
network() {
	ip link set lo up
	ip link add node0 type bridge
	ip address add $address/24 dev node0
	ip link set node0 up
	ip route add default dev node0
	sysctl -qw net.ipv4.ip_forward=1
	sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true # absent where bridges are always seen
	cat >/etc/cni/net.d/10-bridge.conflist <<-JSON
		{"cniVersion": "1.0.0", "name": "e2e", "plugins": [
		  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
		   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}}]}
	JSON
}

control_plane() {
	"$WORK/pki.bin" "$pki" $name $address $port
	run etcd "$CONTROL/etcd" --data-dir="$WORK/etcd" --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
		--listen-peer-urls=http://127.0.0.1:2380 --unsafe-no-fsync --log-level=warn
	run kube-apiserver "$CONTROL/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --secure-port=$port --advertise-address=$address \
		--service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
		--kubelet-client-certificate="$pki/apiserver-kubelet.crt" --kubelet-client-key="$pki/apiserver-kubelet.key" \
		--kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
		--service-account-issuer=https://kubernetes.default.svc.cluster.local \
		--service-account-key-file="$pki/accounts.pub" --service-account-signing-key-file="$pki/accounts.key"
	await 120 "API server ready" kubectl get --raw /readyz
	local program
	for program in kube-controller-manager kube-scheduler; do
		local binary=$CONTROL/$program extra=()
		if [ $program = kube-scheduler ]; then
			binary=$NODE/$program
		else
			extra=(--root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/accounts.key" --use-service-account-credentials=true)
		fi
		run $program "$binary" --kubeconfig="$pki/$program.kubeconfig" --authentication-kubeconfig="$pki/$program.kubeconfig" \
			--authorization-kubeconfig="$pki/$program.kubeconfig" --bind-address=127.0.0.1 --leader-elect=false --cert-dir="$WORK/$program" "${extra[@]}"
	done
}

kubectl() { "$CONTROL/kubectl" --kubeconfig "$pki/admin.kubeconfig" "$@"; }

runtime() {
	cat >"$WORK/containerd.toml" <<-TOML
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "e2e.local/pause:e2e"
		  disable_apparmor = true
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "$CNI"
		    conf_dir = "/etc/cni/net.d"
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "overlayfs"
	TOML
	run containerd containerd --config "$WORK/containerd.toml" --address /run/containerd/containerd.sock
	await 30 "containerd answers" ctr version
	local archive
	for archive in "$IMAGES"/*.tar; do ctr -n k8s.io images import "$archive" >>"$logs/import.log" 2>&1; done
	say "images imported after $SECONDS s"
}

node() {
	cat >"$WORK/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		failCgroupV1: false
		cgroupDriver: cgroupfs
		cgroupRoot: $CGROUP
		cgroupsPerQOS: true
		enforceNodeAllocatable: [pods]
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $pki/kubelet.crt
		tlsPrivateKeyFile: $pki/kubelet.key
		clusterDNS: [10.96.0.10]
		clusterDomain: cluster.local
		resolvConf: ""
		failSwapOn: false
		evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		nodeStatusUpdateFrequency: 5s
	YAML
	run kubelet "$NODE/kubelet" --config="$WORK/kubelet.yaml" --kubeconfig="$pki/kubelet.kubeconfig" --hostname-override=$name --node-ip=$address --root-dir=/var/lib/kubelet
	run kube-proxy "$NODE/kube-proxy" --kubeconfig="$pki/kube-proxy.kubeconfig" --hostname-override=$name --proxy-mode=iptables \
		--cluster-cidr=10.244.0.0/16 --bind-address=$address --conntrack-max-per-core=0
	await 180 "node Ready" kubectl wait --for=condition=Ready node/$name --timeout=1s
	kubectl apply -f dns.yaml >/dev/null
	await 60 "name service Ready" kubectl -n kube-system rollout status deployment/coredns --timeout=1s
}

hostname $name
folders
network
control_plane
runtime
node
touch "$WORK/ready"
while :; do
	sleep 3600 &
	wait $! || true
done
