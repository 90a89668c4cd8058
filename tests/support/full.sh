# SPDX-License-Identifier: Apache-2.0
# full.sh - sourced by the long tests after tap.sh: a build of its own.
# shellcheck shell=sh

# Called by make with TESTS on its command line, which inner makes would inherit.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL GNUMAKEFLAGS

# own_build DIR CONFIGURE-ARGUMENTS...: configure and make in $T/DIR.  The source
# folder must not be configured itself; where it is, a copy is used.
own_build() {
    own_configure "$@" || return 1
    make -j"$(nproc)" >make.out 2>&1 || { grep -E 'error|warning' make.out | head -n 20 | sed 's/^/# /'; return 1; }
}
own_configure() {
    dir=$T/$1
    shift
    src=$srcdir
    if [ -f "$srcdir/config.status" ]; then
        src=$T/src
        [ -d "$src" ] || { mkdir "$src" && (cd "$srcdir" && tar cf - --exclude=./build \
            --exclude=./.git --exclude='*.o' --exclude='*.lo' .) | (cd "$src" && tar xf -) &&
            (cd "$src" && make distclean >/dev/null 2>&1); }
    fi
    mkdir -p "$dir" && cd "$dir" || return 1
    "$src/configure" "$@" >configure.out 2>&1 || { tail -n 20 configure.out | sed 's/^/# /'; return 1; }
}
# Point the tests' names at a build.
use_build() {
    builddir=$1
    agent=$1/.libs/libheapline-preload.so run=$1/heapline-run gather=$1/heapline-gather
    report=$1/heapline-report collector=$1/heaplined
}
# The unit tests of the build in the current folder.
unit_tests() {
    make -j"$(nproc)" check-units >check.out 2>&1 ||
        { { head -n 60 test-suite.log 2>/dev/null; tail -n 20 check.out; } | sed 's/^/# /'; return 1; }
}
