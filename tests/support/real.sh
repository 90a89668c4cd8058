# SPDX-License-Identifier: Apache-2.0
# real.sh - sourced after tap.sh by the test with real programs: how a script of
# tests/real is run, what two runs are compared by, and which records are plausible.
# A script's head says, a line each: Needs (commands), Package (Debian's), Allocs
# (the fewest of its busiest process, or "own": its allocator is not malloc), and
# where it applies Frees ("own": only what the same process allocated) and Ranks.
# shellcheck shell=sh

real=$srcdir/tests/real
says() { sed -n "s/^# $2: *//p" "$real/$1.sh"; }
lacks() { # NAME: the commands that are missing
    for c in $(says "$1" Needs); do
        command -v "$c" >/dev/null 2>&1 || printf '%s ' "$c"
    done
}

# What the programs are run with must be open to the user that postgres becomes.
real_set_up() {
    umask 022
    chmod 711 "$T" && chmod 1777 "$T/tmp" && cp "$srcdir/tests/support/real-under" under &&
        cp "${HL_REAL_LIB:-$agent}" agent.so && chmod 755 under agent.so || return 1
    export UNDER="$T/under" HL_LIB="$T/agent.so" HL_RUN="$run" HL_SUPPORT="$srcdir/tests/support"
}

go() { # NAME HOW DIR: out, err, status, files and records in DIR
    began=$(date +%s%N)
    rm -rf work "$3"
    mkdir work "$3" "$3/records" && chmod 1777 "$3/records"
    (
        export HOME="$T/work" HL_HOW="$2" HL_RECORDS="$T/$3/records"
        cd work && exec timeout -k 5 90 bash "$real/$1.sh"
    ) >"$3/out" 2>"$3/err" </dev/null
    echo $? >"$3/status"
    echo "# $1 $3: $((($(date +%s%N) - began) / 1000000)) ms"
    (cd work && find . ! -type f -printf '%y %m %p %l\n' -o -printf '%y %m ' -exec cksum {} \;) | sort >"$3/files"
}
differ() { # DIR DIR: the names of what differs
    for f in status out err files; do cmp -s "$1/$f" "$2/$f" || printf '%s ' "$f"; done
}
show() { # DIR DIR NAMES
    for f in $3; do diff -u "$1/$f" "$2/$f" | sed 's/^/# /' | head -n 20; done
}

# What is wrong with the records in DIR, a line each; nothing: they are plausible.
judge() { # NAME DIR
    set -- "$1" "$2" "$(says "$1" Allocs)" "$(says "$1" Frees)" "$(says "$1" Ranks)"
    [ -n "$(ls "$2/records")" ] || { echo "no record"; return; }
    awk -F, -v least="$3" -v own="$4" -v ranks="${5:-0}" '
        function no(why) { print file ": " why ": " $0 }
        function whole() { if (file != "" && lines != 3) print file ": " lines " lines" }
        FNR == 1 { whole(); file = FILENAME; sub(".*/", "", file) }
        { lines = FNR }
        FNR == 1 && $0 != "# heapline 1" { no("version") }
        FNR == 2 && !/^rank,host,pid,job,elapsed_s,allocs,frees,peak_heap_bytes,/ { no("columns") }
        FNR > 1 && NF != 12 { no("not twelve fields") }
        FNR == 3 {
            for (i = 5; i <= 12; i++) if ($i !~ /^-?[0-9]+(\.[0-9][0-9][0-9])?$/) no("number " i)
            if ($3 != file) no("another pid than the file")
            if ($9 + 0 > $5 + 0) no("peak after the end")
            if ($8 + 0 < $10 + 0) no("peak below live")
            if ($11 <= 0 || $12 + 0 > $11 + 0) no("resident set")
            if ($6 > 0 && $8 <= 0) no("no peak")
            if (own == "own" && $7 + 0 > $6 + 0) no("more frees than allocs")
            if ($6 + 0 >= allocs) { allocs = $6 + 0; frees = $7 + 0; peak = $8 + 0 }
            rank[$1]++
        }
        END {
            whole()
            if (least == "own") exit
            if (allocs < least) print "at most " allocs " allocs, at least " least " expected"
            if (frees <= 0 || peak <= 0) print "the busiest: " frees " frees, peak " peak
            for (i = 0; i < ranks; i++) if (rank[i] != 1) print rank[i] + 0 " records of rank " i
        }' "$2"/records/*
}

# One program: alone, then with the agent.  Where that makes a difference, alone
# twice more, to tell a difference of the agent's from one of the program's own.
real_program() { # NAME
    missing=$(lacks "$1")
    if [ -n "$missing" ]; then
        skip "$1" "$(says "$1" Package) is not installed: ${missing% } is missing"
        return 1
    fi
    go "$1" "" alone
    if [ "$(cat alone/status)" = 77 ]; then
        skip "$1" "$(tail -n 1 alone/out)"
        return 1
    fi
    go "$1" preload with
    changed=$(differ alone with) unsteady=
    for again in ${changed:+1 2}; do
        go "$1" "" again
        unsteady=$(differ alone again)
        [ -z "$unsteady" ] || break
    done
    if [ -n "$unsteady" ]; then
        skip "$1" "unsteady without the agent: ${unsteady% }"
        show alone again "$unsteady"
        return 1
    fi
    is "${changed% }" "" "$1: same status, output, errors and files"
    show alone with "$changed"
    wrong=$(judge "$1" with | head -n 10)
    is "$wrong" "" "$1: plausible records"
}

# The same through heapline-run: each table has its processes, as many in all as
# left records before.
real_run() { # NAME
    go "$1" run run
    is "$(cat run/status)" "$(cat alone/status)" "$1 through heapline-run: status"
    is "$(differ alone run | tr ' ' '\n' | grep -vx status)" "" "$1 through heapline-run: output, errors and files"
    show alone run "$(differ alone run)"
    sum=0 empty=
    for t in run/records/*.csv; do
        n=$(rows "$t" 2>/dev/null)
        [ "${n:-0}" -gt 0 ] || empty="$empty $t"
        sum=$((sum + ${n:-0}))
    done
    is "$sum$empty" "$(ls with/records | wc -l)" "$1 through heapline-run: a row for each process"
}
