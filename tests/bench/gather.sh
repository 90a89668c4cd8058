#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The gather: forwarding between two processes beside a bare loop of messages, and
# the whole of it beside its slowest writer alone, in turns.  Medians.  Prints,
# never passes or fails.
#
#   tests/bench/gather.sh BUILDDIR [CASE]...     forward whole shape
#   REPEAT=5 FOLDER=/dev/shm
set -u
build=$(cd "${1:?usage: gather.sh BUILDDIR [CASE]...}" && pwd) || exit 1
shift
repeat=${REPEAT:-5} folder=${FOLDER:-/dev/shm}
[ -d "$folder" ] || folder=${TMPDIR:-/tmp}
T=$(mktemp -d "$folder/hlbench.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
export HEAPLINE_SOCKET= HEAPLINE_FALLBACK_DIR=$T

now() { date +%s.%N; }
# seconds of a gather of these formats, into FILE
timed() {
    local from
    rm -f "$T"/out.*
    from=$(now)
    "$build/heapline-gather" --local --keep -q -j K -o "$T/out" -f "$2" >/dev/null || exit 1
    awk -v a="$from" -v b="$(now)" 'BEGIN {print b - a}' >>"$1"
}
median() { sort -g "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
# RANKS FRAMES PATHS
whole() {
    local i f slowest=
    rm -rf "$T"/*
    "$build/tests/support/make_rows" "$T" K 0 $(($1 - 1)) "$1" "$2" "$3" || exit 1
    for ((i = 0; i < repeat; i++)); do
        for f in json hdf5 csv json,hdf5,csv; do timed "$T/$f.s" $f; done
    done
    for f in json hdf5; do
        slowest=$(awk -v a="$(median "$T/$f.s")" -v b="${slowest:-0}" 'BEGIN {print (a > b ? a : b)}')
    done
    awk -v s="$1 ranks x $2 frames x $3 paths" -v j="$(median "$T/json.s")" \
        -v h="$(median "$T/hdf5.s")" -v c="$(median "$T/csv.s")" \
        -v a="$(median "$T/json,hdf5,csv.s")" -v m="$slowest" 'BEGIN {
        printf "whole %-36s json %.3f s  hdf5 %.3f s  csv %.3f s  all %.3f s  ratio to the slowest %.2f (aim at most 1.2)\n",
            s, j, h, c, a, a / m }'
}
[ $# -gt 0 ] || set -- forward whole shape
for c in "$@"; do
    case $c in
    forward) mpirun -n 2 "$build/tests/bench/forward" 1024 "$repeat" ;;
    whole)
        whole 4 50000 50
        whole 1000 10 200
        ;;
    shape) whole 4 20000 20 ;;
    *) echo "gather.sh: no case $c" >&2; exit 2 ;;
    esac
done
