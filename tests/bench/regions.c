/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-regions: what entering and leaving a region costs, as a ratio to two
 * reads of the monotonic clock, which no pair can go below.  CSV on stdout;
 * prints, judges nothing.
 *
 *   regions [PAIRS] [REPEATS]
 */
#include "heapline.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_REGIONS = 16 };

static heapline_session *session;
static heapline_region region[N_REGIONS];
static char name[N_REGIONS][32];
static volatile int64_t sink;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void two_reads(long n)
{
    for (long i = 0; i < n; i++) {
        sink = now();
        sink = now();
    }
}

static void by_handle(long n)
{
    for (long i = 0; i < n; i++) {
        heapline_region_begin(session, region[i % N_REGIONS]);
        heapline_region_end(session, region[i % N_REGIONS]);
    }
}

static void four_deep(long n)
{
    for (long i = 0; i < n; i += 4) {
        for (int k = 0; k < 4; k++)
            heapline_region_begin(session, region[k]);
        for (int k = 3; k >= 0; k--)
            heapline_region_end(session, region[k]);
    }
}

static void by_name(long n)
{
    for (long i = 0; i < n; i++) {
        heapline_region_push(session, name[i % N_REGIONS]);
        heapline_region_pop(session);
    }
}

/* Repeats go around all cases, so that a slow moment of the machine meets all. */
static const struct {
    const char *name;
    void (*run)(long);
} cases[] = {{"two clock reads", two_reads},
             {"region by handle", by_handle},
             {"region by handle, 4 deep", four_deep},
             {"region by name", by_name}};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The best of all repeats: what disturbs only adds. */
static void measure(long pairs, int repeats, double *best)
{
    for (int r = 0; r < repeats; r++)
        for (int c = 0; c < N_CASES; c++) {
            int64_t start = now();
            cases[c].run(pairs);
            double ns = (double)(now() - start) / (double)pairs;
            if (!best[c] || ns < best[c])
                best[c] = ns;
        }
}

static double a_frame(long n)
{
    int64_t start = now();
    for (long i = 0; i < n; i++) {
        heapline_frame_end(session);
        heapline_frame_begin(session);
    }
    return (double)(now() - start) / (double)n;
}

int main(int argc, char **argv)
{
    long pairs = argc > 1 ? atol(argv[1]) : 100000;
    int repeats = argc > 2 ? atoi(argv[2]) : 50;
    double best[N_CASES] = {0};
    if (pairs <= 0 || repeats <= 0 || heapline_session_begin(&session, NULL, 0))
        return 1;
    for (int i = 0; i < N_REGIONS; i++) {
        snprintf(name[i], sizeof name[i], "gradient_%02d", i);
        if (heapline_region_register(session, name[i], &region[i]))
            return 1;
    }
    if (heapline_frame_begin(session))
        return 1;
    measure(pairs, repeats, best);
    puts("case,ns,ratio_to_two_clock_reads");
    for (int c = 0; c < N_CASES; c++)
        printf("%s,%.2f,%.3f\n", cases[c].name, best[c], best[c] / best[0]);
    printf("frame of 16 regions,%.0f,\n", a_frame(2000));
    return heapline_session_end(session) != 0;
}
