# SPDX-License-Identifier: Apache-2.0
# guest.sh - sourced behind tap.sh by tests in bash: one situation of a program,
# without the agent, with it, and under heapline-run; see preload_guest.c.
# shellcheck shell=bash

guest=$builddir/tests/support/preload_guest
amount=300
ulimit -c 0
# Other users' processes must reach what is theirs.
chmod 755 "$T"
export GUEST_SELF="$guest"

# Each runs the rest with the program's streams as pipes: o, e, and the status in st.
in_folder() { # FOLDER COMMAND...
    local d=$T/$1
    shift
    : >"$d/notes"
    chmod 666 "$d/notes"
    { { { GUEST_NOTES=$d/notes timeout -k 5 40 "$@" 2>&3 3>&-; echo $? >"$d/st"; } </dev/null |
        cat >"$d/o"; } 3>&1 | split_off "$d"; } 2>/dev/null
}
# A record on stderr goes to a file of its own.
split_off() {
    awk -v e="$1/e" -v r="$1/e.rec" 'BEGIN { printf "" >e }
        /^# heapline 1$/ { in_record = 2; print >r; next }
        in_record { in_record--; print >r; next }
        { print >e }'
}
bare() { in_folder "$@"; }
with_agent() { # FOLDER COMMAND...
    local d=$1
    shift
    in_folder "$d" env LD_PRELOAD="$agent" HEAPLINE_SOCKET= HEAPLINE_OUTPUT="$T/$d/rec/%p" "$@"
}
with_run() { # FOLDER COMMAND...
    local d=$1
    shift
    in_folder "$d" "$run" -q --private -f csv -o "$T/$d/all" -- "$@"
}

# What the records say against what was noted, in four lines: records, processes,
# the main process's counts less what it noted, children whose counts are wrong.
numbers() { # FOLDER: into n_records, n_processes, beyond, wrong
    local files=("$T/$1"/rec/* "$T/$1/all.csv" "$T/$1/e.rec") f have=()
    for f in "${files[@]}"; do [ ! -s "$f" ] || have+=("$f"); done
    { read -r n_records; read -r n_processes; read -r beyond; read -r wrong; } < <(awk '
        FILENAME == ARGV[1] {
            split($0, w, " ")
            if (w[1] == "child") children[w[2]] = 1; else if (!main) main = w[2]
            a[w[2]] = w[3]; f[w[2]] = w[4]
            if (!(w[2] in seen)) { seen[w[2]] = 1; n++ }
            next
        }
        /^#/ { next }
        { split($0, w, ",") }
        w[1] == "rank" { for (i = 1; i in w; i++) at[w[i]] = i; next }
        { rows++; A[w[3]] = w[at["allocs"]]; F[w[3]] = w[at["frees"]] }
        END {
            print rows + 0; print n + 0
            print main in A ? (A[main] - a[main]) " " (F[main] - f[main]) : "no record"
            for (p in children)
                if (A[p] "/" F[p] != a[p] "/" f[p]) printf "%s: %s/%s ", p, A[p], F[p]
            print ""
        }' "$T/$1/notes" "${have[@]}")
}
difference() { # FOLDER: from "bare"
    local f
    for f in st o e; do
        [ "$(<"$T/bare/$f")" = "$(<"$T/$1/$f")" ] || {
            echo "$f:"
            diff "$T/bare/$f" "$T/$1/$f" | head -n 6
        }
    done
}

# situation NAME MODE ARGUMENT...; variables of the call:
#   wrap=(COMMAND...)  what starts the program
#   place=file         where the record goes: file, stderr, gone (no process leaves one),
#                      any (file or stderr), maybe (nowhere, if it must be)
#   records=, rows=    how many there are; the default is what the processes noted
#   norun=WHY          no third run
#   blind=1            the row is that of another image
#   wants=ST           the status; 5
situation() {
    local name=$1 mode=$2 base n_records n_processes beyond wrong
    shift 2
    rm -rf "$T"/bare "$T"/zero "$T"/agent "$T"/run
    mkdir -p "$T/bare" "$T/zero/rec" "$T/agent/rec" "$T/run"
    bare bare "${wrap[@]}" "$guest" "$mode" $amount "$@"
    if [ "$(<"$T/bare/st")" = 77 ]; then
        skip "$name" "not possible here"
        return
    fi
    is "$(<"$T/bare/st")" "${wants:-5}" "$name: status without the agent"
    with_agent zero "${wrap[@]}" "$guest" "$mode" 0 "$@"
    with_agent agent "${wrap[@]}" "$guest" "$mode" $amount "$@"
    is "$(difference agent)" "" "$name: status and output as without the agent"
    if [ "${place:-file}" = gone ]; then
        numbers agent
        is "$n_records" 0 "$name: no record"
    else
        alone
    fi
    if [ -n "$norun" ]; then
        skip "$name: under heapline-run" "$norun"
        return
    fi
    with_run run "${wrap[@]}" "$guest" "$mode" $amount "$@"
    is "$(difference run)" "" "$name: the same under heapline-run"
    if [[ ${place:-file} =~ ^(gone|maybe)$ && -z "$blind" ]]; then
        with_run zero "${wrap[@]}" "$guest" "$mode" 0 "$@"
        numbers zero
        base=$beyond
    fi
    numbers run
    is "$n_records" "${rows:-${records:-$n_processes}}" "$name: rows"
    [ -n "$blind" ] || is "$beyond" "$base" "$name: counts of its row"
    [ -n "$blind" ] || is "$wrong" "" "$name: counts of the children's rows"
}
alone() {
    if [ "${place:-file}" = file ] && [ -s "$T/agent/e.rec" ]; then
        is "$(<"$T/agent/e.rec")" "" "$name: no record on stderr"
    fi
    numbers zero
    base=$beyond
    numbers agent
    if [ "$place" = maybe ] && [ "$beyond" = "no record" ]; then
        is "$n_records" 0 "$name: not even a part of a record"
        return
    fi
    is "$beyond" "$base" "$name: counts"
    [ "$base" != "no record" ] || is "$base" "a record" "$name: there is a record"
    is "$wrong" "" "$name: counts of the children"
    is "$n_records" "${records:-$n_processes}" "$name: records"
    [ "${place:-file}" != stderr ] || is "$(ls "$T/agent/rec")" "" "$name: no file"
}
