/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 makes of the index: which process is which rank, which frames go
 * to "other", the order of the heap rows, the united catalog, what is missing.
 * The rules are those of heapline-gather(1), "Which process is which rank".
 */
#ifndef HL_PLAN_H
#define HL_PLAN_H

#include "gather_index.h"

struct hl_plan {
    const struct hl_member **rank; /* [n_ranks], NULL: no frames */
    uint64_t n_ranks;
    const struct hl_member **other; /* processes with frames and no place above */
    size_t n_other;
    const struct hl_member **heap; /* CSV order */
    size_t n_heap;
    const struct hl_member **image; /* ended by exec, another image followed */
    size_t n_images;
    struct hl_catalog catalog; /* united */
    struct hl_catalog shown;   /* the same as the exports can hold it */
    uint64_t n_replaced;       /* names that differ there */
    uint64_t total_frames, n_dropped, n_lost;
    char app_version[256]; /* of the lowest rank that told one, or "" */
    char **missing;
    size_t n_missing;
    size_t n_bypassed; /* of these: heaps that never came through the agent */
    size_t n_unshared; /* killed processes whose kill may have lost frames */
    size_t n_running;
};

/* The index is borrowed and must outlive the plan.  0 or -1. */
int hl_plan_make(struct hl_plan *p, const struct hl_index *x, struct hl_err *e);
void hl_plan_fini(struct hl_plan *p);
int hl_plan_missing(struct hl_plan *p, struct hl_err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
