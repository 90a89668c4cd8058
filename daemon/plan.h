/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 makes of the index: which process is which rank, which frames go
 * to "other", whose samples are frames, the united catalog, what is missing.
 * The rules are those of heapline-gather(1), "Which process is which rank".
 */
#ifndef HL_PLAN_H
#define HL_PLAN_H

#include "gather_index.h"

/* Index of an entry; HL_NO_ENTRY: none. */
#define HL_NO_ENTRY UINT32_MAX

struct hl_plan {
    uint32_t *rank; /* [n_ranks]: whose frames, or samples, they are */
    uint64_t n_ranks;
    uint32_t *other; /* processes with frames and no place above */
    size_t n_other;
    uint32_t *timeline; /* processes whose samples are no frames */
    size_t n_timelines;
    struct hl_catalog catalog; /* united */
    struct hl_catalog shown;   /* the same as the exports can hold it */
    uint64_t n_replaced;       /* names that differ there */
    uint64_t total_frames;
    char **missing;
    size_t n_missing;
    size_t n_bypassed;       /* of these: heaps that never came through the agent */
    uint64_t n_unseen;       /* ranks that no process was */
    size_t n_damaged;        /* spools, heap pages and timelines that are not sound */
    size_t n_twice;          /* ranks that more than one process recorded frames as */
    size_t n_heap, n_images; /* rows of the tables */
    size_t n_unshared;       /* killed processes whose kill may have lost frames */
    size_t n_running;
};

/* The catalog of samples that are frames: its metrics in this order. */
enum { HL_N_POINT_METRICS = 8 };
extern const char *const hl_point_metrics[HL_N_POINT_METRICS];

/* Are this entry's samples the frames of its rank?  Not where it may have had others. */
static inline int hl_plan_samples_are_frames(const struct hl_entry *t)
{
    return !t->n_rows && hl_entry_points(t) &&
           !(t->flags & (HL_ENTRY_LOST | HL_PROC_NOTE_UNREAD));
}

/* Frames that an entry gives its rank. */
uint64_t hl_plan_frames(const struct hl_entry *t);

/* The index, in its final order, is borrowed and must outlive the plan.  0 or -1. */
int hl_plan_make(struct hl_plan *p, const struct hl_index *x, struct hl_err *e);
void hl_plan_fini(struct hl_plan *p);
int hl_plan_missing(struct hl_plan *p, struct hl_err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
