#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stress-ng: allocation, forking and threads, a fixed number of operations each.
# Needs: stress-ng
# Package: stress-ng
# Allocs: 1000
"$UNDER" stress-ng --quiet --seed 11 --temp-path . --malloc 2 --malloc-ops 8000 --malloc-bytes 8M --fork 1 \
    --fork-ops 60 --pthread 1 --pthread-ops 100
