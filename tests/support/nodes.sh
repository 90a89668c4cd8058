#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nodes.sh: several cluster nodes on one machine, made of Linux namespaces.
set -euo pipefail

usage() {
	cat <<'USAGE'
Usage: nodes.sh COMMAND [ARG...]

Several "nodes" on one machine. Each node has its own host name, network
address, PID space (PIDs repeat from node to node), IPC, /proc, /etc/hosts,
/etc/machine-id, and its own empty /run, /tmp and /dev/shm. All other
directories are the machine's own and play the shared file system. The nodes
and a login node called "head" hang on one switch. Nothing is added to the
machine's own network.

Making and removing
  up [N]                   make head and node0..node(N-1); N from 1 to 8 (2)
  down                     kill everything in the nodes and remove them
  status                   one line for each node
  with N CMD [ARG...]      up N, run CMD on head, down; CMD's exit status

Running
  exec NODE CMD [ARG...]   run CMD on NODE with the caller's environment
  mpirun [ARG...]          Open MPI's mpirun on head, ranks on the nodes
  rsh NODE CMD...          what ssh does: a fresh environment, one shell line

Faults
  cut NODE                 blackhole NODE's link, no carrier change
  unplug NODE              take NODE's carrier away
  mend NODE                undo cut, unplug, slow and loss
  slow NODE RATE [DELAY]   limit NODE's link, for example: slow node1 1mbit 20ms
                           (DELAY needs the kernel's netem)
  loss NODE PERCENT        drop PERCENT of the packets that reach NODE (nft)
  kill NODE                SIGKILL every process of NODE; the node stays
  crash NODE               power off: link first, then all processes at once
  boot NODE                start a crashed node again, with empty /run and /tmp
  pause NODE | resume NODE SIGSTOP or SIGCONT every process of NODE

Environment
  TESTBED_STATE    where state is kept    (/var/tmp/testbed)
  TESTBED_SHARE    directories below /tmp, /run or /dev/shm that all nodes keep
                   seeing, colon-separated (the current directory if there)
  TESTBED_PRIVATE  more directories that are private to each node,
                   colon-separated (they must exist)
  TESTBED_NET      first three numbers of the network (10.213.7)

Exit status: that of the command run; 2 for wrong usage; 69 if something the
testbed needs is missing; 1 for other failures. Needs root, iproute2, util-linux.
USAGE
}

state=${TESTBED_STATE:-/var/tmp/testbed}/nodes
net=${TESTBED_NET:-10.213.7}
self=$(readlink -f "$0")

die() { echo "nodes.sh: $1" >&2; exit "${2:-1}"; }
need() { command -v "$1" >/dev/null || die "$1 is missing" 69; }

node_names() { [ -d "$state" ] && (cd "$state" && ls -d head node? 2>/dev/null) || true; }

# Print the PID of NODE's first process, or fail if the node isn't running.
node_pid() {
	local pid
	[ -d "$state/$1" ] || die "no node called '$1'; see 'nodes.sh status'"
	pid=$(cat "$state/$1/pid" 2>/dev/null) || return 1
	[ "$(stat -Lc %i "/proc/$pid/ns/uts" 2>/dev/null)" = "$(cat "$state/$1/uts")" ] || return 1
	echo "$pid"
}

must_run() { node_pid "$1" || die "$1 is not running; see 'nodes.sh boot'"; }
on_switch() { nsenter -t "$(cat "$state/switch")" -n -- "$@"; }
address() { [ "$1" = head ] && echo "$net.100" || echo "$net.$((10 + ${1#node}))"; }

# Runs as the node's first process, inside its new namespaces.
node_init() {
	local name=$1 dir=$state/$1 i fds=() dirs=() IFS=:
	exec </dev/null
	for i in ${TESTBED_SHARE:-}; do
		[ -d "$i" ] || continue
		dirs+=("$i")
		exec {fd}<"$i"
		fds+=("$fd")
	done
	unset IFS
	hostname "$name"
	mount --make-rprivate /
	mount --bind "$dir/hosts" /etc/hosts
	mount --bind "$dir/hostname" /etc/hostname
	[ ! -e /etc/machine-id ] || mount --bind "$dir/machine-id" /etc/machine-id
	mount -t tmpfs -o mode=1777 tmpfs /tmp
	mount -t tmpfs -o mode=755 tmpfs /run
	mount -t tmpfs -o mode=1777 tmpfs /dev/shm
	mkdir -p /run/lock /run/user
	IFS=:
	for i in ${TESTBED_PRIVATE:-}; do
		mount -t tmpfs -o mode="$(stat -c %a "$i")" tmpfs "$i"
	done
	unset IFS
	for i in "${!dirs[@]}"; do
		mkdir -p "${dirs[i]}"
		mount --no-canonicalize --bind "/proc/self/fd/${fds[i]}" "${dirs[i]}"
		exec {fds[i]}<&-
	done
	# head keeps the machine's PIDs, so that it can enter the other nodes.
	[ "$name" = head ] || mount -t proc proc /proc
	: >"$dir/ready"
	# A shell as first process reaps what the node's daemons leave behind.
	exec env -i PATH="$PATH" /bin/sh -c \
		'trap "" HUP INT TERM; while :; do sleep 2147483647 & wait; done'
}

# Start NODE: new namespaces, then its link to the switch.
node_boot() {
	local name=$1 dir=$state/$1 pid i pidns=(--pid --fork --kill-child)
	[ "$name" != head ] || pidns=()
	mkdir -p "$dir"
	rm -f "$dir/ready" "$dir/pid" "$dir/cut"
	printf '%s\n' "$name" >"$dir/hostname"
	[ -s "$dir/machine-id" ] || tr -d - </proc/sys/kernel/random/uuid >"$dir/machine-id"
	cp "$state/hosts" "$dir/hosts"
	TESTBED_NODE_INIT=1 setsid unshare --net --uts --mount --ipc "${pidns[@]}" \
		"$self" "$name" >"$dir/log" 2>&1 &
	disown
	for ((i = 0; i < 100; i++)); do
		[ ! -e "$dir/ready" ] || break
		kill -0 $! 2>/dev/null || die "cannot start $name: $(cat "$dir/log")"
		sleep 0.05
	done
	pid=$!
	# With a PID namespace, unshare waits and its only child is the node.
	[ "$name" = head ] || pid=$(cat "/proc/$!/task/$!/children")
	pid=${pid%% *}
	stat -Lc %i "/proc/$pid/ns/uts" >"$dir/uts"
	echo "$pid" >"$dir/pid"
	on_switch ip link del "sw-$name" 2>/dev/null || true
	on_switch ip link add "sw-$name" type veth peer name eth0 netns "$pid"
	on_switch ip link set "sw-$name" master br0 up
	nsenter -t "$pid" -n ip addr add "$(address "$name")/24" dev eth0
	nsenter -t "$pid" -n ip link set eth0 up
	nsenter -t "$pid" -n ip link set lo up
}

cmd_up() {
	local n=${1:-2} i cwd
	[[ $n =~ ^[1-8]$ ]] || die "up: '$n' is not a number from 1 to 8" 2
	[ "$(id -u)" = 0 ] || die "must run as root" 69
	need ip; need unshare; need nsenter
	[ -z "$(node_names)" ] || cmd_down
	cwd=$(pwd -P)
	case $cwd in /tmp/?*|/run/?*|/dev/shm/?*) : "${TESTBED_SHARE=$cwd}" ;; esac
	export TESTBED_SHARE="${TESTBED_SHARE:-}" TESTBED_PRIVATE="${TESTBED_PRIVATE:-}"
	mkdir -p "$state"
	printf '%s\n' "$TESTBED_SHARE" >"$state/share"
	printf '%s\n' "$TESTBED_PRIVATE" >"$state/private"
	setsid unshare --net sleep 2147483647 </dev/null >/dev/null 2>&1 &
	disown
	echo $! >"$state/switch"
	for ((i = 0; i < 100; i++)); do
		[ "/proc/$!/ns/net" -ef /proc/self/ns/net ] || break
		sleep 0.02
	done
	on_switch ip link add br0 type bridge
	on_switch ip link set br0 up
	{
		echo "127.0.0.1 localhost"
		for ((i = 0; i < n; i++)); do echo "$(address "node$i") node$i"; done
		echo "$(address head) head"
	} >"$state/hosts"
	printf '#!/bin/sh\nexec "%s" rsh "$@"\n' "$self" >"$state/rsh-agent"
	chmod 755 "$state/rsh-agent"
	node_boot head
	for ((i = 0; i < n; i++)); do node_boot "node$i"; done
}

cmd_down() {
	local name pid
	for name in $(node_names); do
		if pid=$(node_pid "$name"); then
			[ "$name" != head ] || kill_head
			kill -KILL "$pid" 2>/dev/null || true
		fi
	done
	pid=$(cat "$state/switch" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sleep ] &&
		kill -KILL "$pid" || true
	rm -rf "$state"
}

# head has no PID namespace: its processes are those in its UTS namespace.
head_pids() {
	local p first
	first=$(cat "$state/head/pid")
	for p in /proc/[0-9]*; do
		[ "$p" != "/proc/$first" ] || continue
		[ ! "$p/ns/uts" -ef "/proc/$first/ns/uts" ] || echo "${p#/proc/}"
	done
}

kill_head() {
	local i pids
	for ((i = 0; i < 20; i++)); do
		pids=$(head_pids)
		[ -n "$pids" ] || return 0
		kill -KILL $pids 2>/dev/null || true
	done
}

# Signal every process of a node except its first.
signal_node() {
	local pid
	pid=$(must_run "$2")
	if [ "$2" = head ]; then
		[ "$1" = KILL ] && kill_head || kill "-$1" $(head_pids) 2>/dev/null || true
	else
		nsenter -t "$pid" -p -- kill "-$1" -- -1 2>/dev/null || true
	fi
}

# The directory as NODE sees it, or / if it has none of that name.
work_dir() { [ -d "/proc/$1/root$2" ] && echo "$2" || echo /; }

cmd_exec() {
	local name=${1:?NODE} pid
	pid=$(must_run "$name")
	shift
	[ $# -gt 0 ] || set -- "${SHELL:-/bin/sh}"
	local all=(-n -u -m -i)
	[ "$name" = head ] || all+=(-p)
	exec nsenter -t "$pid" "${all[@]}" --wdns="$(work_dir "$pid" "$PWD")" -- "$@"
}

cmd_rsh() {
	local name=${1:?NODE} pid
	shift
	# A node that was cut off can't be reached by a real remote shell either.
	[ ! -e "$state/$name/cut" ] || die "connect to host $name: No route to host" 255
	pid=$(must_run "$name")
	local all=(-n -u -m -i)
	[ "$name" = head ] || all+=(-p)
	exec nsenter -t "$pid" "${all[@]}" --wdns="$(work_dir "$pid" "${HOME:-/}")" -- \
		env -i HOME="${HOME:-/root}" USER="$(id -un)" LOGNAME="$(id -un)" SHELL=/bin/sh \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		/bin/sh -c "$*"
}

cmd_mpirun() {
	need mpirun
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_plm_rsh_agent=$state/rsh-agent OMPI_MCA_plm_rsh_no_tree_spawn=1
	export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
	export OMPI_MCA_mpi_yield_when_idle=1
	cmd_exec head mpirun "$@"
}

cmd_slow() {
	local name=${1:?NODE} rate=${2:?RATE} delay=${3:-}
	local pid
	pid=$(must_run "$name")
	limit() { # both directions, one queue at each end of the link
		"$@" tc qdisc del dev "$dev" root 2>/dev/null || true
		"$@" tc qdisc add dev "$dev" root handle 1: tbf rate "$rate" burst 16kb latency 200ms
		if [ -n "$delay" ]; then
			"$@" tc qdisc add dev "$dev" parent 1:1 handle 10: netem delay "$delay" 2>/dev/null ||
				die "DELAY: this kernel has no netem; RATE alone was set" 69
		fi
	}
	local dev="sw-$name"; limit on_switch
	dev=eth0; limit nsenter -t "$pid" -n
}

cmd_mend() {
	local name=${1:?NODE} pid
	pid=$(must_run "$name")
	rm -f "$state/$name/cut"
	on_switch ip link set "sw-$name" up
	on_switch ip link set "sw-$name" master br0
	on_switch tc qdisc del dev "sw-$name" root 2>/dev/null || true
	nsenter -t "$pid" -n tc qdisc del dev eth0 root 2>/dev/null || true
	nsenter -t "$pid" -n nft delete table inet testbed 2>/dev/null || true
}

cmd_loss() {
	local name=${1:?NODE} percent=${2:?PERCENT} pid
	need nft
	[[ $percent =~ ^[0-9]+$ ]] && [ "$percent" -le 100 ] || die "loss: '$percent' is not a percentage" 2
	pid=$(must_run "$name")
	nsenter -t "$pid" -n nft -f - <<NFT
table inet testbed
delete table inet testbed
table inet testbed {
	chain in { type filter hook input priority 0; iifname "eth0" numgen random mod 100 < $percent drop; }
}
NFT
}

cmd_status() {
	local name pid line
	[ -n "$(node_names)" ] || { echo "no nodes; see 'nodes.sh up'"; return 0; }
	for name in $(node_names); do
		pid=$(node_pid "$name") || pid=-
		line=$(on_switch ip -o link show "sw-$name" 2>/dev/null |
			sed -nE 's/.*state ([A-Z]+).*/\1/p')
		on_switch ip -o link show "sw-$name" 2>/dev/null | grep -q 'master br0' || line=CUT
		printf '%-6s %-14s link %-5s pid %s\n' "$name" "$(address "$name")" "${line:-none}" "$pid"
	done
}

cmd_with() {
	local n=${1:?N} rc=0
	shift
	trap cmd_down EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	cmd_up "$n"
	(cmd_exec head "$@") || rc=$?
	return "$rc"
}

if [ "${TESTBED_NODE_INIT:-}" = 1 ]; then
	unset TESTBED_NODE_INIT
	node_init "$1"
fi

cmd=${1:-}
[ $# -eq 0 ] || shift
case $cmd in
	-h|--help|help) usage ;;
	up|down|status|with|exec|rsh|mpirun|slow|loss|mend) "cmd_$cmd" "$@" ;;
	cut)
		must_run "${1:?NODE}" >/dev/null
		: >"$state/$1/cut"
		on_switch ip link set "sw-$1" nomaster ;;
	unplug)
		must_run "${1:?NODE}" >/dev/null
		: >"$state/$1/cut"
		on_switch ip link set "sw-$1" down ;;
	kill) signal_node KILL "${1:?NODE}" ;;
	pause) signal_node STOP "${1:?NODE}" ;;
	resume) signal_node CONT "${1:?NODE}" ;;
	crash)
		pid=$(must_run "${1:?NODE}")
		: >"$state/$1/cut"
		on_switch ip link set "sw-$1" nomaster
		[ "$1" != head ] || kill_head
		kill -KILL "$pid"
		rm -f "$state/$1/pid" ;;
	boot)
		! node_pid "${1:?NODE}" >/dev/null || die "$1 is running"
		TESTBED_SHARE=$(cat "$state/share") TESTBED_PRIVATE=$(cat "$state/private")
		export TESTBED_SHARE TESTBED_PRIVATE
		node_boot "$1" ;;
	*) usage >&2; exit 2 ;;
esac
