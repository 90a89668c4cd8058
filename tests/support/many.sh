# SPDX-License-Identifier: Apache-2.0
# many.sh - sourced behind collector.sh: thousands of processes at once
# (tests/support/collector_load.c), and what they leave in the collector.
# shellcheck shell=sh

load=$builddir/tests/support/collector_load
memory() { awk '$1 == "VmRSS:" {print $2}' "/proc/$daemon/status"; }
all_descriptors() { ls "/proc/$daemon/fd" | wc -l; }
# Read whole, the jobs go after job_keep_read; then nothing of them is known.
no_spools() { [ -z "$(find "$spool" -name '*.spool')" ]; } # removed behind the answer
gone() { # KEY JOBS
    [ "$("$load" verify "$sock" "$1" jobs="$2" wait=0 | field processes)" = 0 ]
}
# KEY PROCESSES JOBS: rows and records of all, read and taken, in $T/verified
through() {
    timeout 200 "$load" swarm "$sock" "$1" procs="$2" jobs="$3" rows=100 ring=65536 \
        pages seed="$4" >swarm 2>&1 || sed 's/^/# /' swarm
    timeout 200 "$load" verify "$sock" "$1" jobs="$3" wait=60000 taken >verified 2>&1 ||
        sed 's/^/# /' verified
}
many() { # PROCESSES JOBS KIB: what memory may differ by when all is over, at least
    n=$1 jobs=$2 least=$3
    # A page and a ring from one connection: socket, pidfd, page, ring of each process.
    hard=$(ulimit -Hn)
    [ "$hard" = unlimited ] || [ "$hard" -ge $((4 * n + 500)) ] ||
        skip_all "$n processes need $((4 * n + 500)) descriptors, the limit is $hard"
    ulimit -n "$hard"
    echo 'job_keep_read = 0' >>"$conf"
    sed -i 's/^log_level.*/log_level = warning/' "$conf"
    start
    # Of the same kind, so that what is made once is made.
    through warm $((n / 16)) "$((jobs / 4))" 1
    is "$(field missing <verified) $(field told <verified)" "0 $((n / 16 * 100))" "a small job before"
    until_true gone warm "$((jobs / 4))"
    rss=$(memory) fds=$(all_descriptors)
    most=$((rss + (rss / 10 > least ? rss / 10 : least)))
    through many "$n" "$jobs" 2
    is "$(cat swarm)" "swarm processes=$n killed=$n" "$n processes in $jobs jobs died by SIGKILL"
    is "$(cat verified)" "verify processes=$n alive=0 records=$n rows=$((100 * n)) told=$((100 * n)) missing=0 doubled=0 altered=0 rest=0 lost=0" \
        "$n records and $((100 * n)) rows, each as it was sent"
    until_true gone many "$jobs"
    is $? 0 "read and taken, the jobs go"
    until_true no_spools
    is $? 0 "and their spools"
    back() { [ "$(memory)" -le $most ] && [ "$(all_descriptors)" -le "$fds" ]; }
    until_true back
    is "$(all_descriptors)" "$fds" "no descriptor is left"
    is "$(($(memory) <= most))" 1 "memory is back: $rss KiB before, $(memory) KiB after"

    mkfifo hold
    timeout 300 "$load" swarm "$sock" idle procs="$n" jobs="$jobs" ring=0 pages hold seed=3 <hold >idle 2>&1 &
    children="$children $!"
    exec 3>hold
    until_true grep -qE 'ready|failed|load:' idle
    is "$(cat idle)" ready "$n processes are connected at once"
    is "$("$load" verify "$sock" idle jobs="$jobs" wait=0 | field alive)" "$n" "and alive"
    per=$((($(memory) - rss) * 1024 / n))
    is "$((per <= 8192))" 1 "an idle process takes at most 8 KiB: $per bytes"
    exec 3>&-
    wait "${children##* }"
    timeout 100 "$load" verify "$sock" idle jobs="$jobs" wait=60000 taken >verified 2>&1
    is "$(field records <verified) $(field alive <verified)" "$n 0" "their records when they have died"
    until_true gone idle "$jobs"
    until_true back
    is "$(all_descriptors) $(($(memory) <= most))" "$fds 1" "back again ($(memory) KiB)"
    is "$(grep -vcE 'listens|begins|read whole' log)" 0 "and nothing to complain about"
    stop
    is $status 0 "the collector ends with 0"
}
