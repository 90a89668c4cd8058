/* SPDX-License-Identifier: Apache-2.0
 *
 * How long turns of the event loop take: the longest and the 99th percentile of
 * the last minute.  A histogram for each slice of five seconds; the oldest is
 * reused.  Pure: the loop hands over durations and the time.
 */
#ifndef HL_DELAY_H
#define HL_DELAY_H

#include <stdint.h>

enum {
    HL_DELAY_SLICES = 12,
    HL_DELAY_SLICE_S = 5,
    HL_DELAY_FIRST_BIT = 10, /* below 1024 ns all is one bucket */
    HL_DELAY_BUCKETS = 1 + 4 * (40 - HL_DELAY_FIRST_BIT)
};

struct hl_delay_slice {
    int64_t number; /* of the slice since the clock's start, plus one; 0: empty */
    uint64_t max_ns;
    uint32_t n[HL_DELAY_BUCKETS];
};

/* A zeroed structure is empty. */
struct hl_delay {
    struct hl_delay_slice slice[HL_DELAY_SLICES];
};

/* A turn that ended at now_ns (monotonic) took so long. */
void hl_delay_add(struct hl_delay *d, int64_t now_ns, uint64_t took_ns);
/* Of the minute before now_ns; 0 where there was none.  The percentile is at most
 * a quarter above the true one, and never above the longest. */
void hl_delay_read(const struct hl_delay *d, int64_t now_ns, uint64_t *max_ns,
                   uint64_t *p99_ns);

#endif
