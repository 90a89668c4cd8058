/* SPDX-License-Identifier: Apache-2.0
 *
 * A sink that adds up an export for the region table: for each region and rank
 * the seconds and the frames it was hit in, and the sum of the metric that
 * percentages refer to (specification, "Console table").
 */
#ifndef HL_PROFILE_H
#define HL_PROFILE_H

#include "sink.h"
#include "stats.h"

struct hl_profile {
    struct hl_sink base;
    struct hl_catalog catalog; /* own copy */
    const char *denominator;   /* metric; borrowed */
    /* Ranks to take: 0 skips one.  NULL takes all. */
    int (*wanted)(void *ctx, uint64_t rank);
    void *wanted_ctx;
    uint64_t n_ranks; /* taken */
    uint64_t n_frames;
    double *inclusive; /* [path * cap + taken rank] */
    double *exclusive;
    uint64_t *hits; /* [path], frames with time, over all ranks */
    size_t cap;
    double total; /* sum of the denominator */
    int has_denominator;
    size_t denominator_cell;
    int skip;
    char version[256], run_id[256];
};

/* Prepare *p as a sink; hand &p->base to a reader. */
void hl_profile_init(struct hl_profile *p, const char *denominator);
void hl_profile_fini(struct hl_profile *p);

/* A region's statistic over the ranks taken; scratch: n_ranks doubles. */
double hl_profile_inclusive(const struct hl_profile *p, size_t path, enum hl_stat s,
                            double *scratch);
double hl_profile_exclusive(const struct hl_profile *p, size_t path, enum hl_stat s,
                            double *scratch);

#endif
