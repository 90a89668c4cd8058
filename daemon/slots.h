/* SPDX-License-Identifier: Apache-2.0
 *
 * Small numbers for processes: a name at the service manager and a place in the
 * file of samples.  The lowest free one is given, so that both stay small.  Pure.
 */
#ifndef HL_SLOTS_H
#define HL_SLOTS_H

#include <stdint.h>

enum { HL_SLOTS_MAX = 65536 };

/* A zeroed structure is all free. */
struct hl_slots {
    uint64_t used[HL_SLOTS_MAX / 64];
    uint32_t full_below; /* words before this one are full */
};

/* The lowest free number; -1: none is left. */
int32_t hl_slots_take(struct hl_slots *s);
/* This one; 0, or -1: it is taken or out of bounds. */
int hl_slots_take_at(struct hl_slots *s, uint32_t number);
void hl_slots_give(struct hl_slots *s, uint32_t number);

#endif
