# Sourced by the scripts beside it: what they say, how long it took, and what runs in the background while they work.
# The sourcing script stands in the project's top folder and has set step_name.

say() { printf '%s: %s\n' "$step_name" "$*" >&2; }

# die MESSAGE ends the script; the message says what to do.
die() {
	say "$*"
	exit 1
}

# clock SECONDS prints minutes and seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# scratch is a folder that goes when the script ends.
scratch=$(mktemp -d)

# The control plane takes long to build and needs little attention, so it is prepared in the background, below the
# priority of what runs meanwhile. Its process group ends with the script.
control_plane_pid=

start_control_plane() {
	[ -z "$control_plane_pid" ] || return 0
	set -m # a process group of its own, so that its compilers end with it
	nice -n 10 hack/envtest/setup.sh >"$scratch/control-plane" &
	control_plane_pid=$!
	set +m
}

# wait_control_plane sets KUBEBUILDER_ASSETS. It may be called many times.
wait_control_plane() {
	[ "$control_plane_pid" != ready ] || return 0
	start_control_plane
	! kill -0 "$control_plane_pid" 2>/dev/null || say "waiting for the control plane"
	wait "$control_plane_pid" || die "no control plane: see above, then run hack/envtest/setup.sh"
	control_plane_pid=ready
	KUBEBUILDER_ASSETS=$(cat "$scratch/control-plane")
	export KUBEBUILDER_ASSETS
}

clean_up() {
	case "$control_plane_pid" in
	'' | ready) ;;
	*) kill -- "-$control_plane_pid" 2>/dev/null || true ;;
	esac
	rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
