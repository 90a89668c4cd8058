#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the collector takes and costs, beside a reader of the same bytes in the same
# folder that only reads and appends (collector_limit.c).  The two take turns in each
# repetition, so that a slow moment of the machine strikes them alike; medians and
# their ratios are printed beside the figures aimed at.  Prints, never passes or fails.
#
#   tests/bench/collector.sh BUILDDIR [CASE]...    stream rows storm idle
#   REPEAT=5 BYTES=134217728 CLIENTS="1 8 64 512" SECONDS_IDLE=20 FOLDER=/dev/shm
#
# The clients of `stream` have their messages, checksums included, ready: a process
# makes them when it commits a frame; what that costs is in `rows`.
set -u
build=$(cd "${1:?usage: collector.sh BUILDDIR [CASE]...}" && pwd) || exit 1
shift
here=$(cd "$(dirname "$0")" && pwd)
load=$build/tests/support/collector_load rows=$build/tests/bench/collector_rows
repeat=${REPEAT:-5} bytes=${BYTES:-134217728} folder=${FOLDER:-/dev/shm}
[ -d "$folder" ] || folder=${TMPDIR:-/tmp}
T=$(mktemp -d "$folder/hlbench.XXXXXX") || exit 1
daemon=
cleanup() {
    [ -z "$daemon" ] || kill -9 $daemon 2>/dev/null
    rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -o "$T/limit" "$here/collector_limit.c" || exit 1
cat >"$T/conf" <<'EOC'
quota_per_uid = 0
quota_total = 0
min_free = 0
log_level = warning
EOC
unset HEAPLINE_OUTPUT HEAPLINE_FALLBACK_DIR HEAPLINE_DISABLE HEAPLINE_BUFFER HEAPLINE_WAIT

listening() { # LOG: of the plain reader
    until grep -q listening "$1"; do sleep 0.01; done
}
start() {
    "$build/heaplined" -f -c "$T/conf" --socket "$T/s" --spool "$T/spool" 2>"$T/log" &
    daemon=$!
    until "$load" verify "$T/s" probe wait=0 >/dev/null 2>&1; do
        kill -0 $daemon 2>/dev/null || { cat "$T/log"; exit 1; }
        sleep 0.02
    done
}
stop() {
    kill $daemon
    wait $daemon
    daemon=
    rm -rf "$T/spool"
}
between() { # FILES: seconds from the line start to the line end, of the latest end
    awk '$1 == "start" {s = $2} $1 == "end" && $2 > e {e = $2} END {printf "%.6f\n", (e - s) / 1e9}' "$@"
}
median() { sort -g "$1" | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : 0}'; }
spread() { sort -g "$1" | awk '{v[NR] = $1} END {printf "%s to %s", v[1], v[NR]}'; }
# The plain reader and clients that only send: MODE ARGUMENTS-OF-CLIENTS...
plain() { # OUT READER-MODE N FILE CLIENT...
    local out=$1 mode=$2 n=$3 file=$4
    shift 4
    : >"$T/r"
    # shellcheck disable=SC2086
    "$T/limit" $mode "$T/p" "$n" $file >"$T/r" &
    local reader=$!
    listening "$T/r"
    "$@" >"$T/c"
    wait $reader
    sed -i '/^end/d' "$T/c"
    between "$T/c" "$T/r" >>"$out"
    rm -f ${file:+"$file"}
}
header() { printf '\n%s (medians of %s)\n' "$1" "$repeat"; }
line() { # WHAT UNIT-COUNT OUT-PLAIN OUT-OURS AIM INVERT
    awk -v w="$1" -v n="$2" -v p="$(median "$3")" -v o="$(median "$4")" -v aim="$5" -v u="$6" \
        -v sp="$(spread "$3")" -v so="$(spread "$4")" 'BEGIN {
        if (u == "time") printf "%-26s plain %.3f s  heaplined %.3f s  ratio %.2f (aim %s)", w, p, o, o / p, aim
        else printf "%-26s plain %.3g %s  heaplined %.3g %s  ratio %.2f (aim %s)", w, n / p, u, n / o, u, p / o, aim
        printf "   seconds: %s; %s\n", sp, so}'
    rm -f "$3" "$4"
}

case_stream() {
    local n r
    header "Throughput, batches of 64 KiB, $((bytes >> 20)) MiB in all, $folder"
    for n in ${CLIENTS:-1 8 64 512}; do
        for r in $(seq "$repeat"); do
            plain "$T/o.plain" stream "$n" "$T/plain.out" \
                "$load" stream "$T/p" k procs="$n" bytes="$bytes" seed="$r" plain
            start
            "$load" stream "$T/s" k procs="$n" bytes="$bytes" seed="$r" \
                $([ "$n" -lt 512 ] || echo shared) >"$T/c"
            between "$T/c" >>"$T/o.ours"
            stop
        done
        line "$n clients$([ "$n" -lt 512 ] || echo ', page and ring')" \
            "$(awk -v b="$bytes" 'BEGIN {print b / 2^30}')" "$T/o.plain" "$T/o.ours" '>= 0.8' GiB/s
    done
}
case_rows() {
    local n r total=$((bytes / 2)) limit
    header "Rows of 512 bytes: the client library, and sends of one row to the plain reader"
    for n in ${ROW_CLIENTS:-1 8}; do
        for r in $(seq "$repeat"); do
            limit=$T/limit
            plain "$T/o.plain" stream "$n" "$T/plain.out" "$limit" rows "$T/p" "$n" "$total"
            start
            HEAPLINE_JOB=rows HEAPLINE_SOCKET=$T/s "$rows" "$n" $((total / 512)) >"$T/c"
            read -r secs dropped <"$T/c"
            echo "$secs" >>"$T/o.ours"
            [ "$dropped" = 0 ] || echo "$dropped rows were dropped"
            stop
        done
        line "$n processes" $((total / 512)) "$T/o.plain" "$T/o.ours" '>= 5' rows/s
    done
}
case_storm() {
    local n=4096 r
    header "A storm of $n connections from 8 processes"
    for r in $(seq "$repeat"); do
        plain "$T/o.plain" storm $n "" "$load" storm "$T/p" k procs=$n plain
        start
        "$load" storm "$T/s" k procs=$n seed="$r" >"$T/c"
        between "$T/c" >>"$T/o.ours"
        stop
    done
    line "until all were answered" $n "$T/o.plain" "$T/o.ours" '<= 3' time
}
ticks() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$daemon/stat"; }
rss() { awk '$1 == "VmRSS:" {print $2}' "/proc/$daemon/status"; }
case_idle() {
    local n=${IDLE_PROCESSES:-4096} secs=${SECONDS_IDLE:-20} moving before fifo=$T/hold empty full
    printf '\nIdle with %s processes and their pages, %s s\n' "$n" "$secs"
    mkfifo "$fifo"
    for moving in 0 64; do
        start
        empty=$(rss)
        "$load" swarm "$T/s" idle procs="$n" ring=0 pages hold moving=$moving <"$fifo" >"$T/c" &
        exec 3>"$fifo"
        until grep -qE 'ready|failed' "$T/c"; do sleep 0.1; done
        sleep 3 # what their coming has set going is over
        full=$(rss)
        before=$(ticks)
        sleep "$secs"
        awk -v t=$(($(ticks) - before)) -v hz="$(getconf CLK_TCK)" -v s="$secs" -v m=$moving \
            'BEGIN {printf "%2d of them counting: %.2f%% of one processor (aim < 2%%)\n", m, 100 * t / hz / s}'
        [ $moving != 0 ] || awk -v a="$empty" -v b="$full" -v n="$n" \
            'BEGIN {printf "memory of a process: %.2f KiB (aim <= 8)\n", (b - a) / n}'
        exec 3>&-
        wait $!
        stop
    done
    rm -f "$fifo"
}
for c in ${*:-stream rows storm idle}; do "case_$c" 3>&-; done
