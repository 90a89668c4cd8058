#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ruby: strings, collection, threads, forked children.
# Needs: ruby
# Package: ruby
# Allocs: 10000
"$UNDER" ruby -e '
    list = (1..120_000).map { |i| "word#{i * 31 % 4001}" }
    puts list.tally.size, list.sort.first(3).inspect
    list = nil
    GC.start
    puts (1..6).map { |k| Thread.new { (1..20_000).map(&:to_s).join.size * k } }.sum(&:value)
    3.times { |i| fork { [0] * 9999; exit! 20 + i } ; Process.wait; puts $?.exitstatus }
    puts `echo from a shell`
    exit 11'
