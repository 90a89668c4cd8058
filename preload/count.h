/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: what each allocation and each release adds.  Two additions to
 * memory that only this thread writes, and one comparison; no lock, no atomic
 * operation, no call.  The comparisons are explained in heap_page.h.
 */
#ifndef HL_COUNT_H
#define HL_COUNT_H

#include "agent.h"

/* Readers in other threads and processes must see whole values, and a signal
 * handler that allocates must not fall between load and store where the machine
 * can help it: on x86-64 this is one instruction. */
static inline void hl_add(void *word, uint64_t n)
{
#if defined __x86_64__
    __asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)word) : "er"(n) : "cc");
#else
    uint64_t *w = word;
    __atomic_store_n(w, __atomic_load_n(w, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
#endif
}

static inline void *hl_count_alloc(void *p)
{
    if (HL_RARE(!p))
        return NULL;
    int64_t bytes = (int64_t)hl_next.usable(p);
    struct hl_heap_slot *s = hl_mine.slot;
    hl_add(&s->allocs, 1);
    hl_add(&s->net_bytes, (uint64_t)bytes);
    HL_ORDER(); /* who sets the limits reckons with this order, see peak.c */
    if (HL_RARE(s->net_bytes > __atomic_load_n(&s->high_bytes, __ATOMIC_RELAXED)))
        return hl_alloc_beyond(p, bytes);
    return p;
}

static inline void hl_count_free(void *p)
{
    int64_t bytes = (int64_t)hl_next.usable(p);
    struct hl_heap_slot *s = hl_mine.slot;
    hl_add(&s->frees, 1);
    hl_add(&s->net_bytes, (uint64_t)-bytes);
    HL_ORDER();
    if (HL_RARE(s->net_bytes < __atomic_load_n(&s->low_bytes, __ATOMIC_RELAXED)))
        hl_free_beyond(-bytes);
}

/* A realloc of a block of old bytes that succeeded: one step for the peak. */
static inline void *hl_count_realloc(void *q, int64_t old, unsigned frees)
{
    int64_t bytes = (q ? (int64_t)hl_next.usable(q) : 0) - old;
    struct hl_heap_slot *s = hl_mine.slot;
    hl_add(&s->frees, frees);
    hl_add(&s->allocs, q != NULL);
    hl_add(&s->net_bytes, (uint64_t)bytes);
    HL_ORDER(); /* who sets the limits reckons with this order, see peak.c */
    if (HL_RARE(s->net_bytes > __atomic_load_n(&s->high_bytes, __ATOMIC_RELAXED) ||
                s->net_bytes < __atomic_load_n(&s->low_bytes, __ATOMIC_RELAXED)))
        hl_realloc_beyond(bytes, frees, q != NULL);
    return q;
}

#endif
