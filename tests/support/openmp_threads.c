/* SPDX-License-Identifier: Apache-2.0
 *
 * A subject of the tests with real programs: 64 threads (OMP_NUM_THREADS) that
 * each allocate and release, and release what others allocated.  Says how many
 * threads ran and a checksum; returns 4.  Stands alone: compiled by
 * tests/real/openmp.sh.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20, PER_ROUND = 6400 };
static char *block[PER_ROUND];

static void fill(int round)
{
#pragma omp for schedule(static)
    for (int i = 0; i < PER_ROUND; i++) {
        size_t n = (size_t)(16 + (i * 37 + round) % 900);
        block[i] = malloc(n);
        if (block[i])
            memset(block[i], i & 127, n);
    }
}

/* In another order than they were made in: by other threads. */
static long drain(void)
{
    long sum = 0;
#pragma omp for schedule(static)
    for (int i = 0; i < PER_ROUND; i++) {
        int k = PER_ROUND - 1 - i;
        block[k] = realloc(block[k], 1000);
        sum += block[k] ? block[k][15] : -1000;
        free(block[k]);
    }
    return sum;
}

int main(void)
{
    long sum = 0;
    int threads = 0;
#pragma omp parallel reduction(+ : sum)
    {
#pragma omp single
        threads = omp_get_num_threads();
        for (int r = 0; r < ROUNDS; r++) {
            fill(r);
            sum += drain();
        }
    }
    printf("%d threads, sum %ld\n", threads, sum);
    return 4;
}
