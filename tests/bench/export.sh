#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the writers of JSON and HDF5 cost, beside bare loops of the same numbers
# (export_write.c), which take turns with them in each repetition, so that a slow moment
# of the machine strikes both alike.  Medians and their ratios are printed beside the
# figures aimed at.  Prints, never passes or fails.
#
#   tests/bench/export.sh BUILDDIR [CASE]...     json hdf5 shape
#   REPEAT=5 FOLDER=/dev/shm
set -u
build=$(cd "${1:?usage: export.sh BUILDDIR [CASE]...}" && pwd) || exit 1
shift
write=$build/tests/bench/export_write
repeat=${REPEAT:-5} folder=${FOLDER:-/dev/shm}
[ -d "$folder" ] || folder=${TMPDIR:-/tmp}
T=$(mktemp -d "$folder/hlbench.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM

median() { # FILE FIELD
    sort -g -k"$2,$2" "$1" | awk -v f="$2" '{v[NR] = $f} END {print v[int((NR + 1) / 2)]}'
}
# Ours and the bare loop of one shape: KIND AIM RANKS PATHS FRAMES
compare() {
    local kind=$1 aim=$2 i
    shift 2
    rm -f "$T/ours" "$T/bare"
    for ((i = 0; i < repeat; i++)); do
        "$write" bare-$kind "$T/out" "$@" >>"$T/bare" || exit 1
        "$write" $kind "$T/out" "$@" >>"$T/ours" || exit 1
    done
    rm -f "$T/out"
    awk -v k=$kind -v s="$1 ranks x $2 paths x $3 frames" -v o="$(median "$T/ours" 1)" \
        -v b="$(median "$T/bare" 1)" -v m="$(median "$T/ours" 2)" -v aim="$aim" 'BEGIN {
        printf "%-5s %-36s bare %.3f s  ours %.3f s  ratio %.2f%s  peak RSS %.1f MiB\n", k, s, b, o, o / b,
            aim == "" ? "" : " (aim " aim ")", m / 1024 }'
}
[ $# -gt 0 ] || set -- json hdf5 shape
for c in "$@"; do
    case $c in
    json) compare json "at most 0.6" 8 200 500 ;;
    hdf5)
        compare hdf5 "at most 1.1" 128 200 100
        compare hdf5 "at most 1.1" 1000 200 10
        ;;
    shape)
        compare json "" 4 20 20000
        compare hdf5 "" 4 20 20000
        ;;
    *) echo "export.sh: no case $c" >&2; exit 2 ;;
    esac
done
