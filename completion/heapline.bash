# SPDX-License-Identifier: Apache-2.0
# bash completion for heapline's commands
# shellcheck shell=bash

_heapline_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

_heapline_run() {
    local cur=$2 prev=$3 i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -o | -f | -i | --interval | --output | --format | --run-id | --app-version | --metadata | --socket | --hosts | --launcher) ((i++)) ;;
        --) ((i++)) && break ;;
        -*) ;;
        *) break ;;
        esac
    done
    if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
        _command_offset "$i"
        return
    fi
    case $prev in
    -f | --format) _heapline_words "json hdf5 csv json,csv json,hdf5,csv" "$cur" ;;
    -o | --output | --socket) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    *)
        case $cur in
        --report=*) _heapline_words "--report=mean --report=sum --report=min --report=max --report=median" "$cur" ;;
        -*) _heapline_words "--output --format --run-id --app-version --metadata --report --interval --no-heap --no-frames --socket --private --hosts --launcher --quiet --verbose --help --version" "$cur" ;;
        *) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        esac
        ;;
    esac
}

_heapline_gather() {
    case $3 in
    -f | --format) _heapline_words "json hdf5 csv json,hdf5,csv" "$2" ;;
    -o | --output | --socket | --spool) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    *) _heapline_words "--job --output --format --run-id --app-version --metadata --socket --spool --without-node --local --keep --quiet --help --version" "$2" ;;
    esac
}

_heapline_report() {
    case $3 in
    --stat) _heapline_words "mean sum min max median" "$2" ;;
    --sort) _heapline_words "time exclusive ncalls name rank peak live allocs vmhwm" "$2" ;;
    --format) _heapline_words "table csv" "$2" ;;
    *)
        case $2 in
        -*) _heapline_words "--stat --sort --top --rank --path --run --denominator --format --output --color --help --version" "$2" ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        esac
        ;;
    esac
}

_heaplinectl() {
    local cur=$2 prev=$3 i command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --socket | --wait | -d | -n) ((i++)) ;;
        -*) ;;
        *) command=${COMP_WORDS[i]} && break ;;
        esac
    done
    case $prev in
    --socket) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
    --wait | -d | -n) return ;;
    esac
    case $command:$cur in
    *:--color=*) _heapline_words "--color=auto --color=always --color=never" "$cur" ;;
    top:-*) _heapline_words "-d -n --socket --color= --help" "$cur" ;;
    drain:-*) _heapline_words "--off --wait --socket --json --help" "$cur" ;;
    *:-*) _heapline_words "--socket --json --color= --help --version" "$cur" ;;
    :*) _heapline_words "status jobs top metrics drain forget" "$cur" ;;
    forget:*) _heapline_words "$(heaplinectl jobs 2>/dev/null | awk 'NR > 1 && $4 == 0 && $NF !~ /[^A-Za-z0-9._-]/ {print $NF}')" "$cur" ;;
    esac
}

complete -o filenames -F _heapline_run heapline-run
complete -o filenames -F _heapline_gather heapline-gather
complete -o filenames -F _heapline_report heapline-report
complete -o filenames -F _heaplinectl heaplinectl
