/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of heapline-report share.
 */
#ifndef HL_REPORT_H
#define HL_REPORT_H

#include "err.h"
#include "profile.h"
#include "stats.h"

#include <stdint.h>
#include <stdio.h>

enum report_format { REPORT_TABLE, REPORT_CSV };
enum report_sort {
    SORT_DEFAULT,
    SORT_TIME,
    SORT_NAME,
    SORT_NCALLS,
    SORT_EXCLUSIVE,
    SORT_RANK,
    SORT_PEAK,
    SORT_LIVE,
    SORT_ALLOCS,
    SORT_VMHWM
};

struct rank_range {
    uint64_t lo, hi;
};

struct report_options {
    enum hl_stat stat;
    enum report_sort sort;
    size_t top; /* 0: all */
    struct rank_range *rank;
    size_t n_rank; /* 0: all */
    const char *path, *run, *denominator, *output;
    enum report_format format;
    int color;
    char **file;
    size_t n_files;
};

/* Is that rank asked for? */
int report_wants_rank(const struct report_options *o, uint64_t rank);

/* Seconds as a table shows them, at least 3 decimals of a fitting unit. */
void report_time(double seconds, char out[32]);
/* Bytes with a binary unit. */
void report_bytes(int64_t bytes, char out[32]);

/* The region table of one run. 0 or -1. */
int report_regions(FILE *out, const struct report_options *o, const struct hl_profile *p,
                   struct hl_err *e);

/* The heap table of all record files. 0 or -1. */
int report_heap(FILE *out, const struct report_options *o, char *const *files, size_t n,
                struct hl_err *e);

#endif
