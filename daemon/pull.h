/* SPDX-License-Identifier: Apache-2.0
 *
 * The planned streams and timelines as one sequence of pieces: ranks, then others,
 * then timelines.  The next pieces are under way while one is used, whichever
 * nodes they come from.
 */
#ifndef HL_PULL_H
#define HL_PULL_H

#include "comm.h"
#include "plan.h"
#include "source.h"

struct hl_pull_from {
    struct hl_comm *comm;
    struct hl_source *source; /* rank 0's own node */
    const struct hl_index *index;
    const struct hl_plan *plan;
    uint64_t place, offset; /* of the next piece to ask for */
    uint64_t end;           /* ask for no place from here on */
    uint32_t node[HL_SLOTS];
    uint64_t n_asked, n_taken; /* slot: number % HL_SLOTS */
};

/* The entry of a place in the sequence, NULL for a rank without data; places count
 * to hl_pull_places. */
uint64_t hl_pull_places(const struct hl_plan *p);
const struct hl_entry *hl_pull_entry(const struct hl_plan *p, const struct hl_index *x,
                                     uint64_t place);
/* Its bytes, and of what kind they are. */
uint64_t hl_pull_bytes(const struct hl_plan *p, const struct hl_entry *t, uint64_t place,
                       enum hl_ask_kind *kind);

/* The next piece of the sequence; the bytes stay until the next call.  0 or -1. */
int hl_pull_next(struct hl_pull_from *p, const uint8_t **bytes, uint64_t *n,
                 struct hl_err *e);

/* Wait for what is under way and leave it.  0 or -1. */
int hl_pull_drain(struct hl_pull_from *p, struct hl_err *e);

/* One piece of any kind, asked for and waited for while none is under way. */
int hl_pull_one(struct hl_pull_from *p, uint32_t node, const struct hl_want *want,
                const uint8_t **bytes, uint64_t *n, struct hl_err *e);

#endif
