# SPDX-License-Identifier: Apache-2.0
# truth.sh - sourced after tap.sh: runs a program of known figures under the agent
# and compares its record with them.
# shellcheck shell=bash

truth_prog=$top_builddir/tests/support/preload_truth
races_prog=$top_builddir/tests/support/preload_races

under() { # RECORD COMMAND...: alone under the agent
    local record=$1
    shift
    rm -f "$record"
    timeout -k 5 "${limit:-60}" env LD_PRELOAD="$agent" HEAPLINE_SOCKET= HEAPLINE_OUTPUT="$record" "$@"
}

field() { # RECORD COLUMN
    awk -F, -v c="$2" 'NR == 2 {for (i = 1; i <= NF; i++) if ($i == c) k = i} NR == 3 {print $k}' "$1"
}

# The line "truth ALLOCS FREES LOW HIGH LIVE UNITS" against the record.
record_agrees() { # RECORD OUTPUT
    local a f low high live units peak got_a got_f got_live
    read -r _ a f low high live units < <(grep '^truth ' "$2")
    [ -n "$units" ] || { echo "no figures"; return 1; }
    [ "$(sed -n 1p "$1")" = "# heapline 1" ] || { echo "no record"; return 1; }
    IFS=, read -r _ _ _ _ _ got_a got_f peak _ got_live _ < <(sed -n 3p "$1")
    [ "$got_a $got_f $got_live" = "$a $f $live" ] || { echo "the record has $(sed -n 3p "$1")"; return 1; }
    [ "$peak" -ge $((low - units * low / 8192)) ] && [ "$peak" -le $((high + units * high / 8192)) ] ||
        { echo "the record's peak is $peak"; return 1; }
}

schedule() { # NAME THREADS SCALE [nobarrier]
    local rc why=
    under "$T/record" "$truth_prog" "$@" >"$T/out" 2>&1
    rc=$?
    [ $rc = 77 ] && { skip "$*" "not possible here"; return; }
    [ $rc = 0 ] && { why=$(record_agrees "$T/record" "$T/out") || rc=1; }
    ok $rc "$*${GLIBC_TUNABLES:+, $GLIBC_TUNABLES}${MALLOC_ARENA_MAX:+, one arena}${MALLOC_PERTURB_:+, perturbed}"
    [ $rc = 0 ] || { echo "# status $rc; $why"; sed 's/^/# /' "$T/out"; }
}

attack() { # WHAT NAME ROUNDS
    local what=$1 rc
    shift
    limit=80 under "$T/record" "$races_prog" "$@" >"$T/out" 2>&1
    rc=$?
    [ $rc = 77 ] && { skip "$what" "not possible here"; return; }
    ok $rc "$what"
    [ $rc = 0 ] || { sed 's/^/# /' "$T/out"; echo; }
}
schedules="staggered hidden-up hidden-down crossed fleeting yoyo idle-claims handed-over resized aligned signals silent crowd race"
