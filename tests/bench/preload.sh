#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the heap agent costs, beside no preload, an interposer that only passes calls
# on, one that only counts, and heaptrack (where it is installed).  All take turns in
# each repetition, so that a slow moment of the machine strikes them alike; medians
# are printed, with the agent's ratio to the counting one and the figure aimed at.
# Then what loading it costs, and the memory it takes with 64 threads.  Prints
# figures, never passes or fails.
#
#   tests/bench/preload.sh BUILDDIR        REPEAT=5 SCALE=1 THREADS="1 2 4 8 16 64"
set -u
build=${1:?usage: preload.sh BUILDDIR} here=$(dirname "$0")
agent=$(realpath "$build/.libs/libheapline-preload.so") || exit 1
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
cc=${CC:-cc} flags="-std=gnu11 -D_GNU_SOURCE -O2 -fno-builtin -pthread"
$cc $flags -o "$T/work" "$here/preload_work.c" &&
    $cc $flags -o "$T/load" "$here/preload_load.c" &&
    $cc $flags -fPIC -shared -o "$T/null.so" "$here/preload_null.c" -ldl &&
    $cc $flags -fPIC -shared -DCOUNTING -o "$T/counting.so" "$here/preload_null.c" -ldl || exit 1
names=(none null counting agent) libs=("" "$T/null.so" "$T/counting.so" "$agent")
if command -v heaptrack >/dev/null; then
    names+=(heaptrack) libs+=(heaptrack)
fi
export HEAPLINE_SOCKET= HEAPLINE_OUTPUT=$T/record
once() { # LIB PATTERN CALLS THREADS
    case $1 in
        heaptrack) heaptrack --raw -o "$T/track" "$T/work" "$2" $(($3 / 10)) "$4" 2>/dev/null |
            grep -E '^[0-9.]+$'; rm -f "$T"/track* ;;
        *) env ${1:+LD_PRELOAD="$1"} "$T/work" "$2" "$3" "$4" ;;
    esac
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : 0}'; rm "$1"; }
row() { # PATTERN CALLS THREADS AIM
    local i
    for _ in $(seq "${REPEAT:-5}"); do
        for i in "${!libs[@]}"; do once "${libs[i]}" "$1" $(($2 * ${SCALE:-1})) "$3" >>"$T/$i"; done
    done
    for i in "${!libs[@]}"; do median "$T/$i"; done | tr '\n' ' ' |
        awk -v p="$1" -v t="$3" -v aim="$4" '{
            printf "%-8s %7d %9.2f %9.2f %9.2f %9.2f %9s  %13.2f %5s %14s\n", p, t, $1, $2, $3, $4,
                $5 ? $5 : "-", $4 / $3, aim, $5 ? sprintf("%.1f", $5 / $2) : "-"}'
}
printf 'Nanoseconds for each call of a thread, medians of %s\n' "${REPEAT:-5}"
printf '%-8s %7s %9s %9s %9s %9s %9s  %s\n' workload threads none null counting agent heaptrack \
    "agent/counting (aim)  heaptrack/null"
row small 8000000 1 1.25
row live 2000000 1 1.08
row realloc 1000000 1 1.25
row grow 1000000 1 1.30
row big 20000 1 -
for t in ${THREADS:-1 2 4 8 16 64}; do row local $((2000000 / t)) "$t" 1.15; done
row cross 2000000 1 1.15
for t in ${THREADS:-1 2 4 8 16 64}; do [ "$t" = 1 ] || row cross $((1000000 / t)) "$t" -; done

# A program that does nothing, 200 times; the least of each, as it is the machine's
# other work that makes it longer.
printf '\nLoading: milliseconds of a process, least and median of 200\n'
for i in 0 1 3; do
    for _ in $(seq 200); do echo "${names[i]} ${libs[i]:--}"; done
done | shuf --random-source=<(yes) | while read -r name lib; do
    [ "$lib" = - ] && lib=
    "$T/load" run "$lib" >>"$T/load.$name"
done
for i in 0 1 3; do
    sort -n "$T/load.${names[i]}" | awk -v n="${names[i]}" \
        '{v[NR] = $1} END {printf "%-9s %.3f %.3f\n", n, v[1], v[int((NR + 1) / 2)]}'
done
if command -v strace >/dev/null; then
    calls() { strace -f -c -o "$T/calls" "$T/load" run "$1" >/dev/null; awk '$NF == "total" {print $(NF == 5 ? 3 : 4)}' "$T/calls"; }
    a=$(HEAPLINE_OUTPUT= calls "$T/null.so") b=$(HEAPLINE_OUTPUT= calls "$agent")
    echo "system calls more than with the interposer that only passes on, start and end: $((b - a))"
fi
printf '\nMemory with 64 threads, KiB private to the process, the page apart:\n'
for i in 0 1 3; do printf '%-9s %s\n' "${names[i]}" "$(env ${libs[i]:+LD_PRELOAD="${libs[i]}"} "$T/load" memory)"; done
