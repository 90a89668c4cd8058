#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh SRCDIR: builds and runs fuzz programs below fuzz-run (see README); called by
# `make fuzz` in the build folder.
set -u
src=${1:?usage: run.sh SRCDIR} engine=${FUZZ_ENGINE:-libfuzzer} secs=${FUZZ_SECONDS:-60}
case $engine in
    libfuzzer) cc=${FUZZ_CC:-clang} flags=-fsanitize=fuzzer,address,undefined main= ;;
    afl) cc=${FUZZ_CC:-afl-clang-fast} flags=-fsanitize=address,undefined main=$src/tests/fuzz/afl.c ;;
    *) echo "FUZZ_ENGINE=$engine: libfuzzer or afl" && exit 2 ;;
esac
command -v "$cc" >/dev/null || { echo "$cc is not installed: set FUZZ_CC, or FUZZ_ENGINE=libfuzzer or afl" && exit 1; }
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1 TMPDIR="${TMPDIR:-/tmp}"
export ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0
[ "$engine" = afl ] || export ASAN_OPTIONS=
mkdir -p fuzz-run || exit 1
for t in ${FUZZ_TARGET:-conf spool wire}; do
    [ -f "$src/tests/fuzz/fuzz_$t.c" ] || { echo "no fuzz program $t" && exit 2; }
    # shellcheck disable=SC2086
    $cc -std=gnu11 -g -O1 -fno-omit-frame-pointer $flags -fno-sanitize-recover=undefined \
        $FUZZ_CPPFLAGS -o "fuzz-run/fuzz_$t" "$src/tests/fuzz/fuzz_$t.c" $main \
        "$src"/lib/leaf/*.c "$src/lib/base/buf.c" "$src/lib/base/clock.c" \
        "$src/lib/base/conf.c" "$src/lib/base/err.c" "$src/lib/base/log.c" \
        "$src/lib/model/spool.c" "$src/daemon/settings.c" "$src/daemon/tally.c" || exit 1
    corpus=fuzz-run/corpus-$t
    mkdir -p "$corpus"
    "tests/fuzz/fuzz_$t" --seeds "$corpus" || exit 1
    for f in "$src/tests/fuzz/corpus/$t"-*; do [ ! -e "$f" ] || cp "$f" "$corpus"; done
    if [ "$engine" = libfuzzer ]; then
        "fuzz-run/fuzz_$t" -max_total_time="$secs" -max_len=65536 -print_final_stats=1 \
            -artifact_prefix="fuzz-run/$t-" "$corpus" || exit 1
    else
        AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 \
            afl-fuzz -V "$secs" -i "$corpus" -o "fuzz-run/afl-$t" -- "fuzz-run/fuzz_$t" || exit 1
        [ -z "$(ls fuzz-run/afl-$t/default/crashes 2>/dev/null)" ] ||
            { echo "crashes in fuzz-run/afl-$t" && exit 1; }
    fi
done
