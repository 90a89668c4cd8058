# SPDX-License-Identifier: Apache-2.0
# cluster.sh - sourced behind tap.sh by tests in bash: several nodes, made of
# namespaces (nodes.sh), on which Open MPI's mpirun spreads ranks.  Each node has
# its own /run and /tmp; $T, the sources and the build are the shared file system.
# shellcheck shell=bash

bed=$srcdir/tests/support/nodes.sh
victim=$builddir/victim
check="$python $srcdir/tests/support/check_export.py"
bed_up=$bed bed_down=("$bed" down)
background= mpirun= # to be killed at the end

skip_unless_cluster() { # COMMAND...: what else must be there
    [ "$(id -u)" = 0 ] || skip_all "nodes need root"
    for c in unshare nsenter ip mpirun "$@"; do
        command -v "$c" >/dev/null || skip_all "$c is missing"
    done
    have_mpi || skip_all "built without MPI"
    have_h5 && have_python_h5 || skip_all "no HDF5 in this build, or python3-h5py is missing"
    readelf -d "$gather" 2>/dev/null | grep -q 'lib[atu]*san' && skip_all "too slow with sanitizers"
    unshare --net --uts --mount --ipc --pid --fork true 2>/dev/null ||
        skip_all "this place has no namespaces to make nodes of"
}

# Nodes' own folders are private; these three are not.
cluster_environment() {
    TESTBED_STATE=$(mktemp -d /var/tmp/hlnodes.XXXXXX) || exit 99
    export TESTBED_STATE TESTBED_SHARE=$T:$srcdir:$builddir
    # On a node it is private: what TMPDIR names here is the same folder for all.
    unset TMPDIR
    export OMPI_MCA_plm_rsh_agent=$TESTBED_STATE/nodes/rsh-agent
    export OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1
}
cleanup() {
    local p
    for p in $background $mpirun; do kill -9 "$p" 2>/dev/null; done
    [ -z "$TESTBED_STATE" ] || timeout 60 "${bed_down[@]}" >/dev/null 2>&1
    rm -rf "$T" "$TESTBED_STATE"
}
cluster_up() { # N [OPTION...]
    [ -n "$TESTBED_STATE" ] || cluster_environment
    timeout 120 "$bed_up" up "$@" >up.out 2>&1 </dev/null || {
        sed 's/^/# /' up.out
        skip_all "the nodes cannot be made here"
    }
}

on() { # NODE COMMAND...
    timeout -k 5 100 "$bed" exec "$@"
}
hosts() { # FIRST LAST [SLOTS]: "node0:8,node1:8"
    local i list=
    for ((i = $1; i <= $2; i++)); do list=$list,node$i${3:+:$3}; done
    echo "${list#,}"
}

# ---- collectors, at the place of the system's ----
printf '%s\n' 'quota_per_uid = 0' 'quota_total = 0' 'min_free = 0' >conf
collect_on() { # NODE...: start heaplined there
    local n i
    for n in "$@"; do
        # shellcheck disable=SC2016
        "$bed" exec "$n" sh -c 'mkdir -p /run/heapline && echo $$ >"$4" && exec "$1" -f -c "$2" \
            --socket /run/heapline/collector.sock --spool "$3"' - \
            "$collector" "$T/conf" "$T/spool.$n" "$T/pid.$n" 2>>"log.$n" </dev/null &
        background="$background $!"
        disown $!
    done
    for n in "$@"; do
        for ((i = 0; i < 100; i++)); do
            on "$n" "$builddir/fake_client" /run/heapline/collector.sock probe gather >/dev/null 2>&1 && break
            sleep 0.1
        done
    done
}
# Signal the collector of a node: its pid is that of the node.
signal_collector() { # SIGNAL NODE
    on "$2" kill "-$1" "$(cat "pid.$2")"
}
stop_collectors() { # NODE...
    local n
    for n in "$@"; do
        signal_collector TERM "$n"
        while on "$n" test -d "/proc/$(cat "pid.$n")"; do sleep 0.05; done
        on "$n" rm -f /run/heapline/collector.sock
    done
}

# ---- jobs ----
# Ranks that look after themselves: the launcher sees neither deaths nor agents.
cat >rank.sh <<'EOS'
[ "$OMPI_COMM_WORLD_RANK" != "$ABSENT" ] || exit 0
HEAPLINE_FALLBACK_DIR=/tmp HEAPLINE_JOB=$KEY LD_PRELOAD=$AGENT "$@" 2>>"$ERR"
exit 0
EOS
absent= # a rank that only the launcher knows
spread() { # KEY HOSTS MAP N COMMAND...
    local key=$1 hosts=$2 map=$3 n=$4
    shift 4
    timeout -k 5 100 "$bed" mpirun --host "$hosts" --map-by "$map" -n "$n" -x KEY="$key" \
        -x AGENT="$agent" -x ERR="$T/ranks.err" -x ABSENT="$absent" -x LD_LIBRARY_PATH="$builddir/.libs" \
        sh "$T/rank.sh" "$@" >"job.out" 2>"job.err" </dev/null || sed 's/^/# job: /' job.err
}
# gather_on HOSTS KEY PREFIX [OPTION...]: by hand, under mpirun; the status in $status,
# seconds in $took, what was said in gather.out and gather.err.
via=() # what stands between launcher and gather
gather_on() {
    local hosts=$1 key=$2 prefix=$3 began=$SECONDS
    shift 3
    timeout -k 5 100 "$bed" mpirun --host "$hosts" --map-by ppr:1:node "${via[@]}" "$gather" -j "$key" \
        -o "$prefix" "$@" >gather.out 2>gather.err </dev/null
    status=$? took=$((SECONDS - began))
}
# What the gather itself said, without mpirun's own words about a status that is not 0.
said() { grep '^heapline-gather:' "${1:-gather.err}" | sort; }

# ---- what must be true of outputs ----
# in_order CSV: the ranks of its rows
in_order() { awk -F, 'NR > 2 { printf "%s ", $1 }' "$1"; }
# exact PREFIX RANK NAME [FRAMES]: its row has what victim.c allocates in so many frames
# (40): blocks of 1000 (rank + 1) bytes and up, of which the last stays; glibc hands
# out 8 bytes less than a multiple of 16.
exact() {
    is "$(column "$1.csv" allocs "$2") $(column "$1.csv" frees "$2") $(column "$1.csv" live_heap_at_exit_bytes "$2") $(column "$1.csv" peak_heap_bytes "$2")" \
        "$(awk -v r="$2" -v n="${4:-40}" '
            function usable(b) { return int((b + 23) / 16) * 16 - 8 }
            BEGIN {
                base = 1000 * (r + 1)
                for (i = 0; i < 10; i++) sum += usable(base + i)
                print 10 * n, 9 * n, n * usable(base + 9), (n - 1) * usable(base + 9) + sum
            }')" "$3"
}
h5() { # PREFIX PYTHON: f is the file, B its group heapline
    $python -c "
import h5py
f = h5py.File('$1.h5', 'r')
B = f['heapline']
B = B['runs'][list(B['runs'])[0]] if 'runs' in B else B
def text(d): return [v.decode() for v in B[d][()]] if d in B else []
$2"
}
missing() { h5 "$1" "print('\n'.join(text('missing')))"; }


