/* SPDX-License-Identifier: Apache-2.0
 *
 * Histogram of the turns of the loop; see delay.h.
 */
#include "delay.h"

#include <string.h>

static int64_t slice_number(int64_t now_ns)
{
    return now_ns / ((int64_t)HL_DELAY_SLICE_S * 1000000000) + 1;
}

/* Four buckets for each power of two. */
static unsigned bucket_of(uint64_t ns)
{
    if (ns >> HL_DELAY_FIRST_BIT == 0)
        return 0;
    unsigned bit = 63 - (unsigned)__builtin_clzll(ns);
    unsigned i = 1 + 4 * (bit - HL_DELAY_FIRST_BIT) + (unsigned)(ns >> (bit - 2) & 3);
    return i < HL_DELAY_BUCKETS ? i : HL_DELAY_BUCKETS - 1;
}

/* The first duration that belongs into the next one. */
static uint64_t end_of(unsigned bucket)
{
    if (!bucket)
        return (uint64_t)1 << HL_DELAY_FIRST_BIT;
    unsigned bit = HL_DELAY_FIRST_BIT + (bucket - 1) / 4;
    return (uint64_t)(5 + (bucket - 1) % 4) << (bit - 2);
}

void hl_delay_add(struct hl_delay *d, int64_t now_ns, uint64_t took_ns)
{
    int64_t number = slice_number(now_ns);
    struct hl_delay_slice *s = &d->slice[(uint64_t)number % HL_DELAY_SLICES];
    if (s->number != number) {
        memset(s, 0, sizeof *s);
        s->number = number;
    }
    if (took_ns > s->max_ns)
        s->max_ns = took_ns;
    s->n[bucket_of(took_ns)]++;
}

void hl_delay_read(const struct hl_delay *d, int64_t now_ns, uint64_t *max_ns,
                   uint64_t *p99_ns)
{
    int64_t last = slice_number(now_ns);
    uint64_t sum[HL_DELAY_BUCKETS] = {0}, total = 0, seen = 0;
    *max_ns = *p99_ns = 0;
    for (int i = 0; i < HL_DELAY_SLICES; i++) {
        const struct hl_delay_slice *s = &d->slice[i];
        if (!s->number || s->number > last || s->number <= last - HL_DELAY_SLICES)
            continue;
        *max_ns = s->max_ns > *max_ns ? s->max_ns : *max_ns;
        for (int b = 0; b < HL_DELAY_BUCKETS; b++)
            total += s->n[b], sum[b] += s->n[b];
    }
    for (unsigned b = 0; total && b < HL_DELAY_BUCKETS; b++) {
        seen += sum[b];
        if (seen * 100 < total * 99)
            continue;
        *p99_ns = end_of(b) < *max_ns ? end_of(b) : *max_ns;
        return;
    }
}
