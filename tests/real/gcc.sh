#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gcc on a large file: the driver, the compiler proper and the assembler.
# Needs: gcc
# Package: gcc
# Allocs: 100000
for ((i = 0; i < 400; i++)); do
    printf 'static int t%d[%d];\nlong f%d(int k, long (*g)(int)) { long s = 0;\n' $i $((i + 9)) $i
    printf '  for (int j = 0; j < %d; j++) s += t%d[(j * k) %% %d] ^ g(j); return s; }\n' $((i + 3)) $i $((i + 9))
done >large.c
"$UNDER" gcc -O2 -Wall -S large.c -o large.s && "$UNDER" gcc -O1 -c large.s -o large.o
rc=$?
printf 'int main(void) { return undeclared; }\n' >wrong.c
"$UNDER" gcc -c wrong.c
echo "wrong.c: $?"
exit $rc
