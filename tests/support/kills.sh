# SPDX-License-Identifier: Apache-2.0
# kills.sh - sourced behind collector.sh, with the number of rounds: the collector is
# killed at random instants under load (tests/support/load_kill.c).  HL_SEED repeats a
# run's choices, if not the machine's.
# Rows that only the ring holds are lost if their process dies while no collector runs:
# none has its descriptor, and the kernel forgets the memory.  So processes die with
# such rows only while connected, and the collector lives until it has seen it.
# shellcheck shell=sh

load=$builddir/tests/support/collector_load
kills() { # ROUNDS
    seed=${HL_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
    echo "# seed $seed (HL_SEED)"
    sed -i 's/^log_level.*/log_level = info/' "$conf"
    timeout 300 "$load" kill "$sock" kills rounds="$1" seed="$seed" -- \
        "$collector" -f -c "$conf" --socket "$sock" --spool "$spool" >out 2>err
    rc=$?
    sed 's/^/# /' out
    grep '^load:' err | sed 's/^/# /'
    ok $rc "$1 kills: each committed row is there once, as it was sent"
    is "$(sed -n 's/.*\(kills=[0-9]*\).*/\1/p' out)" "kills=$1" "the collector was killed $1 times"
    is "$(sed -n 's/.*\(alive=.*\)/\1/p' out)" "alive=0 strangers=0 wrong=0 wrong_records=0" \
        "rows and records of all clients"
    is "$(sed -n 's/^stopped=//p' out)" 0 "the last collector stops as asked"
    # Killed between the making of a spool and its first byte: nothing was in it.
    grep -iE 'rows lost|were lost|put aside|cannot' err | grep -v 'is no spool: it has no head' >told
    is "$(cat told)" "" "and none had a loss to tell"
    [ $rc = 0 ] || grep -vE '^load:|listens|begins|torn|stale' err | tail -n 20 | sed 's/^/# log: /'
}
