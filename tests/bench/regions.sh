#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# regions.sh PROGRAM [PAIRS] [REPEATS]: on one processor, recording into a file.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
pin=
cpu=$(taskset -cp $$ 2>/dev/null | sed 's/.*[ ,-]//') && pin="taskset -c $cpu"
HEAPLINE_SOCKET= HEAPLINE_FALLBACK_DIR=$dir $pin "$@"
