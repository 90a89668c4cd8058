# SPDX-License-Identifier: Apache-2.0
# tap.sh - sourced by the system tests: a private folder, TAP output, the built
# programs.  A test calls ok/is/like for each point and `finish` at the end.
# shellcheck shell=sh

: "${top_srcdir:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"
srcdir=$top_srcdir builddir=$top_builddir
agent=$builddir/.libs/libheapline-preload.so
run=$builddir/heapline-run
gather=$builddir/heapline-gather
report=$builddir/heapline-report
collector=$builddir/heaplined
python=/usr/bin/python3

# Nothing of the caller's own may change what is tested.
for v in HEAPLINE_OUTPUT HEAPLINE_SOCKET HEAPLINE_JOB HEAPLINE_DISABLE HEAPLINE_FALLBACK_DIR \
    HEAPLINE_BUFFER HEAPLINE_WAIT HEAPLINE_ON_FULL HEAPLINE_VERBOSE HEAPLINE_INTERVAL OPENPFC_PROFILING_RUN_ID \
    SLURM_JOB_ID SLURM_PROCID LD_PRELOAD OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMIX_RANK \
    PMI_RANK; do
    unset $v
done
export LC_ALL=C
# Root, few cores, no ssh: what a bare container is.
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_btl_vader_single_copy_mechanism=none
command -v ssh >/dev/null 2>&1 || export OMPI_MCA_plm_rsh_agent=true

skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

T=$(mktemp -d "${TMPDIR:-/tmp}/hltest.XXXXXX") || exit 99
mkdir "$T/tmp" && export TMPDIR="$T/tmp"
cleanup() { rm -rf "$T"; }
trap cleanup EXIT
trap 'exit 99' INT TERM
cd "$T" || exit 99

count=0 failed=0
ok() { # STATUS NAME
    count=$((count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $count - $2"
    else
        failed=$((failed + 1))
        echo "not ok $count - $2"
    fi
}
is() { # GOT WANTED NAME
    if [ "$1" = "$2" ]; then
        ok 0 "$3"
    else
        ok 1 "$3"
        printf '%s\n' "got: $1" "wanted: $2" | sed 's/^/# /'
    fi
}
like() { # TEXT PATTERN NAME
    case $1 in
    *$2*) ok 0 "$3" ;;
    *)
        ok 1 "$3"
        printf '%s\n' "got: $1" "wanted somewhere in it: $2" | sed 's/^/# /'
        ;;
    esac
}
skip() { # NAME WHY
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}
finish() {
    echo "1..$count"
    [ "$failed" = 0 ]
    exit
}

have_mpi() { "$gather" --version | grep -qv 'no MPI' && command -v mpirun >/dev/null 2>&1 &&
    [ "$("$gather" --version | sed -n 2p)" != "no MPI" ]; }
have_h5() { grep -q 'define HAVE_HDF5 1' "$builddir/config.h"; }
have_python_h5() { $python -c 'import h5py' >/dev/null 2>&1; }

rows() { awk 'NR > 2' "$1" | wc -l; }
# column FILE NAME RANK: that column of the row of a rank
column() {
    awk -F, -v c="$2" -v r="$3" '
        NR == 2 { for (i = 1; i <= NF; i++) if ($i == c) k = i }
        NR > 2 && $1 == r { print $k; exit }' "$1"
}
# A long run that hangs must not hang the suite.
limited() { timeout -k 5 120 "$@"; }
