#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An OpenMP program with 64 threads, each with blocks of its own and of others.
# Needs: gcc
# Package: gcc
# Allocs: 256000
gcc -O1 -fno-builtin -fopenmp "$HL_SUPPORT/openmp_threads.c" -o threads 2>/dev/null ||
    { echo "gcc -fopenmp does not work here"; exit 77; }
OMP_NUM_THREADS=64 OMP_WAIT_POLICY=passive "$UNDER" ./threads
rc=$?
rm threads
exit $rc
