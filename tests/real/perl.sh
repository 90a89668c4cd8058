#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perl: hashes, sorting, a forked child, a pipe; it ends by die.
# Needs: perl
# Package: perl
# Allocs: 5000
"$UNDER" perl -e '
    use strict;
    $| = 1;
    my %h;
    $h{$_ % 4099} .= chr(65 + $_ % 26) for 1 .. 250000;
    my $all = join "", map { $h{$_} } sort keys %h;
    printf "%d %s\n", length $all, unpack "%32C*", $all;
    my $pid = fork;
    if (!$pid) { my @a = map { [$_] } 1 .. 20000; exit @a % 200 + 3 }
    waitpid $pid, 0;
    print "child ", $? >> 8, "\n";
    print `echo from a shell`;
    $! = 0;
    $? = 43 << 8;
    die "this is the end\n";'
