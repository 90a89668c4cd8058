/* SPDX-License-Identifier: Apache-2.0
 *
 * One image of a run as the gather's index holds it: what order and flow need,
 * and no more.  All else of it stays on its node until its turn comes.
 */
#ifndef HL_ENTRY_H
#define HL_ENTRY_H

#include "messages.h"

#include <stdint.h>

enum hl_entry_flags {
    /* bits 0 to 7: enum hl_proc_flags; bits 8 to 11: enum hl_ended */
    HL_ENTRY_ENDED_SHIFT = 8,
    HL_ENTRY_ROW = 1 << 16,   /* it is its process's row of the CSV */
    HL_ENTRY_IMAGE = 1 << 17, /* ended by exec, another image followed */
    HL_ENTRY_AFTER = 1 << 18, /* an image of the same process came before it */
    HL_ENTRY_LOST = 1 << 19 /* its frames cannot be read: samples do not stand for them */
};

struct hl_entry {
    int32_t rank; /* -1 none */
    int32_t pid;
    uint32_t node;      /* process of the gather */
    uint32_t unit;      /* on that node, in the order of the CSV */
    uint32_t catalog;   /* of its names */
    uint32_t host;      /* of its name */
    uint32_t flags;     /* enum hl_entry_flags */
    uint32_t hwm_pages; /* highest resident set in 4 KiB */
    uint64_t n_rows;
    uint64_t bytes; /* of its stream */
    uint64_t start_ticks;
    uint64_t n_points : 40, n_points_lost : 24; /* of its timeline; of these, lost */
};

_Static_assert(sizeof(struct hl_entry) == 64, "an entry is 64 bytes");

enum { HL_POINTS_LOST_MAX = (1 << 24) - 1 };
#define HL_POINTS_MAX (((uint64_t)1 << 40) - 1)

/* Points that can be read. */
static inline uint64_t hl_entry_points(const struct hl_entry *e)
{
    return e->n_points - e->n_points_lost;
}
/* Of a timeline with more than can be counted here nothing is read. */
static inline void hl_entry_set_points(struct hl_entry *e, uint64_t n, uint64_t lost)
{
    int fits = n <= HL_POINTS_MAX && lost <= HL_POINTS_LOST_MAX && lost <= n;
    e->n_points = fits ? n : HL_POINTS_LOST_MAX;
    e->n_points_lost = fits ? lost : HL_POINTS_LOST_MAX;
}

static inline unsigned hl_entry_ended(const struct hl_entry *e)
{
    return e->flags >> HL_ENTRY_ENDED_SHIFT & 15;
}

#endif
