#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh: a small Slurm cluster on the nodes that nodes.sh makes.
set -euo pipefail

usage() {
	cat <<'USAGE'
Usage: slurm.sh COMMAND [ARG...]

Slurm on the namespaced nodes of nodes.sh: munged and slurmctld on head, munged
and slurmd on every node, each with its own host name, /run and /tmp. No cgroup
plugins, no accounting database.

  up [N] [OPTION...]       make N nodes (2) and start Slurm on them
      --prolog FILE        run FILE as root on each node before a job
      --epilog FILE        and after it
      --task-prolog FILE   run as the user before each task; lines that it
                           prints as "export NAME=VALUE" reach the task
      --task-epilog FILE
      --plugstack FILE     SPANK plugstack.conf
      --cpus C             CPUs that each node claims to have (4)
      --conf LINE          one more line for slurm.conf (may be repeated)
  exec CMD [ARG...]        run CMD on head: srun, sbatch, squeue, scancel, ...
  with N [OPTION...] -- CMD [ARG...]
                           up, run CMD on head, down; CMD's exit status
  log [NODE]               log of slurmd on NODE, or of slurmctld
  restart NODE             SIGKILL slurmd on NODE and start it again
  down                     stop Slurm and remove the nodes

Jobs run under Open MPI with "srun --mpi=pmix" or "sbatch" and mpirun.

Environment: those of nodes.sh. Exit status: that of the command run; 2 for
wrong usage; 69 if something the testbed needs is missing; 1 for other
failures. Needs root, slurmctld, slurmd, slurm-client, munge.
USAGE
}

top=${TESTBED_STATE:-/var/tmp/testbed}
dir=$top/slurm
nodes=$(dirname "$(readlink -f "$0")")/nodes.sh
export SLURM_CONF=$dir/slurm.conf

die() { echo "slurm.sh: $1" >&2; exit "${2:-1}"; }
need() { command -v "$1" >/dev/null || die "$1 is missing" 69; }
on() { "$nodes" exec "$@"; }

start_munge() {
	on "$1" sh -c 'mkdir -p -m 755 /run/munge && exec munged --force --num-threads=2 \
		--key-file="$1" --log-file="$2/munged-$3.log" --pid-file=/run/munge/munged.pid \
		--seed-file="$2/munge-$3.seed" --socket=/run/munge/munge.socket.2' - \
		"$dir/munge.key" "$dir" "$1" </dev/null >"$dir/munged-$1.out" 2>&1
}

start_slurmd() {
	on "$1" slurmd -N "$1" -f "$SLURM_CONF" -L "$dir/slurmd-$1.log" </dev/null >"$dir/slurmd-$1.out" 2>&1 ||
		die "slurmd on $1: $(tail -n 3 "$dir/slurmd-$1.log" "$dir/slurmd-$1.out")"
}

copy_script() { # OPTION-VALUE NAME
	[ -f "$1" ] || die "no file '$1'"
	install -m 755 "$1" "$dir/$2"
}

cmd_up() {
	local n=2 cpus=4 extra=() i ready
	local -A scripts=()
	if [[ ${1:-} =~ ^[0-9]+$ ]]; then n=$1; shift; fi
	while [ $# -gt 0 ]; do
		case $1 in
			--prolog) scripts[Prolog]=${2:?FILE} ;;
			--epilog) scripts[Epilog]=${2:?FILE} ;;
			--task-prolog) scripts[TaskProlog]=${2:?FILE} ;;
			--task-epilog) scripts[TaskEpilog]=${2:?FILE} ;;
			--plugstack) scripts[PlugStackConfig]=${2:?FILE} ;;
			--cpus) cpus=${2:?C} ;;
			--conf) extra+=("${2:?LINE}") ;;
			*) die "up: unknown option '$1'" 2 ;;
		esac
		shift 2
	done
	need slurmctld; need slurmd; need srun; need munged
	cmd_down
	"$nodes" up "$n"
	install -d -m 755 "$top" "$dir"
	install -d -m 700 "$dir/state"
	(umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
	{
		cat <<-CONF
		ClusterName=testbed
		SlurmctldHost=head
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/spool-%n
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd.pid
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		SlurmdParameters=config_overrides
		MpiDefault=none
		ReturnToService=2
		SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
		InactiveLimit=0
		KillWait=5
		SlurmdTimeout=30
		PrologFlags=Alloc
		CONF
		for i in "${!scripts[@]}"; do
			copy_script "${scripts[$i]}" "$i"
			echo "$i=$dir/$i"
		done
		[ ${#extra[@]} = 0 ] || printf '%s\n' "${extra[@]}"
		echo "NodeName=node[0-$((n - 1))] CPUs=$cpus RealMemory=1000 State=UNKNOWN"
		echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES"
	} >"$SLURM_CONF"
	start_munge head
	on head slurmctld -f "$SLURM_CONF" -L "$dir/slurmctld.log" </dev/null >"$dir/slurmctld.out" 2>&1 ||
		die "slurmctld: $(tail -n 3 "$dir/slurmctld.log")"
	for ((i = 0; i < n; i++)); do start_munge "node$i"; start_slurmd "node$i"; done
	for ((i = 0; i < 150; i++)); do
		ready=$(on head sinfo -h -t idle -o %D 2>/dev/null || true)
		[ "$ready" != "$n" ] || return 0
		sleep 0.2
	done
	on head sinfo >&2 || true
	die "the nodes did not become idle; see the logs in $dir"
}

cmd_down() {
	"$nodes" down
	rm -rf "$dir"
	rmdir "$top" 2>/dev/null || true
}

cmd_with() {
	local options=() rc=0
	while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
	[ $# -gt 1 ] || die "with: give '--' and a command" 2
	shift
	trap cmd_down EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	cmd_up "${options[@]}"
	on head "$@" || rc=$?
	return "$rc"
}

cmd=${1:-}
[ $# -eq 0 ] || shift
case $cmd in
	-h|--help|help) usage ;;
	up|down|with) "cmd_$cmd" "$@" ;;
	exec) on head "$@" ;;
	log) if [ $# -gt 0 ]; then cat "$dir/slurmd-$1.log"; else cat "$dir/slurmctld.log"; fi ;;
	restart)
		on "${1:?NODE}" sh -c 'kill -KILL "$(cat /run/slurmd.pid)"'
		start_slurmd "$1" ;;
	*) usage >&2; exit 2 ;;
esac
