/* SPDX-License-Identifier: Apache-2.0
 *
 * The lowest free number, from a map of bits; see slots.h.
 */
#include "slots.h"

enum { WORDS = HL_SLOTS_MAX / 64 };

int32_t hl_slots_take(struct hl_slots *s)
{
    while (s->full_below < WORDS && s->used[s->full_below] == UINT64_MAX)
        s->full_below++;
    if (s->full_below == WORDS)
        return -1;
    int bit = __builtin_ctzll(~s->used[s->full_below]);
    s->used[s->full_below] |= (uint64_t)1 << bit;
    return (int32_t)(64 * s->full_below) + bit;
}

int hl_slots_take_at(struct hl_slots *s, uint32_t number)
{
    if (number >= HL_SLOTS_MAX || s->used[number / 64] >> number % 64 & 1)
        return -1;
    s->used[number / 64] |= (uint64_t)1 << number % 64;
    return 0;
}

void hl_slots_give(struct hl_slots *s, uint32_t number)
{
    if (number >= HL_SLOTS_MAX)
        return;
    s->used[number / 64] &= ~((uint64_t)1 << number % 64);
    if (number / 64 < s->full_below)
        s->full_below = number / 64;
}
