#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sort with threads and temporary files that it packs by another program.
# Needs: sort gzip
# Package: coreutils
# Allocs: 30
awk 'BEGIN { for (i = 0; i < 150000; i++) print i * 7919 % 150001, "some words" }' >in.txt
"$UNDER" sort --parallel=4 -S 2M --compress-program=gzip -k1,1nr in.txt -o out.txt &&
    "$UNDER" sort -c -k1,1nr out.txt &&
    "$UNDER" sort -c in.txt
