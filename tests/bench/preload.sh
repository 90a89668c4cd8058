#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the heap agent costs, beside no preload, an interposer that only passes
# calls on and one that only counts.  All take turns in each repetition, so that a
# slow moment of the machine strikes them alike; medians are printed, with the
# agent's ratio to the counting one.  Prints figures, never passes or fails.
#
#   tests/bench/preload.sh BUILDDIR        REPEAT=5 SCALE=1 THREADS="1 2 4 8 16 64"
set -u
build=${1:?usage: preload.sh BUILDDIR} here=$(dirname "$0")
agent=$(realpath "$build/.libs/libheapline-preload.so") || exit 1
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
cc=${CC:-cc} flags="-std=gnu11 -D_GNU_SOURCE -O2 -fno-builtin -pthread"
$cc $flags -o "$T/work" "$here/preload_work.c" &&
    $cc $flags -fPIC -shared -o "$T/null.so" "$here/preload_null.c" -ldl &&
    $cc $flags -fPIC -shared -DCOUNTING -o "$T/counting.so" "$here/preload_null.c" -ldl || exit 1
names=(none null counting agent) libs=("" "$T/null.so" "$T/counting.so" "$agent")
printf '%-8s %7s %9s %9s %9s %9s  %s\n' pattern threads "${names[@]}" "agent/counting (ns for each call)"
one() { # PATTERN CALLS THREADS
    local i
    for _ in $(seq "${REPEAT:-5}"); do
        for i in 0 1 2 3; do
            env ${libs[i]:+LD_PRELOAD="${libs[i]}"} HEAPLINE_SOCKET= HEAPLINE_OUTPUT="$T/record" \
                "$T/work" "$1" $(($2 * ${SCALE:-1})) "$3" >>"$T/$i"
        done
    done
    for i in 0 1 2 3; do
        sort -n "$T/$i" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; rm "$T/$i"
    done | tr '\n' ' ' | awk -v p="$1" -v t="$3" \
        '{printf "%-8s %7d %9.2f %9.2f %9.2f %9.2f  %.2f\n", p, t, $1, $2, $3, $4, $4 / $3}'
}
one pair 8000000 1
one mixed 2000000 1
one resize 1000000 1
one grow 1000000 1
one big 20000 1
for t in ${THREADS:-1 2 4 8 16 64}; do one own $((2000000 / t)) "$t"; done
for t in ${THREADS:-1 2 4 8 16 64}; do [ "$t" = 1 ] || one handed $((1000000 / t)) "$t"; done
