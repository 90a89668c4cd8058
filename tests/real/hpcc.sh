#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# HPC Challenge, small, on four ranks: which of its parts ran and passed.
# Needs: hpcc mpirun
# Package: hpcc, openmpi-bin
# Allocs: 5000
# Ranks: 4
cat >hpccinf.txt <<'EOS'
first line is free
second line too
HPL.out
8       where the output goes
1       matrices
240     their size
1       block sizes
40
0       mapping of processes
1       grids
2       rows
2       columns
16.0    threshold
1       panel factorisations
2
1       stopping criteria
4
1       panels in recursion
2
1       recursive factorisations
1
1       broadcasts
1
1       lookahead
1
2       swapping
64      its threshold
0       L1 transposed
0       U transposed
1       equilibration
8       alignment
0
0
0
0
0
EOS
"$UNDER" -n 4 hpcc
rc=$?
grep -E '^(Success|CommWorldProcs|HPL_N|HPL_NB|HPL_nprow|PTRANS_n|PTRANS_residual|MPIRandomAccess_Errors)=|tests completed' hpccoutf.txt
rm -f hpccoutf.txt
exit $rc
