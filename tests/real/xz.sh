#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# xz with threads, both ways, and a damaged file.
# Needs: xz
# Package: xz-utils
# Allocs: 10
# Frees: own
seq 200000 >in.txt
"$UNDER" xz -k -T3 -1 --block-size=256KiB in.txt
"$UNDER" xz -dc -T3 in.txt.xz | cksum
head -c 20000 in.txt.xz >torn.xz
"$UNDER" xz -t torn.xz
